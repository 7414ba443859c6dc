-- | The handles of "Millrace.Operation", for the modules that may look into them.
module Millrace.Internal.Handle
  ( Handle (..),
    descriptorOf,
    retryWaiting,
  )
where

import Data.Word (Word64)
import Foreign.C.Types (CInt)
import Millrace.Internal.CoreCalls (c_retry_waiting)

-- | A descriptor together with its generation: a handle never means a later descriptor with the same number.
newtype Handle = Handle Word64
  deriving (Eq, Ord)

instance Show Handle where
  showsPrec _ handle = showString "<descriptor " . shows (descriptorOf handle) . showChar '>'

-- | The descriptor's number. It means this descriptor only until the handle is closed.
descriptorOf :: Handle -> CInt
descriptorOf (Handle handle) = fromIntegral handle

-- | Ends every operation on the handle that waits to receive or to accept with 'Millrace.Internal.CoreCalls.Retry', so
-- that its thread looks for kept bytes, messages and connections, and submits the operation again. Does not block.
retryWaiting :: Handle -> IO ()
retryWaiting (Handle handle) = c_retry_waiting handle
