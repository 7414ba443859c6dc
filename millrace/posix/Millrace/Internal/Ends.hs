-- | Descriptors without offsets that are no sockets, by what they are for: the two ends of a pipe, terminals, and the standard
-- streams. Must not know: sockets.
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
--
-- @since 0.1.0
newtype ReadEnd = ReadEnd Plain
  deriving (Eq)

instance Show ReadEnd where
  showsPrec d (ReadEnd plain) = showsPrec d plain

-- | Where bytes go into a pipe.
--
-- @since 0.1.0
newtype WriteEnd = WriteEnd Plain
  deriving (Eq)

instance Show WriteEnd where
  showsPrec d (WriteEnd plain) = showsPrec d plain

-- | The terminal that this program was started from.
--
-- @since 0.1.0
newtype Terminal = Terminal Plain
  deriving (Eq)

instance Show Terminal where
  showsPrec d (Terminal plain) = showsPrec d plain

-- | This program's side of a terminal that was made for a process.
--
-- @since 0.1.0
newtype PseudoTerminal = PseudoTerminal Plain
  deriving (Eq)

instance Show PseudoTerminal where
  showsPrec d (PseudoTerminal plain) = showsPrec d plain

-- | The standard streams, which other programs share.
standardInput, standardOutput, standardError :: Plain
standardInput = unsafePerformIO (newShared "standard input" 0)
{-# NOINLINE standardInput #-}
standardOutput = unsafePerformIO (newShared "standard output" 1)
{-# NOINLINE standardOutput #-}
standardError = unsafePerformIO (newShared "standard error" 2)
{-# NOINLINE standardError #-}
