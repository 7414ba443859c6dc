{-# LANGUAGE CApiFFI #-}

-- | GHC retires operating system threads while operations that they submitted are in flight. The operations must
-- complete nevertheless.
module ThreadChurnSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM, forM_, replicateM, unless, void, when)
import qualified Data.ByteString as ByteString
import Data.IORef
import qualified Data.Set as Set
import Foreign.C.Types (CInt (..), CUInt (..))
import Millrace.Deadline
import qualified Millrace.Manager as Manager
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Millrace.Timer as Timer
import Support
import System.Directory (listDirectory)
import Test.Hspec hiding (after, before)

foreign import capi safe "unistd.h usleep" c_usleep :: CUInt -> IO CInt

spec :: Spec
spec = describe "several hundred safe foreign calls in flight" $
  it "earn no operation an error, while thousands are parked" $
    within 240 "the whole test" $ do
      ended <- newIORef Set.empty
      over <- newIORef False
      withoutLeaks $ do
        churners <- forM [1 .. 500] $ \seed -> start $ do
          random <- newRandom seed
          -- What it submits after the call is submitted by the thread that made the call, and is soon one too many.
          untilTrue over $ do
            void $ between random 20000 60000 >>= c_usleep . fromIntegral
            between random 1 10000 >>= Timer.threadDelay
        watcher <- start (watchThreads ended)
        traffic
        stop watcher
        writeIORef over True
        mapM_ finish churners
      retired <- Set.size <$> readIORef ended
      -- Otherwise the test has not shown anything: threads end, and the kernel cancels what they had submitted.
      retired `shouldSatisfy` (> 500)
      backend <- Manager.chosenBackend
      resubmitted <- Manager.resubmissions <$> Manager.counters
      when (backend == Manager.IoUring) $ resubmitted `shouldSatisfy` (> 100)

untilTrue :: IORef Bool -> IO () -> IO ()
untilTrue over action = do
  done <- readIORef over
  unless done (action >> untilTrue over action)

-- | Collects the operating system threads that have ended.
watchThreads :: IORef (Set.Set String) -> IO ()
watchThreads ended = go Set.empty
  where
    go before = do
      now <- Set.fromList <$> listDirectory "/proc/self/task"
      modifyIORef' ended (Set.union (Set.difference before now))
      threadDelay 5000
      go now

-- Every connection has a receive parked at each end; now and then one of them is served.
traffic :: IO ()
traffic = bracket (replicateM 950 unixPair) (mapM_ closeBoth) $ \pairs ->
  bracket (replicateM 50 tcpPair) (mapM_ closeBoth) $ \tcpPairs -> do
    sleepers <- forM [1 .. 500] $ \seed -> start $ do
      random <- newRandom seed
      forM_ [1 .. 20 :: Int] $ \_ -> between random 1 100000 >>= Timer.threadDelay
    jobs <- forM (zip [1 ..] (pairs ++ tcpPairs)) $ \(seed, (one, other)) -> do
      far <- start (echoSlowly other 0)
      -- With deadlines and without them, and one receiver that waits through everything.
      near <- start $ do
        random <- newRandom seed
        exchange random one 15 0
      return (near, far)
    listening <- start acceptSome
    positions <- forM jobs $ \(near, far) -> (,) <$> finish near <*> finish far
    forM_ positions $ uncurry shouldBe
    mapM_ finish sleepers
    finish listening
  where
    closeBoth (one, other) = close one >> close other

exchange :: Random -> Socket -> Int -> Int -> IO Int
exchange _ s 0 position = position <$ shutdown s ShutdownSend
exchange random s turns position = do
  between random 1 200000 >>= Timer.threadDelay
  size <- between random 1 3000
  deadline <- deadlineAfter (seconds 30)
  void (c_usleep 100)
  sendAllBefore deadline s (bytesAt position size)
  next <- receiveExactly s position size
  exchange random s (turns - 1) next

echoSlowly :: Socket -> Int -> IO Int
echoSlowly s position = do
  bytes <- recv s 4096
  if ByteString.null bytes
    then return position
    else do
      next <- checkFrom position bytes
      void (c_usleep 100)
      sendAll s bytes
      echoSlowly s next

acceptSome :: IO ()
acceptSome = withListener $ \listener address -> do
  server <- start $
    forM_ [1 .. 100 :: Int] $ \_ ->
      bracket (fst <$> accept listener) close $ \s -> void (echoSlowly s 0)
  random <- newRandom 77
  forM_ [1 .. 100 :: Int] $ \_ -> bracket (connectTo address) close $ \s -> do
    between random 1 20000 >>= Timer.threadDelay
    void (sendStream s 0 100)
    void (receiveExactly s 0 100)
  finish server
