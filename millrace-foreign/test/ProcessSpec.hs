-- | Calls and the process: forks, and a program that ends while calls are in flight.
module ProcessSpec (spec, leaveCallsInFlight) where

import Control.Concurrent (forkIO)
import Control.Monad (forever, replicateM, replicateM_, void)
import Data.Maybe (isNothing)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (nullPtr)
import Functions
import Millrace.Foreign
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import qualified System.Timeout as Base
import Test.Hspec
import TestSupport.Failure (require)
import TestSupport.Job (finish, isOver, start, startOn, stop)
import TestSupport.Process (inChild)
import TestSupport.Time (pause, within)

spec :: Spec
spec = describe "the process" $ do
  it "may fork while calls are in flight: the child calls anew, the parent's calls continue" $
    withPipe $ \input output -> do
      jobs <- replicateM 20 (start (allocaBytes 1 (\buffer -> fiberCall c_read input buffer 1)))
      busy <- replicateM 20 (start (forever (fiberCall c_usleep 50)))
      pause 20000
      replicateM_ 5 (inChild childWorks)
      mapM isOver jobs `shouldReturn` replicate 20 False
      feed output 20
      within 10 "the parent's calls" (mapM finish jobs) `shouldReturn` replicate 20 1
      within 10 "the busy ones" (mapM_ stop busy)
  it "gets no OS threads but the carriers" $ inChild childCountsThreads
  it "may end while calls are in flight" $ do
    program <- getExecutablePath
    replicateM_ 10 $
      within 30 "the program" (readProcessWithExitCode program ["--leave-calls-in-flight"] "")
        `shouldReturn` (ExitSuccess, "the end\n", "")

-- | A program that ends while hundreds of calls end, call back and wait.
leaveCallsInFlight :: IO ()
leaveCallsInFlight = do
  callback <- newCallback (return . (+ 1))
  replicateM_ 200 $ forkIO (forever (fiberCall c_usleep 10))
  replicateM_ 50 $ forkIO (forever (fiberCall c_call_often (callbackPointer callback) 5))
  replicateM_ 50 $ forkIO (void (fiberCall c_usleep 60000000))
  pause 30000
  putStrLn "the end"

childWorks :: IO ()
childWorks = do
  none <- carrierCount
  require (none == 0) "the child has its parent's carriers"
  jobs <- replicateM 50 (start (fiberCall c_usleep 1000))
  results <- mapM finish jobs
  require (results == replicate 50 0) "the child's calls failed"
  withPipe $ \input _ -> do
    timedOut <- Base.timeout 10000 (fiberCall c_read input nullPtr 1)
    require (isNothing timedOut) "the child's call was not interrupted"
  doubled <- withCallback (return . (* 2)) (\f -> fiberCall c_call_often f 3)
  require (doubled == 12) "the child's callback"

-- No call has run yet. The run-time system starts some threads only once each capability has had work.
childCountsThreads :: IO ()
childCountsThreads = do
  replicateM_ 10 (mapM (`startOn` pause 1000) [0, 1] >>= mapM_ finish)
  threadsBefore <- osThreads
  replicateM 50 (start (fiberCall c_usleep 20000)) >>= mapM_ finish
  threadsAfter <- osThreads
  carriers <- carrierCount
  require (threadsAfter - threadsBefore <= carriers) (show threadsBefore ++ " OS threads became " ++ show threadsAfter)
