-- | The two ends of a pipe. Must not know: sockets.
module Millrace.Internal.Ends (ReadEnd (..), WriteEnd (..)) where

import Millrace.Internal.Plain (Plain)

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
