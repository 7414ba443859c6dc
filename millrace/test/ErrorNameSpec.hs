{-# LANGUAGE OverloadedStrings #-}

-- | Each error names the function that failed, and what it failed on.
module ErrorNameSpec (spec) where

import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.List (isInfixOf)
import GHC.IO.Exception (ioe_location)
import Millrace.Deadline
import qualified Millrace.Directory as Directory
import Millrace.File
import Millrace.File.Access
import Millrace.Pipe
import Millrace.Process (command, processId, waitProcessBefore, withProcess)
import Millrace.Signal
import Millrace.Socket (Family (..), Socket, SocketType (..), close, defaultProtocol, socket)
import qualified Millrace.Socket as Socket
import Millrace.Socket.Batch
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString (recvBefore)
import Millrace.Socket.Datagram (recvFromBefore)
import Millrace.Socket.Multicast
import Millrace.Socket.Option
import Millrace.Socket.Unix (receivePassingBefore)
import Millrace.Watch
import Support (failsWith, withListener, withTcpPair, withUnixPair)
import System.FilePath ((</>))
import System.Posix.IO (createPipe)
import Test.Hspec
import TestSupport.Folder (withTemporaryFolder)

spec :: Spec
spec = describe "an error names its function and its object" $ do
  it "a closed socket" $
    bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
      close s
      forM_ (ofStreams s) $ \(function, action) -> named ("Millrace.Socket." ++ function) (show s) action
  it "a closed socket for datagrams" $
    bracket (socket AF_INET Datagram defaultProtocol) close $ \s -> do
      close s
      forM_ (ofDatagrams s) $ \(function, action) -> named ("Millrace.Socket." ++ function) (show s) action
  it "a path that is not there" $
    withTemporaryFolder "millrace-names" $ \folder -> do
      let path = folder </> "missing" </> "file"
      forM_ (ofPaths path) $ \(function, action) -> named ("Millrace." ++ function) path action
  it "a closed file, and one at an offset that it cannot have" $
    withTemporaryFolder "millrace-names" $ \folder -> do
      file <- openFile (folder </> "file") ForWriting
      forM_
        [ ("readAt", void (readAt file (-1) 1)),
          ("readExactlyAt", void (readExactlyAt file 0 (-1))),
          ("writeAt", writeAt file (-1) "x")
        ]
        $ \(function, action) -> named ("Millrace.File." ++ function) (folder </> "file") action
      closeFile file
      forM_ (ofFiles file) $ \(function, action) -> named ("Millrace.File." ++ function) (show file) action
  it "a closed pipe" $ do
    (out, into) <- newPipe
    closeReadEnd out
    closeWriteEnd into
    named "Millrace.Pipe.readPipe" (show out) (void (readPipe out 10))
    named "Millrace.Pipe.writePipe" (show into) (writePipe into "x")
    named "Millrace.Pipe.setPipeCapacity" (show into) (void (setPipeCapacity into 4096))
  it "a closed named pipe, and a closed one that was made of descriptors" $
    withTemporaryFolder "millrace-names" $ \folder -> do
      let path = folder </> "fifo"
          closed from to out into = do
            closeReadEnd out
            closeWriteEnd into
            named "Millrace.Pipe.readPipe" from (void (readPipe out 10))
            named "Millrace.Pipe.writePipe" to (writePipe into "x")
      createFifo path (Directory.Permissions 0o600)
      fifo <- openFifoForReading path
      openFifoForWriting path >>= closed ("FIFO " ++ path ++ ", to read from") ("FIFO " ++ path ++ ", to write to") fifo
      (theirs, ours) <- createPipe
      taken <- readEndFromDescriptor theirs
      writeEndFromDescriptor ours
        >>= closed ("pipe, to read from: " ++ show theirs) ("pipe, to write to: " ++ show ours) taken
  it "a descriptor that is none" $
    forM_
      [ ("readEndFromDescriptor", void . readEndFromDescriptor),
        ("writeEndFromDescriptor", void . writeEndFromDescriptor)
      ]
      $ \(function, takeOver) -> named ("Millrace.Pipe." ++ function) "descriptor 987654" (takeOver 987654)
  it "a path with a NUL, which would name another file" $
    forM_ (ofPaths "a\NULb") $ \(function, action) -> do
      named ("Millrace." ++ function) "a\NULb" action
      failsWith action >>= (`shouldContain` "a path has no NUL") . (show :: IOError -> String)
  it "an interface that is not there" $
    named "Millrace.Socket.Multicast.interfaceNamed" "no-such-thing" (void (interfaceNamed "no-such-thing"))
  it "a signal that cannot be received, and a process that cannot be" $ do
    named "Millrace.Signal.withSignals" "Kill" (withSignals [Kill] (const (return ())))
    named "Millrace.Signal.sendSignal" ("process " ++ show (maxBound :: Int)) (sendSignal User1 maxBound)
  it "a deadline of a stream, a listener, and a socket for datagrams" $ do
    past <- deadlineAfter mempty
    withTcpPair $ \s _ ->
      forM_ (lateOnStreams past s) $ \(function, action) -> late ("Millrace.Socket." ++ function) (show s) action
    withUnixPair $ \s _ ->
      late "Millrace.Socket.Unix.receivePassing" (show s) (void (receivePassingBefore past s 10))
    withListener $ \s _ -> late "Millrace.Socket.accept" (show s) (void (Socket.acceptBefore past s))
    bracket (socket AF_INET Datagram defaultProtocol) close $ \s ->
      forM_ (lateOnDatagrams past s) $ \(function, action) -> late ("Millrace.Socket." ++ function) (show s) action
  it "a deadline of a pipe, a signal, a process, and a watch" $ do
    past <- deadlineAfter mempty
    withPipe $ \out into -> do
      late "Millrace.Pipe.readPipe" (show out) (void (readPipeBefore past out 10))
      late "Millrace.Pipe.writePipe" (show into) (writePipeBefore past into (ByteString.replicate 1000000 120))
    withSignals [User1] $ \signals ->
      late "Millrace.Signal.nextSignal" "a stream of signals" (void (nextSignalBefore past signals))
    withProcess (command "sleep" ["60"]) $ \process ->
      late "Millrace.Process.waitProcess" (show (processId process)) (void (waitProcessBefore past process))
    withTemporaryFolder "millrace-names" $ \folder -> withWatch [folder] Recursive $ \watch ->
      late "Millrace.Watch.nextEvents" "watch" (void (nextEventsBefore past watch))

named :: String -> String -> IO () -> Expectation
named function object action = do
  outcome <- try action
  case outcome of
    Left problem ->
      (ioe_location problem, object `isInfixOf` show (problem :: IOException)) `shouldBe` (function, True)
    Right () -> expectationFailure (function ++ " has not failed")

late :: String -> String -> IO () -> Expectation
late function object action = do
  named function object action
  failsWith action >>= (`shouldSatisfy` isDeadlineError)

lateOnStreams :: Deadline -> Socket -> [(String, IO ())]
lateOnStreams past s =
  [ ("ByteString.recv", void (recvBefore past s 10)),
    ("Borrowed.recvBorrowed", recvBorrowed past s borrowedSize (const (return ()))),
    ("Borrowed.recvBorrowedWithin", recvBorrowedWithin mempty s borrowedSize (const (return ())))
  ]

lateOnDatagrams :: Deadline -> Socket -> [(String, IO ())]
lateOnDatagrams past s =
  [ ("Datagram.recvFrom", void (recvFromBefore past s 10)),
    ("Batch.receiveBatch", void (receiveBatchBefore past s 1 10))
  ]

ofStreams :: Socket -> [(String, IO ())]
ofStreams s =
  [ ("accept", void (Socket.accept s)),
    ("acceptNow", void (Socket.acceptNow s)),
    ("shutdown", Socket.shutdown s Socket.ShutdownSend),
    ("Option.getKeepAlive", void (getKeepAlive s)),
    ("Option.setUnacknowledgedLimit", setUnacknowledgedLimit s (seconds 1)),
    ("Option.getUnacknowledgedLimit", void (getUnacknowledgedLimit s)),
    ("Option.setNoDelay", setNoDelay s True),
    ("Option.getNoDelay", void (getNoDelay s)),
    ("Option.setSendBuffer", setSendBuffer s 10000),
    ("Option.getSendBuffer", void (getSendBuffer s)),
    ("Option.setReceiveBuffer", setReceiveBuffer s 10000),
    ("Option.getReceiveBuffer", void (getReceiveBuffer s)),
    ("Option.setAddressReuse", setAddressReuse s True),
    ("Option.getAddressReuse", void (getAddressReuse s)),
    ("Option.setPortSharing", setPortSharing s True),
    ("Option.getPortSharing", void (getPortSharing s)),
    ("Option.setOnlyIPv6", setOnlyIPv6 s True),
    ("Option.getOnlyIPv6", void (getOnlyIPv6 s)),
    ("Option.getAtClose", void (getAtClose s)),
    ("Option.setFastOpen", setFastOpen s 5),
    ("Borrowed.recvBorrowed", recvBorrowed noDeadline s 10 (const (return ()))),
    ("Borrowed.recvBorrowedWithin", recvBorrowedWithin (seconds 1) s 10 (const (return ()))),
    ("Borrowed.sendThenReceiveWithin", sendingThenReceiving s 1)
  ]

ofDatagrams :: Socket -> [(String, IO ())]
ofDatagrams s =
  [ ("Batch.sendBatch", sendBatch s [("x", there)]),
    ("Batch.receiveBatch", void (receiveBatch s 1 100)),
    ("Batch.sendSegments", sendSegments s 10 (text <> text) there),
    ("Batch.setJoining", setJoining s True),
    ("Multicast.joinGroup", joinGroup s (group there)),
    ("Multicast.leaveGroup", leaveGroup s (group there)),
    ("Multicast.setGroupInterface", interfaceNamed "lo" >>= setGroupInterface s),
    ("Multicast.setGroupHops", setGroupHops s 1),
    ("Multicast.getGroupHops", void (getGroupHops s)),
    ("Multicast.setGroupLoopback", setGroupLoopback s True),
    ("Multicast.getGroupLoopback", void (getGroupLoopback s))
  ]
  where
    there = Socket.SockAddrInet 9 (Socket.tupleToHostAddress (127, 0, 0, 1))
    text = "0123456789" :: ByteString

-- Sends this many bytes of a buffer from its last one on.
sendingThenReceiving :: Socket -> Int -> IO ()
sendingThenReceiving s count = do
  buffer <- borrow
  sendThenReceiveWithin (seconds 1) s (Slice buffer (borrowedSize - 1) count) (const (return ()))

ofPaths :: FilePath -> [(String, IO ())]
ofPaths path =
  [ ("Directory.linkStatus", void (Directory.linkStatus path)),
    ("Directory.canonicalPath", void (Directory.canonicalPath path)),
    ("Directory.space", void (Directory.space path)),
    ("Directory.removeDirectory", Directory.removeDirectory path),
    ("Directory.list", void (Directory.list path)),
    ("Directory.openDirectory", void (Directory.openDirectory path)),
    ("Directory.rename", Directory.rename path "/tmp/other"),
    ("Directory.renameNew", Directory.renameNew path "/tmp/other"),
    ("Directory.exchange", Directory.exchange path "/tmp/other"),
    ("Directory.createLink", Directory.createLink path "/tmp/other"),
    ("Directory.createSymbolicLink", Directory.createSymbolicLink "target" path),
    ("Directory.readSymbolicLink", void (Directory.readSymbolicLink path)),
    ("Directory.setOwner", Directory.setOwner path (Just 0) Nothing),
    ("Directory.setTimes", Directory.setTimes path (Just (Directory.Time 1 0)) Nothing),
    ("File.removeFile", removeFile path),
    ("File.openFile", void (openFile path ForReading)),
    ("File.Access.openFileWith", void (openFileWith path ReadOnly [])),
    ("Pipe.createFifo", createFifo path (Directory.Permissions 0o600)),
    ("Pipe.openFifoForReading", void (openFifoForReading path)),
    ("Pipe.openFifoForWriting", void (openFifoForWriting path))
  ]

ofFiles :: File -> [(String, IO ())]
ofFiles file =
  [ ("fileSize", void (fileSize file)),
    ("readAt", void (readAt file 0 10)),
    ("writeAt", writeAt file 0 "x"),
    ("sync", sync file),
    ("Access.append", append file "x"),
    ("Access.readVectorAt", void (readVectorAt file 0 [1, 2])),
    ("Access.writeVectorAt", writeVectorAt file 0 ["a", "b"]),
    ("Access.syncData", syncData file),
    ("Access.setFileSize", setFileSize file 10),
    ("Access.allocate", allocate file 0 10),
    ("Access.punchHole", punchHole file 0 10),
    ("Access.unlockFile", unlockFile file)
  ]
