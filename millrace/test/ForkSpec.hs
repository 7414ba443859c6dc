{-# LANGUAGE OverloadedStrings #-}

-- | forkProcess: the child gets its own managers, and the parent is not affected.
module ForkSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, throwIO, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Millrace.Deadline
import Millrace.Directory (fileStatus, list, statusSize)
import Millrace.File
import Millrace.File.Access
import Millrace.File.Buffered
import Millrace.File.Temporary
import Millrace.Manager
import Millrace.Name (host, lookUp)
import Millrace.Pipe
import Millrace.Process (Exit (..), command, runProcess)
import Millrace.Simulation (Outcome (..), calm, simulate)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.File
import Millrace.Socket.Unix
import Millrace.Splice
import Millrace.Timer
import Millrace.Wait
import Support
import Test.Hspec

spec :: Spec
spec = describe "forkProcess" $ do
  it "gives the child working managers, and leaves the parent's waiting operations alone" $
    withParentBusy $ \_ -> inChild childWorks
  it "lets the child accept on an inherited listener" $
    withListener $ \listener address -> withParentBusy $ \_ -> do
      child <- forked $
        bracket (fst <$> accept listener) close $ \s ->
          receiveExactly s 0 100 >> sendAll s (bytesAt 0 200)
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
  describe "whatever the child calls first" $
    forM_ firstCalls $ \(name, call) ->
      it (name ++ " works") $
        withInherited $ \inherited -> inChild (call inherited)
  it "gives the child as many loops as it has capabilities" $
    inChild $ do
      loops <- loopCount
      require (loops >= 2) ("there are " ++ show loops ++ " loops")
      waiting <- inFlightNow
      require (waiting == 0) (show waiting ++ " operations are in flight")

-- | What a child inherits: a file of ten bytes, another that was opened to append, both ends of a pipe with three
-- bytes, two connected sockets the second of which has three bytes to receive, and a listener to which somebody
-- connects.
data Inherited = Inherited
  { regular :: File,
    appended :: File,
    out :: ReadEnd,
    into :: WriteEnd,
    near :: Socket,
    far :: Socket,
    listening :: Socket,
    listeningAt :: SockAddr
  }

withInherited :: (Inherited -> IO a) -> IO a
withInherited use =
  withTemporaryDirectory "." "fork" $ \root ->
    withTemporaryFile root "regular" $ \path file ->
      withFileWith path ReadWrite [Append] $ \appending ->
        withPipe $ \readEnd writeEnd -> withUnixPair $ \one other -> withListener $ \listener address -> do
          writeAt file 0 "0123456789"
          writePipe writeEnd "abc"
          sendAll one "abc"
          use (Inherited file appending readEnd writeEnd one other listener address)

-- | Calls on inherited descriptors: each is the first call in a new child.
firstCalls :: [(String, Inherited -> IO ())]
firstCalls =
  [ ("fileStatus", \i -> fileStatus (regular i) >>= (`mustBe` 10) . statusSize),
    ("fileSize", \i -> fileSize (regular i) >>= (`mustBe` 10)),
    ("setFileSize", \i -> setFileSize (regular i) 5 >> fileSize (regular i) >>= (`mustBe` 5)),
    ("append", \i -> append (appended i) "ab" >> readAt (regular i) 8 10 >>= (`mustBe` "89ab")),
    ("readAt", \i -> readAt (regular i) 2 3 >>= (`mustBe` "234")),
    ("readVectorAt", \i -> readVectorAt (regular i) 2 [1, 2] >>= (`mustBe` ["2", "34"])),
    ("writeAt", \i -> writeAt (regular i) 9 "xy" >> readAt (regular i) 8 10 >>= (`mustBe` "8xy")),
    ("writeVectorAt", \i -> writeVectorAt (regular i) 9 ["x", "y"] >> readAt (regular i) 8 10 >>= (`mustBe` "8xy")),
    ("sync", sync . regular),
    ("syncData", syncData . regular),
    ("allocate", \i -> allocate (regular i) 0 100 >> fileSize (regular i) >>= (`mustBe` 100)),
    ("copyRange", \i -> copyRange (regular i) 0 (regular i) 10 5 >>= (`mustBe` 5)),
    ("cloneFile", \i -> void (failsOrNot (cloneFile (regular i) (regular i)))),
    ("lockFile", \i -> lockFile (regular i) Sole >> unlockFile (regular i)),
    ("tryLockFile", \i -> tryLockFile (regular i) Sole >>= (`mustBe` True)),
    ("closeFile", \i -> closeFile (regular i) >> refused (fileSize (regular i))),
    ("a reader", \i -> newReader (regular i) 0 >>= (`readBytes` 4) >>= (`mustBe` "0123")),
    ("a writer", \i -> withWriter (regular i) 9 (`writeBytes` "xy") >> readAt (regular i) 8 10 >>= (`mustBe` "8xy")),
    ("splice from a file", \i -> splice (FromFile (regular i) 0) (ToSocket (far i)) everything >>= (`mustBe` 10)),
    ("splice to a file", \i -> splice (FromPipe (out i)) (ToFile (regular i) 10) 3 >>= (`mustBe` 3)),
    ("splice from a socket", \i -> splice (FromSocket (far i)) (ToPipe (into i)) 3 >>= (`mustBe` 3)),
    ("sendFile", \i -> sendFile (near i) (fileDescriptor (regular i)) 0 10 >>= (`mustBe` 10)),
    ("readPipe", \i -> readPipe (out i) 10 >>= (`mustBe` "abc")),
    ("writePipe", \i -> writePipe (into i) "def" >> readPipe (out i) 10 >>= (`mustBe` "abcdef")),
    ("setPipeCapacity", \i -> void (setPipeCapacity (into i) 65536)),
    ("closeReadEnd", closeReadEnd . out),
    ("recv", \i -> recv (far i) 10 >>= (`mustBe` "abc")),
    ("sendAll", \i -> sendAll (far i) "x" >> recv (near i) 10 >>= (`mustBe` "x")),
    ("shutdown", \i -> shutdown (near i) ShutdownSend >> receiveExactly (far i) 0 0 >>= (`mustBe` 0)),
    ("close", \i -> close (near i) >> refused (recv (near i) 1)),
    ( "accept",
      \i ->
        withStreamTo (listeningAt i) (\_ -> bracket (fst <$> accept (listening i)) close (\_ -> return ()))
    ),
    ("options", \i -> getSocketOption (near i) RecvBuffer >>= \size -> require (size > 0) "no buffer"),
    ("names", \i -> getSocketName (listening i) >>= (`mustBe` listeningAt i)),
    ( "a deadline",
      \i ->
        setReadDeadline (near i) noDeadline >> deadlineAfter (seconds 0) >>= setReadDeadline (near i)
          >> refused (recv (near i) 1)
    ),
    ("threadWaitRead", threadWaitRead . readEndDescriptor . out),
    ( "sendPassing",
      \i ->
        void (sendPassing (near i) nothingPassed {passedDescriptors = [readEndDescriptor (out i)]} "x")
    ),
    ("runProcess", \_ -> runProcess (command "true" []) >>= (`mustBe` Exited 0)),
    ("lookUp", \_ -> lookUp (host "127.0.0.1" "80") >>= \found -> require (not (null found)) "no address"),
    ("list", \_ -> list "." >>= \names -> require (not (null names)) "no name"),
    ("threadDelay", \_ -> threadDelay 1000),
    ("timeout", \_ -> timeout 1000 (threadDelay 10000000) >>= (`mustBe` Nothing)),
    ("counters", \_ -> counters >>= (`mustBe` 0) . inFlight),
    ("atNextIteration", \_ -> atNextIteration (return ()) >>= (`mustBe` False)),
    ("helperCounts", \_ -> helperCounts >>= (`mustBe` 0) . helpersRunning)
  ]
  where
    actual `mustBe` expected = require (actual == expected) (show actual ++ " is not " ++ show expected)
    failsOrNot action = try action :: IO (Either IOException Bool)
    refused action = void (failsWith action :: IO IOException)
    withStreamTo address = bracket (connectTo address) close

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
