-- | Threads that wait for operations stay on their capabilities.
module StayingSpec (spec) where

import Control.Concurrent (ThreadId, myThreadId, setNumCapabilities, threadCapability)
import Control.Concurrent.MVar
import Control.Exception (bracket, evaluate, finally)
import Control.Monad (forM, forM_, forever, replicateM, unless, void)
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.List (nub)
import Millrace.Socket
import Millrace.Socket.ByteString
import Support
import Test.Hspec

spec :: Spec
spec = around_ (keepingCapabilities . (setNumCapabilities 2 >>)) $
  describe "a thread that waits for an operation" $ do
    needingKnownLayout . it "stays on its capability until it has run again, and may be moved then" $
      withUnixPair $ \one other -> do
        -- On a busy machine threads may be slow, and slow ones do not stay.
        let staysInTime tries = do
              (thread, reader) <- reporting start (recv one 1)
              pause 20000
              (_, stays) <- threadCapability thread
              sendAll other (ByteString.singleton 1)
              void (finish reader)
              if stays || tries == 0 then return stays else staysInTime (tries - 1)
        staysInTime (100 :: Int) `shouldReturn` True
        lockedAfter <- finish =<< start (exchangeBytes one other >> isLocked)
        lockedAfter `shouldBe` False
    it "may be moved after its operation was interrupted" $
      withUnixPair $ \one _ -> do
        outcome <- newEmptyMVar
        reader <- start (recv one 1 `finally` (isLocked >>= putMVar outcome))
        pause 20000
        stop reader
        takeMVar outcome `shouldReturn` False
    it "stays for good if it was forked so" $
      withUnixPair $ \one other ->
        (startOn 1 (exchangeBytes one other >> isLocked) >>= finish) `shouldReturn` True
    it "is moved to an idle capability if it computes" $
      withMany 8 $ \pairs -> do
        setNumCapabilities 1
        seen <- newIORef []
        workers <- forM pairs $ \(near, _) -> start (forever (recv near 1 >>= compute >> note seen))
        pause 20000
        setNumCapabilities 2
        let untilMoved = do
              forM_ pairs (\(_, far) -> sendAll far (ByteString.singleton 1)) >> pause 30000
              count <- length . nub <$> readIORef seen
              unless (count == 2) untilMoved
        within 60 "one that moves" untilMoved `finally` mapM_ stop workers
  where
    -- Of what has come: a constant would be computed once.
    compute bytes =
      void (evaluate (length (show (product [1 .. 2499 + fromIntegral (ByteString.length bytes) :: Integer]))))
    note seen = do
      (capability, _) <- myThreadId >>= threadCapability
      atomicModifyIORef' seen (\others -> (capability : others, ()))
    exchangeBytes one other = do
      answer <- start (recv one 1)
      pause 10000
      sendAll other (ByteString.singleton 1)
      finish answer
    isLocked = snd <$> (myThreadId >>= threadCapability)

-- The job, and the thread that does it.
reporting :: (IO a -> IO (Job a)) -> IO a -> IO (ThreadId, Job a)
reporting begin action = do
  identity <- newEmptyMVar
  job <- begin (myThreadId >>= putMVar identity >> action)
  thread <- takeMVar identity
  return (thread, job)

withMany :: Int -> ([(Socket, Socket)] -> IO a) -> IO a
withMany count = bracket (replicateM count unixPair) (mapM_ (\(near, far) -> close near >> close far))
