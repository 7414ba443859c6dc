{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}

-- Must not know: sockets.

-- | A type for each use of descriptors without offsets that are not sockets: the two ends of a pipe, terminals, and the
-- standard streams.
module Millrace.Internal.DescriptorTypes
  ( ReadEnd (..),
    WriteEnd (..),
    Terminal (..),
    PseudoTerminal (..),
    standardInput,
    standardOutput,
    standardError,
  )
where

import Millrace.Internal.StreamDescriptor (StreamDescriptor, newShared)
import System.IO.Unsafe (unsafePerformIO)

-- | The end of a pipe from which bytes are read.
newtype ReadEnd = ReadEnd StreamDescriptor
  deriving newtype (Eq, Show)

-- | The end of a pipe into which bytes are written.
newtype WriteEnd = WriteEnd StreamDescriptor
  deriving newtype (Eq, Show)

-- | The terminal that this program was started from.
newtype Terminal = Terminal StreamDescriptor
  deriving newtype (Eq, Show)

-- | This program's side of a terminal that was made for a process.
newtype PseudoTerminal = PseudoTerminal StreamDescriptor
  deriving newtype (Eq, Show)

-- | The standard streams, which other programs share.
standardInput, standardOutput, standardError :: StreamDescriptor
standardInput = unsafePerformIO (newShared "standard input" 0)
{-# NOINLINE standardInput #-}
standardOutput = unsafePerformIO (newShared "standard output" 1)
{-# NOINLINE standardOutput #-}
standardError = unsafePerformIO (newShared "standard error" 2)
{-# NOINLINE standardError #-}
