{-# LANGUAGE OverloadedStrings #-}

-- | Each error names the function that failed, and what it failed on.
module ErrorNameSpec (spec) where

import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.List (isInfixOf)
import GHC.IO.Exception (ioe_location)
import Millrace.Deadline (seconds)
import qualified Millrace.Directory as Directory
import Millrace.File
import Millrace.File.Access
import Millrace.Pipe
import Millrace.Socket (Family (..), Socket, SocketType (..), close, defaultProtocol, socket)
import qualified Millrace.Socket as Socket
import Millrace.Socket.Batch
import Millrace.Socket.Multicast
import Millrace.Socket.Option
import System.FilePath ((</>))
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
  it "a closed file" $
    withTemporaryFolder "millrace-names" $ \folder -> do
      file <- openFile (folder </> "file") ForWriting
      closeFile file
      forM_ (ofFiles file) $ \(function, action) -> named ("Millrace.File." ++ function) (show file) action
  it "a closed pipe" $ do
    (out, into) <- newPipe
    closeReadEnd out
    closeWriteEnd into
    named "Millrace.Pipe.readPipe" (show out) (void (readPipe out 10))
    named "Millrace.Pipe.writePipe" (show into) (writePipe into "x")
    named "Millrace.Pipe.setPipeCapacity" (show into) (void (setPipeCapacity into 4096))

named :: String -> String -> IO () -> Expectation
named function object action = do
  outcome <- try action
  case outcome of
    Left problem ->
      (ioe_location problem, object `isInfixOf` show (problem :: IOException)) `shouldBe` (function, True)
    Right () -> expectationFailure (function ++ " has not failed")

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
    ("Option.setFastOpen", setFastOpen s 5)
  ]

ofDatagrams :: Socket -> [(String, IO ())]
ofDatagrams s =
  [ ("Batch.sendBatch", sendBatch s [("x", there)]),
    ("Batch.receiveBatch", void (receiveBatch s 1 100)),
    ("Batch.sendSegments", sendSegments s 10 (text <> text) there),
    ("Batch.setJoining", setJoining s True),
    ("Multicast.setGroupHops", setGroupHops s 1),
    ("Multicast.getGroupHops", void (getGroupHops s)),
    ("Multicast.setGroupLoopback", setGroupLoopback s True),
    ("Multicast.getGroupLoopback", void (getGroupLoopback s))
  ]
  where
    there = Socket.SockAddrInet 9 (Socket.tupleToHostAddress (127, 0, 0, 1))
    text = "0123456789" :: ByteString

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
    ("File.Access.openFileWith", void (openFileWith path ReadOnly []))
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
