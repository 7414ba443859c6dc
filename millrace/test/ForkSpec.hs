-- | forkProcess: the child gets managers of its own, and the parent notices nothing.
module ForkSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, throwIO, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Millrace.Manager
import Millrace.Simulation (Outcome (..), calm, simulate)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Support
import System.Exit (ExitCode (..))
import System.IO (hPutStrLn, stderr)
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessStatus)
import System.Posix.Types (ProcessID)
import Test.Hspec

spec :: Spec
spec = describe "forkProcess" $ do
  it "gives the child working managers, and leaves the parent's waiting operations alone" $
    withParentBusy $ \_ -> inChild childWorks
  it "lets the child accept on an inherited listener" $
    withListener $ \listener address -> withParentBusy $ \_ -> do
      child <- forked $ bracket (fst <$> accept listener) close $ \s -> receiveExactly s 0 100 >> sendAll s (bytesAt 0 200)
      bracket (connectTo address) close $ \s -> do
        void (sendStream s 0 100)
        within 5 "the child's answer" (receiveExactly s 0 200) `shouldReturn` 200
      succeeds child
  it "lets the child use an inherited connection" $
    withUnixPair $ \one other -> withParentBusy $ \_ -> do
      reader <- start (receiveExactly other 0 1000) -- waits in the parent, on the same socket pair's other end
      inChild (void (sendStream one 0 1000))
      within 5 "the child's bytes" (finish reader) `shouldReturn` 1000
  it "works again in the child's child" $ inChild (childWorks >> inChild childWorks)
  it "works twenty times under load" $ withParentBusy $ \turn -> replicateM_ 20 (inChild shortWork >> turn)
  needingKnownLayout . it "lets the child simulate, and work, in the middle of its parent's simulation" $ do
    outcome <- simulate (calm 1) $
      withUnixPair $ \one other ->
        forked (simulated 2 >> simulated 3 >> childWorks) <* exchangeBytes one other
    either throwIO succeeds (outcomeResult outcome)
  it "gives the child as many loops as it has capabilities" $
    inChild $ do
      loops <- loopCount
      require (loops >= 2) ("there are " ++ show loops ++ " loops")
      waiting <- inFlightNow
      require (waiting == 0) (show waiting ++ " operations are in flight")

-- | Runs an action while the parent has operations of all kinds in flight, all of which then end as they must. The
-- action is given means to exchange a few bytes.
withParentBusy :: (IO () -> IO a) -> IO a
withParentBusy action = withoutLeaks $
  withTcpPair $ \one other -> withUnixPair $ \this that ->
    withListener $ \listener address -> do
      parked <- forM [0, 1] $ \capability -> startOn capability (recv this 10)
      acceptor <- start (accept listener)
      sleeper <- start (timeout 10000000 (threadDelay 300000))
      echoing <- start (echoAll other)
      position <- newMVar 0
      let turn = modifyMVar_ position $ \from -> sendStream one from 1000 >> receiveExactly one from 1000
      turn
      result <- action turn
      turn
      shutdown one ShutdownSend
      within 5 "the echo" (finish echoing)
      forM_ parked $ \_ -> sendAll that (bytesAt 0 10) >> pause 5000
      within 5 "the parked receives" (mapM finish parked) `shouldReturn` replicate 2 (bytesAt 0 10)
      within 5 "the sleeper" (finish sleeper) `shouldReturn` Just ()
      bracket (connectTo address) close $ \_ -> within 5 "the accept" (finish acceptor) >>= close . fst
      return result

echoAll :: Socket -> IO ()
echoAll s = do
  bytes <- recv s 3000
  unless (ByteString.null bytes) $ sendAll s bytes >> echoAll s

forked :: IO () -> IO ProcessID
forked action = forkProcess $ do
  outcome <- try (within 15 "the child" action) :: IO (Either SomeException ())
  case outcome of
    Right () -> exitImmediately ExitSuccess
    Left problem -> hPutStrLn stderr ("in the child: " ++ show problem) >> exitImmediately (ExitFailure 1)

succeeds :: ProcessID -> IO ()
succeeds child = within 20 "the child's end" $ do
  status <- getProcessStatus True False child
  require (status == Just (Exited ExitSuccess)) ("the child ended with " ++ show status)

inChild :: IO () -> IO ()
inChild action = forked action >>= succeeds

simulated :: Word64 -> IO ()
simulated seed = do
  outcome <- simulate (calm seed) (withUnixPair exchangeBytes >> threadDelay 1000000)
  either throwIO return (outcomeResult outcome)

exchangeBytes :: Socket -> Socket -> IO ()
exchangeBytes one other = sendStream one 0 10 >> void (receiveExactly other 0 10)

shortWork :: IO ()
shortWork = withUnixPair $ \one other -> do
  reader <- startOn 1 (recv other 10)
  threadDelay 1000
  sendAll one (bytesAt 0 10)
  bytes <- finish reader
  require (bytes == bytesAt 0 10) "the wrong bytes"

childWorks :: IO ()
childWorks = do
  withUnixPair $ \one other -> do
    echoing <- start (echoAll other)
    void (sendStream one 0 10000)
    void (receiveExactly one 0 10000)
    shutdown one ShutdownSend
    finish echoing
  threadDelay 5000
  nothing <- timeout 5000 (threadDelay 10000000)
  require (isNothing nothing) "timeout did not fire"
  withTcpPair $ \one other -> do
    jobs <- forM [0, 1] $ \capability -> startOn capability (recv one 10)
    pause 5000
    close one
    outcomes <- mapM outcomeOf jobs
    require (all (either (const True) (const False)) outcomes) "close woke nobody"
    end <- recv other 10
    require (end == mempty) "no end of the stream"
