-- | Exceptions, timeouts and deadlines that reach into C.
module InterruptSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM, forM_, replicateM, replicateM_, unless, void)
import Data.Word (Word8)
import Foreign.C.Error
import Foreign.C.Types (CInt, CSize)
import Foreign.Marshal.Alloc (alloca, allocaBytes, free, malloc, mallocBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Functions
import GHC.Clock (getMonotonicTime)
import Millrace.Deadline
import Millrace.Foreign
import qualified Millrace.Timer as Timer
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Types (Fd)
import qualified System.Timeout as Base
import Test.Hspec
import TestSupport.Failure (require)
import TestSupport.Job (Job, finish, interrupt, isOver, outcomeOf, start, stop)
import TestSupport.Random (below, newRandom)
import TestSupport.Time (pause, within)

spec :: Spec
spec = describe "an exception" $ do
  it "makes the C code's wait fail with EINTR, and arrives when C has returned" $
    interrupting defaultCall (`interrupt` ThreadKilled) `shouldReturn` (Just ThreadKilled, code eINTR)
  it "makes it fail with the errno that was chosen" $
    interrupting defaultCall {callInterruption = eCONNRESET} (`interrupt` ThreadKilled)
      `shouldReturn` (Just ThreadKilled, code eCONNRESET)
  it "is ETIMEDOUT for C if it is a timeout" $
    forM_ [Base.timeout, Timer.timeout] $ \timeoutBy ->
      withPipe $ \input _ -> withNote $ \note -> do
        within 10 "the timeout" (timeoutBy 20000 (fiberCall c_read_noting input nullPtr 1 note)) `shouldReturn` Nothing
        peek note `shouldReturn` code eTIMEDOUT
  it "may come while arguments are evaluated" $ do
    state <- newEmptyMVar
    fiberCall c_usleep (unsafePerformIO (0 <$ (getMaskingState >>= putMVar state))) `shouldReturn` 0
    takeMVar state `shouldReturn` Unmasked
  it "loses no byte that the interrupted wait did not take" $
    withPipe $ \input output -> allocaBytes 4 $ \buffer -> do
      Base.timeout 20000 (fiberCall c_read input buffer 4) `shouldReturn` Nothing
      feed output 3
      within 10 "the next read" (fiberCall c_read input buffer 4) `shouldReturn` 3
  it "waits for C code that ignores it" $
    withPipe $ \input output -> do
      job <- start (fiberCall c_read_stubbornly input)
      pause 50000
      killer <- start (stop job)
      pause 50000
      isOver job `shouldReturn` False
      feed output 1
      within 10 "the call" (finish killer)
      outcome <- outcomeOf job
      either fromException (const Nothing) outcome `shouldBe` Just ThreadKilled
  it "stays pending where it is masked uninterruptibly" $
    withPipe $ \input output -> do
      received <- newEmptyMVar
      job <- start $ do
        uninterruptibleMask_ (allocaBytes 1 (\buffer -> fiberCall c_read input buffer 1 >>= putMVar received))
        threadDelay 10000000
      pause 50000
      killer <- start (stop job)
      pause 50000
      feed output 1
      within 10 "the read" (takeMVar received) `shouldReturn` 1
      within 10 "the end" (finish killer)
  it "at any moment finds no C code running when it arrives" $
    withPipe $ \input output -> do
      random <- newRandom 1
      rounds <- forM [1 .. 40 :: Int] $ \_ -> do
        jobs <- replicateM 25 (start (readInTurns input))
        delay <- below random 3000
        feed output 200 -- some reads end by themselves
        pause delay
        mapM_ (`interrupt` ThreadKilled) jobs
        within 20 "the jobs" (mapM outcomeOf jobs)
      inside <- c_inside
      inside `shouldBe` 0
      let others = [show problem | Left problem <- concat rounds, fromException problem /= Just ThreadKilled]
      length (concat rounds) `shouldBe` 1000
      others `shouldBe` []
  deadlines

deadlines :: Spec
deadlines = describe "a deadline" $ do
  it "ends the wait with ETIMEDOUT, and the call with its result" $
    withPipe $ \input _ -> withNote $ \note -> do
      begin <- getMonotonicTime
      deadline <- deadlineAfter (milliseconds 50)
      within 10 "the call" (fiberCallWith defaultCall {callDeadline = deadline} c_read_noting input nullPtr 1 note)
        `shouldReturn` (-1)
      problem <- peek note
      end <- getMonotonicTime
      problem `shouldBe` code eTIMEDOUT
      end - begin `shouldSatisfy` (>= 0.05)
  it "that has passed ends the first wait" $
    withPipe $ \input _ -> withNote $ \note -> do
      deadline <- deadlineAfter (microseconds (-1000))
      within 10 "the call" (fiberCallWith defaultCall {callDeadline = deadline} c_read_noting input nullPtr 1 note)
        `shouldReturn` (-1)
      peek note `shouldReturn` code eTIMEDOUT
  it "becomes an IOError of that errno" $
    withPipe $ \input _ -> do
      deadline <- deadlineAfter (milliseconds 20)
      outcome <-
        try (throwErrnoIfMinus1 "read" (fiberCallWith defaultCall {callDeadline = deadline} c_read input nullPtr 1))
      either isDeadlineError (const False) outcome `shouldBe` True
  it "that does not pass changes nothing, also when it almost does" $
    withPipe $ \input output -> do
      replicateM_ 300 $
        allocaBytes 1 $ \buffer -> do
          deadline <- deadlineAfter (microseconds 300)
          writer <- start (pause 250 >> feed output 1)
          count <- fiberCallWith defaultCall {callDeadline = deadline} c_read input buffer 1
          finish writer
          unless (count == 1) $ void (fiberCall c_read input buffer 1)
      deadline <- deadlineAfter (seconds 10)
      feed output 1
      allocaBytes 1 (fiberCallWith defaultCall {callDeadline = deadline} c_read input `flip` 1) `shouldReturn` 1

code :: Errno -> CInt
code (Errno number) = number

-- | Memory in which @test_read_noting@ leaves an errno. It holds -1 until that function has returned.
withNote :: (Ptr CInt -> IO a) -> IO a
withNote action = alloca $ \note -> poke note (-1) >> action note

-- | Starts a call that waits, and applies an action to its thread. Returns how the call ended, and the errno that its C
-- code saw.
interrupting :: CallOptions -> (Job () -> IO ()) -> IO (Maybe AsyncException, CInt)
interrupting options disturb = withPipe $ \input _ -> withNote $ \note -> do
  job <- start (void (fiberCallWith options c_read_noting input nullPtr 1 note))
  pause 50000
  disturb job
  outcome <- within 10 "the call" (outcomeOf job)
  seen <- peek note
  return (either fromException (const Nothing) outcome, seen)

-- | Makes calls that wait and calls that do not, until an exception comes, which never comes while C runs. (Not with
-- 'alloca' around an endless loop: GHC sees that nothing follows, and the memory is collected.)
readInTurns :: Fd -> IO ()
readInTurns input = bracket (mallocBytes 16) free (bracket malloc free . loop)
  where
    loop :: Ptr Word8 -> Ptr CInt -> IO ()
    loop buffer note = do
      poke note (-1)
      void (fiberCall c_read_noting input buffer size note) `onException` returned note
      void (fiberCall c_usleep 0)
      loop buffer note
    size = 1 :: CSize
    -- The call was never begun, or it has ended.
    returned note = do
      problem <- peek note
      require (problem `elem` [-1, 0, code eINTR]) ("errno " ++ show problem)
