-- | Calls that succeed: types, errno, a thousand at once, memory that the collector must not move.
module CallSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, try)
import Control.Monad (forM, forM_, replicateM_, unless)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as ByteString (create)
import Data.Word (Word8)
import Foreign.C.Error
import Foreign.C.String (withCString)
import Foreign.C.Types (CClock (..), CDouble, CFloat, CSUSeconds (..), CTime (..), CUSeconds (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (FunPtr, Ptr, castFunPtr, nullPtr, plusPtr)
import Foreign.StablePtr (StablePtr, deRefStablePtr, freeStablePtr, newStablePtr)
import Functions
import GHC.Clock (getMonotonicTime)
import Millrace.Foreign
import System.Mem (performMajorGC)
import System.Posix.Types (CNfds (..), Fd)
import Test.Hspec
import TestSupport.Failure (hasCode, require)
import TestSupport.Job (finish, isOver, start, startOn)
import TestSupport.Time (pause, within)

spec :: Spec
spec = describe "fiberCall" $ do
  it "passes arguments of every kind, in registers and beyond" $ do
    weight <- withCString "12345" $ \text ->
      fiberCall c_weigh (-128) 65535 (-2147483648) 1099511627776 1.5 (-2.25) text (-5) 255 (-32768) 4294967295
    weight `shouldBe` (-128) + 65535 * 2 + (-2147483648) * 3 + 1099511627776 * 4 + 1.5 * 5 + (-2.25) * 6 + 5 * 7
      + (-5) * 8
      + 255 * 9
      + (-32768) * 10
      + 4294967295 * 11
  it "returns results of every kind" $ do
    forM_ [minBound, -1, 0, maxBound] $ \x -> fiberCall c_int8 x `shouldReturn` x
    forM_ [minBound, -1, 0, maxBound] $ \x -> fiberCall c_int16 x `shouldReturn` x
    forM_ [minBound, -1, 0, maxBound] $ \x -> fiberCall c_int32 x `shouldReturn` x
    forM_ [minBound, -1, 0, maxBound] $ \x -> fiberCall c_int64 x `shouldReturn` x
    forM_ [0, 1, maxBound] $ \x -> fiberCall c_word8 x `shouldReturn` x
    forM_ [0, 1, maxBound] $ \x -> fiberCall c_word16 x `shouldReturn` x
    forM_ [0, 1, maxBound] $ \x -> fiberCall c_word32 x `shouldReturn` x
    forM_ [0, 1, maxBound] $ \x -> fiberCall c_word64 x `shouldReturn` x
    forM_ [-1.5, 0, 3.25] $ \x -> fiberCall c_float x `shouldReturn` x
    forM_ [-1.5, 0, 1e300] $ \x -> fiberCall c_double x `shouldReturn` x
    fiberCall c_pointer (nullPtr `plusPtr` 4711) `shouldReturn` (nullPtr `plusPtr` 4711)
  it "takes the types that libc's own declarations name" $ do
    fiberCall c_usleep (CUSeconds 0) `shouldReturn` 0
    fiberCall c_poll nullPtr (CNfds 0) 0 `shouldReturn` 0
    fiberCall (castFunPtr c_float :: FunPtr (CFloat -> IO CFloat)) (-1.5) `shouldReturn` (-1.5)
    fiberCall (castFunPtr c_double :: FunPtr (CDouble -> IO CDouble)) 1e300 `shouldReturn` 1e300
    fiberCall (castFunPtr c_int64 :: FunPtr (CTime -> IO CTime)) (CTime minBound) `shouldReturn` CTime minBound
    fiberCall (castFunPtr c_int64 :: FunPtr (CClock -> IO CClock)) (CClock maxBound) `shouldReturn` CClock maxBound
    fiberCall (castFunPtr c_int64 :: FunPtr (CSUSeconds -> IO CSUSeconds)) (CSUSeconds (-1))
      `shouldReturn` CSUSeconds (-1)
    bracket (newStablePtr "kept") freeStablePtr $ \kept ->
      (fiberCall (castFunPtr c_pointer :: FunPtr (StablePtr String -> IO (StablePtr String))) kept >>= deRefStablePtr)
        `shouldReturn` "kept"
  it "leaves errno to the caller, on whatever carrier and capability" $ do
    jobs <- forM [1 .. 200 :: Int] $ \number ->
      start $
        replicateM_ 20 $
          if even number
            then do
              count <- fiberCall c_read (-1) nullPtr 1
              problem <- getErrno
              require (count == -1 && problem == eBADF) "not EBADF"
            else withPipe $ \input output -> do
              feed output 1
              count <- fiberCall c_read input nullPtr 1
              problem <- getErrno
              require (count == -1 && problem == eFAULT) "not EFAULT"
    within 30 "the calls" (mapM_ finish jobs)
  it "works with throwErrnoIf" $ do
    outcome <- try (throwErrnoIfMinus1 "reading" (fiberCall c_read (-1) nullPtr 1))
    fmap (hasCode eBADF) (swap outcome) `shouldBe` Right True
  it "keeps a thousand calls in flight on two carriers" $ do
    carrierCount `shouldReturn` 2
    threadsBefore <- osThreads
    begin <- getMonotonicTime
    jobs <- forM [1 .. 1000 :: Int] $ \_ -> start (fiberCall c_usleep 500000)
    pause 250000
    threads <- osThreads
    threads `shouldSatisfy` (<= threadsBefore + 4)
    within 30 "the calls" (mapM finish jobs) `shouldReturn` replicate 1000 0
    end <- getMonotonicTime
    end - begin `shouldSatisfy` (< 20) -- one after the other on each carrier: 250 s
  it "lets Haskell continue meanwhile, on every capability" $
    withPipe $ \input output -> do
      jobs <- forM [0 .. 9] $ \number ->
        startOn (number `mod` 2) (allocaBytes 1 (\byte -> fiberCall c_read input byte 1))
      turns <- forM [0, 1] $ \capability -> startOn capability (replicateM_ 100 (pause 100))
      within 10 "other threads" (mapM_ finish turns)
      mapM isOver jobs `shouldReturn` replicate 10 False
      feed output 10
      within 10 "the reads" (mapM finish jobs) `shouldReturn` replicate 10 1
  it "does not let the collector move what C writes to" $
    withPipe $ \input output -> do
      done <- newEmptyMVar
      readers <- forM [1 .. 100 :: Int] $ \_ -> start (ByteString.create 1000 (\buffer -> readAll input buffer 1000))
      collector <- start (collectUntil done)
      replicateM_ 1000 (feed output 100)
      filled <- within 30 "the reads" (mapM finish readers)
      putMVar done ()
      within 10 "the collector" (finish collector)
      filled `shouldBe` replicate 100 (ByteString.replicate 1000 120)
  it "gives C the stack that was asked for" $
    fiberCallWith defaultCall {callStackBytes = 4 * 1024 * 1024} c_use_stack (3 * 1024 * 1024) `shouldReturn` 0
  it "refuses a stack that cannot be" $ do
    outcome <- try (fiberCallWith defaultCall {callStackBytes = maxBound} c_usleep 0)
    fmap (hasCode eINVAL) (swap outcome) `shouldBe` Right True
  it "says that the carriers run already" $ do
    outcome <- try (startCarriers 3)
    fmap (hasCode eALREADY) (swap outcome) `shouldBe` Right True

-- | The error first.
swap :: Either IOException b -> Either b IOException
swap = either Right Left

readAll :: Fd -> Ptr Word8 -> Int -> IO ()
readAll input buffer size = unless (size == 0) $ do
  count <- throwErrnoIfMinus1 "read" (fiberCall c_read input buffer (fromIntegral size))
  readAll input (buffer `plusPtr` fromIntegral count) (size - fromIntegral count)

collectUntil :: MVar () -> IO ()
collectUntil done = do
  performMajorGC
  isDone <- not <$> isEmptyMVar done
  unless isDone (pause 1000 >> collectUntil done)
