{-# LANGUAGE RankNTypes #-}

-- | Work in another thread that ends with the action beside it. Must not know: HTTP.
module Millrace.Proxy.Meanwhile (meanwhile) where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Concurrent.MVar
import Control.Exception (bracket, finally)

-- | @meanwhile work action@ runs an action while another thread runs @work@, which starts masked and gets a function that
-- unmasks. When the action ends, kills the thread and waits for its end.
meanwhile :: ((forall b. IO b -> IO b) -> IO ()) -> IO a -> IO a
meanwhile work action = do
  ended <- newEmptyMVar
  bracket
    (forkIOWithUnmask (\unmask -> work unmask `finally` putMVar ended ()))
    (\thread -> killThread thread >> readMVar ended)
    (const action)
