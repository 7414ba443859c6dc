-- |
-- A shared resource with a count of its users. The last user releases it. Must not know: the rest of Millrace.
module Millrace.Http.Shared (Shared, share, sharedValue, retain, release) where

import Control.Exception (mask_)
import Control.Monad (when)
import Data.IORef

-- | A value, the number of its users, and the action that releases it.
data Shared a = Shared a !(IORef Int) (IO ())

-- | @share release value@ makes a shared value with one user, the caller. @release@ runs when there are no users any
-- more.
--
-- > file <- share (closeFd descriptor) descriptor
share :: IO () -> a -> IO (Shared a)
share letGo value = (\uses -> Shared value uses letGo) <$> newIORef 1

-- | The value. Only its users may call this.
sharedValue :: Shared a -> a
sharedValue (Shared value _ _) = value

-- | Adds a user. False if there were none: the value has been released. O(1), does not block.
retain :: Shared a -> IO Bool
retain (Shared _ uses _) = atomicModifyIORef' uses (\count -> if count == 0 then (0, False) else (count + 1, True))

-- | Removes a user. The last one releases the value.
release :: Shared a -> IO ()
release (Shared _ uses letGo) = mask_ $ do
  left <- atomicModifyIORef' uses (\count -> (count - 1, count - 1))
  when (left == 0) letGo
