-- |
-- Something that several need, and that the last of them lets go of. Must not know: the rest of Millrace.
--
-- @since 0.1.0
module Millrace.Http.Shared (Shared, share, sharedValue, retain, release) where

import Control.Exception (mask_)
import Control.Monad (when)
import Data.IORef

-- | A value, how many need it, and how to let go of it.
--
-- @since 0.1.0
data Shared a = Shared a !(IORef Int) (IO ())

-- | @share letGo value@ is needed by the caller, and let go of once nobody needs it.
--
-- > file <- share (closeFd descriptor) descriptor
--
-- @since 0.1.0
share :: IO () -> a -> IO (Shared a)
share letGo value = (\uses -> Shared value uses letGo) <$> newIORef 1

-- | The value, for those who need it.
--
-- @since 0.1.0
sharedValue :: Shared a -> a
sharedValue (Shared value _ _) = value

-- | One more needs it. False if nobody did any more: it is gone. O(1), does not block.
--
-- @since 0.1.0
retain :: Shared a -> IO Bool
retain (Shared _ uses _) = atomicModifyIORef' uses (\count -> if count == 0 then (0, False) else (count + 1, True))

-- | One less needs it. The last one lets go of it.
--
-- @since 0.1.0
release :: Shared a -> IO ()
release (Shared _ uses letGo) = mask_ $ do
  left <- atomicModifyIORef' uses (\count -> (count - 1, count - 1))
  when (left == 0) letGo
