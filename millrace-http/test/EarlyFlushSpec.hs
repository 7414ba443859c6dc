-- | Output that is sent when an application's thread gives up the processor.
module EarlyFlushSpec (spec) where

import Control.Concurrent
import Control.Exception (MaskingState (..), getMaskingState)
import Control.Monad (replicateM, replicateM_, void, when, (>=>))
import Data.IORef
import Data.Primitive.ByteArray (newByteArray, writeByteArray)
import Millrace.Http.EarlyFlush
import Support (within)
import Test.Hspec

spec :: Spec
spec = describe "an early flush" $ do
  it "runs once, masked, when the thread that has armed it waits" $ do
    (flushers, early) <- (,) <$> newFlushers <*> newEarlyFlush
    runs <- newIORef []
    armFlush flushers early (getMaskingState >>= \state -> modifyIORef runs (state :))
    threadDelay 20000
    settleFlush early
    readIORef runs `shouldReturn` [MaskedInterruptible]
  it "is waited for by who settles it" $ do
    (flushers, early) <- (,) <$> newFlushers <*> newEarlyFlush
    begun <- newEmptyMVar
    ended <- newIORef False
    armFlush flushers early (putMVar begun () >> threadDelay 50000 >> writeIORef ended True)
    takeMVar begun
    within "the end of the flush" (settleFlush early)
    readIORef ended `shouldReturn` True
  it "that has begun is hastened by who retires it" $ do
    (flushers, early) <- (,) <$> newFlushers <*> newEarlyFlush
    (begun, gate) <- (,) <$> newEmptyMVar <*> newEmptyMVar
    armFlush flushers early (putMVar begun () >> takeMVar gate)
    takeMVar begun
    within "the end of the flush" (retireFlush early (putMVar gate ()))
    tryTakeMVar gate `shouldReturn` Nothing
  it "is never run and settled both, on any capability" $ do
    flushers <- newFlushers
    outcomes <- replicateM 8 (forkedResult (replicateM 2000 (oneConnection flushers)))
    mapM_ (takeMVar >=> (`shouldSatisfy` and)) outcomes
  it "is run by the same few threads, batch after batch" $ runInBoundThread $ do
    flushers <- newFlushers
    threads <- newIORef []
    replicateM_ 500 $ do
      early <- newEarlyFlush
      ran <- newEmptyMVar
      armFlush flushers early (myThreadId >>= \self -> modifyIORef threads (self :) >> putMVar ran ())
      takeMVar ran
      settleFlush early
    seen <- readIORef threads
    length (distinct seen) `shouldSatisfy` (<= 8)
  where
    newEarlyFlush = do
      word <- newByteArray 8
      writeByteArray word 0 (0 :: Int)
      EarlyFlush word 0 <$> newSender
    -- What is written by both is a plain counter: two at once would lose a step, and a flush after settling adds one.
    oneConnection flushers = do
      early <- newEarlyFlush
      steps <- newIORef (0 :: Int)
      and <$> mapM (attempt flushers early steps) [1 .. 5 :: Int]
    attempt flushers early steps batch = do
      count <- readIORef steps
      armFlush flushers early (readIORef steps >>= writeIORef steps . (+ 1))
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
