{-# LANGUAGE TupleSections #-}

-- Must not know: files.

-- | An application that can be replaced while requests run.
module Millrace.Cli.Serve.Replaceable
  ( Maker,
    withReplaceable,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar, tryPutMVar)
import Control.Exception (SomeException, bracket, finally, mask, throwIO, try)
import Control.Monad (void, (>=>))
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Millrace.Http.Expiring
import Network.Wai (Application)

-- | Runs an action with an application that is there until the action ends.
type Maker = (Application -> IO ()) -> IO ()

-- | Runs an action with an application, and a function that replaces it: new requests then go to the new application.
-- The earlier one stays until its last request has ended. If the new one cannot be made, replacing throws what its
-- maker throws, and the earlier one stays. A request costs two atomic operations more.
withReplaceable :: Maker -> (Application -> (Maker -> IO ()) -> IO a) -> IO a
withReplaceable first use = bracket (begin first >>= newIORef) (readIORef >=> release) $ \current -> do
  let replace make = mask $ \_ -> begin make >>= \next -> atomicModifyIORef' current (next,) >>= release
  use (serving current) replace
  where
    serving current request respond = do
      found <- readIORef current
      mask $ \restore -> do
        isThere <- retain found
        if isThere
          then restore (sharedValue found request respond) `finally` release found
          else restore (serving current request respond)

-- The application ends when its last user has released it.
begin :: Maker -> IO (Shared Application)
begin make = do
  made <- newEmptyMVar
  over <- newEmptyMVar
  void . forkIO $ do
    outcome <- try (make (\application -> putMVar made (Right application) >> takeMVar over))
    either (\failure -> void (tryPutMVar made (Left (failure :: SomeException)))) pure outcome
  takeMVar made >>= either throwIO (share (void (tryPutMVar over ())))
