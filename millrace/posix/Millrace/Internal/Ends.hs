{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}

-- | Descriptors without offsets that are no sockets, by what they are for: the two ends of a pipe, terminals, and the
-- standard streams. Must not know: sockets.
module Millrace.Internal.Ends
  ( ReadEnd (..),
    WriteEnd (..),
    Terminal (..),
    PseudoTerminal (..),
    standardInput,
    standardOutput,
    standardError,
  )
where

import Millrace.Internal.Plain (Plain, newShared)
import System.IO.Unsafe (unsafePerformIO)

-- | What comes out of a pipe.
newtype ReadEnd = ReadEnd Plain
  deriving newtype (Eq, Show)

-- | Where bytes go into a pipe.
newtype WriteEnd = WriteEnd Plain
  deriving newtype (Eq, Show)

-- | The terminal that this program was started from.
newtype Terminal = Terminal Plain
  deriving newtype (Eq, Show)

-- | This program's side of a terminal that was made for a process.
newtype PseudoTerminal = PseudoTerminal Plain
  deriving newtype (Eq, Show)

-- | The standard streams, which other programs share.
standardInput, standardOutput, standardError :: Plain
standardInput = unsafePerformIO (newShared "standard input" 0)
{-# NOINLINE standardInput #-}
standardOutput = unsafePerformIO (newShared "standard output" 1)
{-# NOINLINE standardOutput #-}
standardError = unsafePerformIO (newShared "standard error" 2)
{-# NOINLINE standardError #-}
