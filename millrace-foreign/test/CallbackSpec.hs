-- | C that calls Haskell: from calls on fibers, from threads, and from fibers that were not made by this package.
module CallbackSpec (spec) where

import Control.Concurrent (myThreadId, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM, forM_, replicateM)
import Data.IORef
import Data.Int (Int64)
import Data.List (sort)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Array (peekArray, withArrayLen)
import Foreign.Ptr (freeHaskellFunPtr)
import Foreign.Storable (peek)
import Functions
import Millrace.Foreign
import System.Mem (performMajorGC)
import Test.Hspec
import TestSupport.Job (finish, start, stop)
import TestSupport.Random (below, newRandom)
import TestSupport.Time (pause, within)

data Trouble = Trouble
  deriving (Eq, Show)

instance Exception Trouble

spec :: Spec
spec = describe "a callback" $ do
  it "is called with what C gives it" $ do
    random <- newRandom 7
    numbers <- replicateM 500 (fromIntegral <$> below random 1000) :: IO [CInt]
    sorted <- withCallback comparing' $ \compare' -> withArrayLen numbers $ \count array -> do
      fiberCall c_qsort array (fromIntegral count) 4 compare'
      peekArray count array
    sorted `shouldBe` sort numbers
  it "takes arguments and gives results of every kind" $ do
    let add a b c d e f text = do
          string <- peekCString text
          return
            ( fromIntegral a + fromIntegral b + fromIntegral c + fromIntegral d + realToFrac e + f
                + fromIntegral (length string)
            )
    withCallback add (fiberCall c_call_with_all) `shouldReturn` (-1) + 60000 - 3 + 1099511627776 + 1.5 + 2.25 + 5
    forM_ [-128, -1, 0, 127] $ \x -> withCallback return (\f -> fiberCall c_call_for_int8 f x) `shouldReturn` x
  it "runs in the thread that made the call" $ do
    self <- myThreadId
    callers <- newIORef []
    let note x = myThreadId >>= \caller -> modifyIORef callers (caller :) >> return x
    withCallback note (\f -> fiberCall c_call_often f 3) `shouldReturn` 6
    readIORef callers `shouldReturn` [self, self, self]
  it "may wait for the callbacks of a hundred other calls" $ do
    arrived <- newMVar (0 :: Int)
    allThere <- newEmptyMVar
    let meet x = do
          count <- modifyMVar arrived (\n -> return (n + 1, n + 1))
          if count == 100 then putMVar allThere () else readMVar allThere
          return x
    withCallback meet $ \f -> do
      jobs <- replicateM 100 (start (fiberCall c_call_often f 1))
      within 20 "the calls" (mapM finish jobs) `shouldReturn` replicate 100 1
  it "may make calls itself, which call back" $ do
    let nested :: Int -> IO Int64
        nested 0 = return 1
        nested depth = withCallback (\_ -> nested (depth - 1)) $ \f -> (+ 1) <$> fiberCall c_call_often f 1
    within 20 "the calls" (nested 20) `shouldReturn` 21
  it "stays right under load and collections" $ do
    jobs <- forM [1 .. 100] $ \factor -> start $
      withCallback (\x -> return (factor * x)) $ \f -> fiberCall c_call_often f 50
    collector <- start (forM_ [1 .. 10 :: Int] (\_ -> performMajorGC >> pause 1000))
    within 60 "the calls" (mapM finish jobs) `shouldReturn` [factor * 1275 | factor <- [1 .. 100]]
    within 10 "the collector" (finish collector)
  it "that throws returns 0, interrupts the C code, and the exception comes out of the call" $
    withPipe $ \input _ -> do
      outcome <- try $
        within 10 "the call" $
          withCallback (\_ -> throwIO Trouble) $ \f ->
            fiberCall c_call_then_read f input
      outcome `shouldBe` Left Trouble
  it "meets exceptions that are thrown to its thread" $
    withPipe $ \input _ -> do
      waiting <- newEmptyMVar
      caught <- newEmptyMVar
      let wait _ =
            (putMVar waiting () >> threadDelay 20000000 >> return 0)
              `catch` \problem -> putMVar caught (problem :: AsyncException) >> throwIO problem
      job <- start (withCallback wait (\f -> fiberCall c_call_then_read f input))
      within 10 "the callback" (takeMVar waiting)
      within 10 "the end" (stop job)
      tryTakeMVar caught `shouldReturn` Just ThreadKilled
  it "still runs after an exception has interrupted the call" $ do
    count <- newIORef (0 :: Int)
    failing <- try $ withCallback (\_ -> modifyIORef' count (+ 1) >> throwIO Trouble) $ \f -> fiberCall c_call_often f 3
    failing `shouldBe` Left Trouble
    readIORef count `shouldReturn` 3
  it "can be called on a thread of C" $
    within 10 "the call" (withCallback (return . (* 2)) (fiberCall c_call_from_thread)) `shouldReturn` 10
  it "can be called on a fiber of C" $
    within 10 "the call" (withCallback (return . (* 2)) (fiberCall c_call_from_fiber_of_c)) `shouldReturn` 10
  it "of GHC's own kind may be called on fibers, and may wait" $ do
    plain <- wrapCounting (\x -> threadDelay 200 >> return (x * 2))
    jobs <- replicateM 50 (start (fiberCall c_call_often plain 5))
    within 30 "the calls" (mapM finish jobs) `shouldReturn` replicate 50 30
    freeHaskellFunPtr plain
  where
    comparing' a b = (\x y -> fromIntegral (fromEnum (compare x y) - 1)) <$> peek a <*> peek b
