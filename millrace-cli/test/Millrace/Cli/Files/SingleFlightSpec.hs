-- | Values that are made once, and kept in bounded memory.
module Millrace.Cli.Files.SingleFlightSpec (spec) where

import Control.Concurrent (forkFinally, forkIO, killThread, threadDelay, yield)
import Control.Concurrent.MVar
import Control.Exception (throwIO)
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Millrace.Cli.Files.SingleFlight
import Program (within)
import Test.Hspec

spec :: Spec
spec = do
  it "makes a value once for all that want it at the same time" $ do
    values <- withBounds (Bounds 100000 2 100 600)
    runs <- newIORef (0 :: Int)
    begun <- newEmptyMVar
    permission <- newEmptyMVar
    let make = do
          atomicModifyIORef' runs (\count -> (count + 1, ()))
          putMVar begun ()
          readMVar permission
          pure (Made "value")
    first <- inThread (obtain values 'a' 1 make)
    takeMVar begun
    others <- replicateM 20 (inThread (obtain values 'a' 1 make))
    replicateM_ 100 yield
    putMVar permission ()
    mapM takeMVar (first : others) `shouldReturn` replicate 21 (Just "value")
    readIORef runs `shouldReturn` 1
    recall values 'a' `shouldReturn` Just (Just "value")
  it "makes no more at a time than it may" $ do
    values <- withBounds (Bounds 1000000 2 100 600)
    running <- newIORef (0 :: Int, 0)
    both <- newEmptyMVar
    let make = do
          now' <- atomicModifyIORef' running (\(now, most) -> ((now + 1, max most (now + 1)), now + 1))
          when (now' == 2) (void (tryPutMVar both ()))
          readMVar both
          replicateM_ 50 yield
          atomicModifyIORef' running (\(now, most) -> ((now - 1, most), ()))
          pure (Made "value")
    results <- forM [1 .. 50 :: Int] $ \key -> inThread (obtain values key 1 make)
    mapM takeMVar results `shouldReturn` replicate 50 (Just "value")
    readIORef running `shouldReturn` (0, 2)
  it "does not make what would be too much effort, nor wait for it" $ do
    values <- withBounds (Bounds 100000 2 100 600)
    (first, permission) <- blocked values 'a' 60
    obtain values 'b' 41 (fail "made") `shouldReturn` Nothing
    second <- inThread (obtain values 'c' 40 (pure (Made "c")))
    takeMVar second `shouldReturn` Just "c"
    putMVar permission ()
    takeMVar first `shouldReturn` Just "made"
    obtain values 'b' 41 (pure (Made "b")) `shouldReturn` Just "b"
  it "makes one that is too much by itself" $ do
    values <- withBounds (Bounds 100000 2 100 600)
    obtain values 'a' 101 (pure (Made "a")) `shouldReturn` Just "a"
  it "remembers that there is no value, unless that holds only now" $ do
    values <- withBounds (Bounds 100000 2 100 600)
    obtain values 'a' 1 (pure NeverMade) `shouldReturn` Nothing
    recall values 'a' `shouldReturn` Just Nothing
    obtain values 'a' 1 (fail "made again") `shouldReturn` Nothing
    obtain values 'b' 1 (pure NotMadeNow) `shouldReturn` Nothing
    recall values 'b' `shouldReturn` Nothing
    obtain values 'b' 1 (pure (Made "b")) `shouldReturn` Just "b"
  it "passes an exception to the one that made, and nothing to the others" $ do
    values <- withBounds (Bounds 100000 1 100 600)
    obtain values 'a' 100 (throwIO (userError "broken")) `shouldThrow` (== userError "broken")
    -- Its turn and its effort are free again.
    obtain values 'a' 100 (pure (Made "a")) `shouldReturn` Just "a"
  it "goes on when the one that makes is killed, or one that waits for its turn" $ do
    values <- withBounds (Bounds 100000 1 100 600)
    begun <- newEmptyMVar
    makerEnded <- newEmptyMVar
    queuedEnded <- newEmptyMVar
    maker <-
      forkFinally
        (obtain values 'a' 50 (putMVar begun () >> newEmptyMVar >>= takeMVar >> pure (Made "never")))
        (const (putMVar makerEnded ()))
    takeMVar begun
    queued <- forkFinally (obtain values 'b' 50 (pure (Made "b"))) (const (putMVar queuedEnded ()))
    waiting <- inThread (obtain values 'a' 1 (pure NotMadeNow))
    threadDelay 50000
    killThread queued
    killThread maker
    mapM_ takeMVar [makerEnded, queuedEnded]
    within 20 "the one that waits" (takeMVar waiting) `shouldReturn` Nothing
    within 20 "a turn" (obtain values 'd' 100 (pure (Made "d"))) `shouldReturn` Just "d"
  it "keeps what fits, and drops what was not used for the longest time" $ do
    values <- withBounds (Bounds 100000 1 100 600)
    forM_ [1 .. 500 :: Int] $ \key -> do
      _ <- obtain values key 1 (pure (Made (replicate 1000 'x')))
      recall values 1 >>= (`shouldSatisfy` (/= Nothing))
      keptWeight values >>= (`shouldSatisfy` (<= 100000))
    kept <- mapM (recall values) [1 .. 500]
    -- Each weighs 2,024.
    length (filter (/= Nothing) kept) `shouldSatisfy` (`elem` [45 .. 49])
    drop 490 (map (/= Nothing) kept) `shouldBe` replicate 10 True
  it "drops what was not used for some time, and keeps what was" $ do
    values <- withBounds (Bounds 100000 1 100 0.05)
    let make key = obtain values key 1 (pure (Made [key]))
    mapM_ make "ab"
    forM_ "cdef" $ \key -> do
      threadDelay 60000
      _ <- recall values 'a'
      make key
    mapM (fmap (/= Nothing) . recall values) "abcdef" `shouldReturn` [True, False, False, True, True, True]
    keptWeight values `shouldReturn` 4 * 1025
  it "does not keep what is too heavy by itself" $ do
    values <- withBounds (Bounds 100000 1 100 600)
    obtain values 'a' 1 (pure (Made (replicate 100000 'x'))) `shouldReturn` Just (replicate 100000 'x')
    recall values 'a' `shouldReturn` Nothing
    keptWeight values `shouldReturn` 0
  where
    withBounds :: Bounds -> IO (SingleFlight key String)
    withBounds bounds = newSingleFlight bounds length
    blocked values key effort = do
      begun <- newEmptyMVar
      permission <- newEmptyMVar
      result <- inThread (obtain values key effort (putMVar begun () >> takeMVar permission >> pure (Made "made")))
      takeMVar begun
      pure (result, permission)

inThread :: IO a -> IO (MVar a)
inThread action = do
  result <- newEmptyMVar
  _ <- forkIO (action >>= putMVar result)
  pure result
