-- | Output that is sent when an application's thread gives up the processor.
module EarlyFlushSpec (spec) where

import Control.Concurrent
import Control.Exception (MaskingState (..), getMaskingState)
import Control.Monad (replicateM, replicateM_, void, when, (>=>))
import Control.Monad.Primitive (RealWorld)
import Data.IORef
import Data.Primitive.ByteArray (MutableByteArray, newByteArray, writeByteArray)
import Millrace.Http.EarlyFlush
import Millrace.Http.Threads
import Support (within)
import Test.Hspec

data Early = Early
  { earlyWord :: MutableByteArray RealWorld,
    earlySender :: IORef Sender,
    earlyThreads :: Threads,
    earlyAction :: IO ()
  }

instance FlushesEarly Early where
  flushState early = (earlyWord early, 0)
  flushSender = earlySender
  flushThreads = earlyThreads
  flushNow = earlyAction

spec :: Spec
spec = describe "an early flush" $ do
  it "runs once, masked, when the thread that has armed it waits" $ do
    runs <- newIORef []
    early <- newThreads >>= newEarlyFlush (getMaskingState >>= \state -> modifyIORef runs (state :))
    armFlush early
    threadDelay 20000
    settleFlush early
    readIORef runs `shouldReturn` [MaskedInterruptible]
  it "is waited for by who settles it" $ do
    begun <- newEmptyMVar
    ended <- newIORef False
    early <- newThreads >>= newEarlyFlush (putMVar begun () >> threadDelay 50000 >> writeIORef ended True)
    armFlush early
    takeMVar begun
    within "the end of the flush" (settleFlush early)
    readIORef ended `shouldReturn` True
  it "that has begun is hastened by who retires it" $ do
    (begun, gate) <- (,) <$> newEmptyMVar <*> newEmptyMVar
    early <- newThreads >>= newEarlyFlush (putMVar begun () >> takeMVar gate)
    armFlush early
    takeMVar begun
    within "the end of the flush" (retireFlush early (putMVar gate ()))
    tryTakeMVar gate `shouldReturn` Nothing
  it "is never run and settled both, on any capability" $ do
    threads <- newThreads
    outcomes <- replicateM 8 (forkedResult (replicateM 2000 (oneConnection threads)))
    mapM_ (takeMVar >=> (`shouldSatisfy` and)) outcomes
  it "is run by the same few threads, batch after batch" $
    runInBoundThread $ do
      threads <- newThreads
      seenIn <- newIORef []
      replicateM_ 500 $ do
        ran <- newEmptyMVar
        early <- newEarlyFlush (myThreadId >>= \self -> modifyIORef seenIn (self :) >> putMVar ran ()) threads
        armFlush early
        takeMVar ran
        settleFlush early
      seen <- readIORef seenIn
      length (distinct seen) `shouldSatisfy` (<= 8)
  where
    newEarlyFlush flush threads = do
      word <- newByteArray 8
      writeByteArray word 0 (0 :: Int)
      sender <- newSender
      return (Early word sender threads flush)
    -- Both threads increment a plain counter: two flushes at once would lose an increment, and one after settling would
    -- add one.
    oneConnection threads = do
      steps <- newIORef (0 :: Int)
      early <- newEarlyFlush (readIORef steps >>= writeIORef steps . (+ 1)) threads
      and <$> mapM (attempt early steps) [1 .. 5 :: Int]
    attempt early steps batch = do
      count <- readIORef steps
      armFlush early
      when (odd batch) yield
      settleFlush early
      settled <- readIORef steps
      yield
      later <- readIORef steps
      return (settled == later && settled - count <= 1)
    forkedResult action = do
      result <- newEmptyMVar
      void (forkIO (action >>= putMVar result))
      return result
    distinct (first : others) = first : distinct (filter (/= first) others)
    distinct [] = []
