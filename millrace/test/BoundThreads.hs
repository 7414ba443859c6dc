-- | Bound threads stay on a capability that is switched off, and can still do everything.
module BoundThreads (boundThreads) where

import Control.Concurrent
  ( forkOS,
    getNumCapabilities,
    isCurrentThreadBound,
    myThreadId,
    setNumCapabilities,
    threadCapability,
    yield,
  )
import Control.Concurrent.MVar
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (forM, unless, void, when)
import Data.IORef
import Data.Maybe (isNothing)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Support

-- | Runs an action with bound threads on capability 1 after that was switched off.
boundThreads :: IO ()
boundThreads = do
  setNumCapabilities 2
  go <- newEmptyMVar
  threads <- boundThreadsOn 1 8 (readMVar go >> everything)
  setNumCapabilities 1
  putMVar go ()
  results <- within 20 "the bound threads" (mapM takeMVar threads)
  mapM_ (either throwIO return) results
  inFlightNow `shouldBecome` 0

-- | Makes a number of bound threads on a capability. A program cannot choose on which capability a bound thread begins.
-- So threads that begin elsewhere end at once, while other capabilities are kept busy.
boundThreadsOn :: Int -> Int -> IO () -> IO [MVar (Either SomeException ())]
boundThreadsOn wanted count action = within 10 "finding bound threads on another capability" $ do
  found <- newIORef []
  over <- newIORef False
  capabilities <- getNumCapabilities
  spinners <- forM (filter (/= wanted) [0 .. capabilities - 1]) $ \number -> startOn number (spinUntil over)
  let search = do
        enough <- (>= count) . length <$> readIORef found
        unless enough $ do
          result <- newEmptyMVar
          outcome <- newEmptyMVar
          void $
            forkOS $ do
              (capability, _) <- myThreadId >>= threadCapability
              putMVar result capability
              when (capability == wanted) $ try action >>= putMVar outcome
          capability <- takeMVar result
          when (capability == wanted) $ modifyIORef' found (outcome :)
          search
  search
  writeIORef over True
  mapM_ finish spinners
  readIORef found
  where
    spinUntil over = do
      done <- readIORef over
      unless done (yield >> spinUntil over)

everything :: IO ()
everything = do
  isBound <- isCurrentThreadBound
  require isBound "the thread is not bound"
  withTcpPair $ \one other -> do
    echoing <- start (echoStream other 0)
    void (sendStream one 0 100000)
    void (receiveExactly one 0 100000)
    shutdown one ShutdownSend
    end <- finish echoing
    require (end == 100000) ("echoed " ++ show end ++ " bytes")
  threadDelay 5000
  withUnixPair $ \one other -> do
    nothing <- timeout 5000 (recv one 10)
    require (isNothing nothing) "received from nowhere"
    deadline <- deadlineAfter (milliseconds 5)
    problem <- failsWith (void (recvBefore deadline one 10))
    require (isDeadlineError problem) (show problem)
    sendAll other (bytesAt 0 10)
    bytes <- recv one 10
    require (bytes == bytesAt 0 10) "lost bytes"
  done <- newEmptyMVar
  manager <- getSystemTimerManager
  unwanted <- registerTimeout manager 10000 (putMVar done False)
  unregisterTimeout manager unwanted
  void (registerTimeout manager 20000 (putMVar done True))
  fired <- takeMVar done
  unless fired $ ioError (userError "a timeout fired that was unregistered")
