{-# LANGUAGE OverloadedStrings #-}

-- | Threads are killed at random moments in every function of the toolkit; afterwards nothing is left: no
-- descriptor, operation, child, file or call.
module ToolkitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket, catch, mask_, onException)
import Control.Monad (forM, forM_, void)
import qualified Data.ByteString as ByteString
import Millrace.Deadline
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Buffered
import Millrace.File.Temporary
import qualified Millrace.Manager as Manager
import Millrace.Name
import Millrace.Pipe
import Millrace.Process
import Millrace.Signal
import Millrace.Socket
import Millrace.Socket.Batch
import Millrace.Socket.ByteString (recv, sendAll)
import qualified Millrace.Socket.Connect as Connect
import Millrace.Socket.Option (connectSending)
import Millrace.Socket.Unix
import Millrace.Splice
import qualified Millrace.Stream as Stream
import qualified Millrace.Timer as Timer
import Millrace.Watch
import Support
import System.Directory (listDirectory)
import System.Posix.IO (closeFd)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "threads that are killed at random in functions of the toolkit" $
  it "leave nothing behind" $
    withTemporaryDirectory "." "toolkit" $ \root -> do
      write (root ++ "/file") (bytesAt 0 300000)
      createDirectories (root ++ "/tree/a/b") ownerOnly
      forM_ [1 .. 20 :: Int] $ \i -> write (root ++ "/tree/a/" ++ show i) "x"
      before <- map entryName <$> list root
      -- Loops open descriptors of their own when they first need them.
      killInAll root
      withoutLeaks $ do
        killInAll root
        -- A call that goes on without its caller, such as a sync on a busy disk, may take long.
        isQuiet <- eventually 60000 ((== (0, 0)) . helpers <$> Manager.helperCounts)
        isQuiet `shouldBe` True
      (map entryName <$> list root) `shouldBecome` before
      childCount `shouldBecome` 0
  where
    helpers counts = (Manager.helpersQueued counts, Manager.helpersRunning counts)

killInAll :: FilePath -> IO ()
killInAll root =
  forM_ (functions root) $ \(name, action) -> do
    jobs <- forM [1 .. 24] $ \seed -> start $ do
      random <- newRandom seed
      delay <- below random 6000
      victim <- start (action seed `catch` expected)
      threadDelay delay
      within 20 name (stop victim)
    mapM_ finish jobs
  where
    expected :: IOError -> IO ()
    expected _ = return ()

functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  [ ("openFile", \_ -> withFile (root ++ "/file") ForReading (\file -> void (readAt file 0 100000))),
    ("writeAt", \i -> withTemporaryFile root "w" (\_ file -> forM_ [0 .. 9] (\k -> writeAt file k (bytesAt i 50000)) >> sync file)),
    ("vectors", \_ -> withTemporaryFile root "v" (\_ file -> writeVectorAt file 0 [bytesAt 0 1000, bytesAt 1000 5000] >> void (readVectorAt file 0 [10, 20]))),
    ("append", \_ -> withFileWith (root ++ "/file") ReadWrite [Append] (\file -> append file "" >> syncData file)),
    ("replaceFile", \i -> replaceFile (root ++ "/file") (\file -> writeAt file 0 (bytesAt i 300000))),
    ("copyFile", \_ -> withTemporaryDirectory root "c" (\d -> copyFile (root ++ "/file") (d ++ "/copy"))),
    ("lockFile", \_ -> withFileWith (root ++ "/file") ReadWrite [] (\file -> withLockedFile file Sole (threadDelay 500))),
    ("temporary directories", \_ -> withTemporaryDirectory root "d" (\d -> createDirectories (d ++ "/x/y") ownerOnly)),
    ("nameless files", \_ -> withNamelessFile root (\file -> writeAt file 0 "x")),
    ("walk", \_ -> walk (root ++ "/tree") Always (\_ -> return ())),
    ("status", \_ -> void (status (root ++ "/file") >> canonicalPath root >> space root)),
    ("names", \i -> void (lookUp (host ("127.0.0." ++ show i) "80"))),
    ("pipes", \i -> withPipe (\out into -> writePipe into (bytesAt i 5000) >> void (readPipe out 5000) >> void (readPipe out 1))),
    ("runProcess", \_ -> void (runProcess (command "true" []))),
    ("readProcess", \i -> void (readProcess (command "cat" []) (bytesAt i 100000))),
    ("withProcess", \_ -> withProcess (command "sh" ["-c", "sleep 60 & sleep 60"]) (void . waitProcess)),
    ("terminateProcess", \_ -> withProcess (command "sleep" ["60"]) (void . terminateProcess 1000)),
    ("pseudo-terminals", \_ -> withProcess (command "cat" []) {commandInput = NewTerminal, commandOutput = NewTerminal} (\p -> forM_ (processTerminal p) (\t -> writePseudoTerminal t "x\n" >> void (readPseudoTerminal t 10)))),
    ("signals", \_ -> withSignals [User2] (\signals -> deadlineAfter 1000 >>= \soon -> void (nextSignalBefore soon signals))),
    ("watches", \_ -> withWatch [root ++ "/tree"] Recursive (void . nextEvents)),
    ("deadlines of files", \i -> deadlineAfter 300 >>= \soon -> withTemporaryFile root "d" (\_ file -> writeAtBefore soon file 0 (bytesAt i 50000) >> syncBefore soon file >> void (readAtBefore soon file 0 50000))),
    ("openFileBefore", \i -> deadlineAfter (i * 20) >>= \soon -> openFileBefore soon (root ++ "/file") ForReading >>= closeFile),
    ("finishBefore", \_ -> deadlineAfter 300 >>= \soon -> void (Timer.finishBefore soon (list (root ++ "/tree/a") >> status root))),
    ("readers", \_ -> withFile (root ++ "/file") ForReading (\file -> newReader file 0 >>= \reader -> skipLine reader >> void (readBytes reader 100))),
    ("writers", \i -> withTemporaryFile root "b" (\_ file -> withWriter file 0 (\writer -> forM_ [0 .. 9] (\k -> writeLine writer (bytesAt (i + k) 20000))))),
    ("passing", \i -> unixSockets (\here there -> withPipe (\out _ -> sendPassing here nothingPassed {passedDescriptors = [readEndDescriptor out]} (bytesAt i 10) >> receivePassed there >> receivePassed there))),
    ("batches", \i -> datagramSockets (\here there address -> sendBatch there [(bytesAt i 10, address), ("x", address)] >> sendSegments there 100 (bytesAt i 1000) address >> receiveBatch here 64 1000 >> void (receiveBatch here 64 1000))),
    ("splicing sockets", \i -> unixSockets (\far here -> unixSockets (\there _ -> sendAll far (bytesAt i 50000) >> void (splice (FromSocket here) (ToSocket there) everything)))),
    ("splicing files", \_ -> withTemporaryFile root "s" (\_ target -> withFile (root ++ "/file") ForReading (\file -> void (splice (FromFile file 0) (ToFile target 0) everything)))),
    ("connectSending", \i -> withListener (\_ address -> bracket (socket AF_INET Stream defaultProtocol) close (\s -> connectSending s address (bytesAt i 5000) >> void (recv s 1)))),
    ("timers", \_ -> void (Timer.timeout 1000 (readNothing root))),
    ("sizes and holes", \_ -> withTemporaryFile root "h" (\_ file -> setFileSize file 9000 >> allocate file 0 20000 >> punchHole file 0 4096 >> void (fileStatus file))),
    ("copyRange", \_ -> withTemporaryFile root "r" (\_ to -> withFile (root ++ "/file") ForReading (\from -> cloneFile from to >> void (copyRange from 0 to 0 300000)))),
    ("direct reads", \_ -> withFileWith (root ++ "/file") ReadOnly [Direct] (\file -> directMemory 8192 >>= \place -> void (readIntoMemory file 0 place 8192))),
    ("names of files", \_ -> withTemporaryDirectory root "n" (\d -> write (d ++ "/a") "x" >> createLink (d ++ "/a") (d ++ "/b") >> createSymbolicLink "a" (d ++ "/c") >> readSymbolicLink (d ++ "/c") >> rename (d ++ "/a") (d ++ "/d") >> exchange (d ++ "/b") (d ++ "/d") >> renameNew (d ++ "/b") (d ++ "/e") >> removeFile (d ++ "/e") >> void (exists d))),
    ("attributes", \_ -> withTemporaryFile root "a" (\path _ -> setPermissions path ownerOnly >> setTimes path Nothing (Just (Time 1 2)) >> setOwner path Nothing Nothing >> void (linkStatus path))),
    ("removeFileBefore", \i -> withTemporaryDirectory root "m" (\d -> write (d ++ "/a") "x" >> deadlineAfter (i * 20) >>= \soon -> removeFileBefore soon (d ++ "/a"))),
    ("names with deadlines", \i -> deadlineAfter (i * 20) >>= \soon -> void (lookUpBefore soon (host "localhost" "80") >> lookUpNameBefore soon (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) [])),
    ("caches of names", \i -> newCache 10 1000 >>= \cache -> void (lookUpIn cache noDeadline (host ("127.0.1." ++ show i) "80") >> lookUpIn cache noDeadline (host "localhost" "80"))),
    ("pipes with deadlines", \i -> withPipe (\out into -> deadlineAfter 300 >>= \soon -> writePipeBefore soon into (bytesAt i 100000) >> void (readPipeBefore soon out 10))),
    ("FIFOs", \i -> withTemporaryDirectory root "f" (\d -> createFifo (d ++ "/f") ownerOnly >> bracket (openFifoForReading (d ++ "/f")) closeReadEnd (\out -> bracket (openFifoForWriting (d ++ "/f")) closeWriteEnd (\into -> writePipe into (bytesAt i 10) >> void (readPipe out 10))))),
    ("processes with deadlines", \i -> deadlineAfter (i * 100) >>= \soon -> runProcessBefore soon (command "sleep" ["60"]) >> void (readProcessBefore soon (command "cat" []) (bytesAt i 1000))),
    ("waitProcessBefore", \_ -> withProcess (command "sleep" ["60"]) (\process -> deadlineAfter 500 >>= \soon -> waitProcessBefore soon process >> signalGroup process 15)),
    ("nextEventsBefore", \i -> withWatch [root ++ "/tree"] Flat (\watch -> deadlineAfter (i * 50) >>= \soon -> void (nextEventsBefore soon watch))),
    ("nextSignal", \_ -> withSignals [User2] (\signals -> raiseSignal User2 >> nextSignal signals >> void (nextSignal signals))),
    ("connectTo", \_ -> withListener (\listener _ -> socketPort listener >>= \port -> bracket (Connect.connectTo (host "localhost" (show port))) close (\s -> void (recv s 1)))),
    ("servers", \i -> Connect.withRunningServer Connect.defaultServer (passive "0") {queryHost = Just "127.0.0.1"} (\s -> void (recv s 1)) (Timer.threadDelay (i * 20))),
    ("concurrently", \_ -> withFile (root ++ "/file") ForReading (\file -> Stream.fromFile file 0 >>= \source -> void (Stream.concurrently 2 source (\ahead -> Stream.copy ahead (\_ -> return ()))))),
    ("lines of sockets", \i -> unixSockets (\here there -> sendAll here (bytesAt i 300) >> Stream.linesOf 1000 (Stream.fromSocket there) >>= \line -> line >> void line)),
    ("spliceBefore", \_ -> unixSockets (\_ here -> unixSockets (\there _ -> deadlineAfter 400 >>= \soon -> void (spliceBefore soon (FromSocket here) (ToSocket there) everything))))
  ]
  where
    unixSockets = withPairOf (socketPair AF_UNIX Stream defaultProtocol)
    receivePassed s = mask_ (receivePassing s 10 >>= mapM_ closeFd . passedDescriptors . snd)
    datagramSockets use = withPairOf ((,) <$> datagramSocket <*> datagramSocket) (\here there -> getSocketName here >>= use here there)
    datagramSocket = mask_ (socket AF_INET Datagram defaultProtocol >>= \s -> s <$ (bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) `onException` close s))
    readNothing directory = withPipe (\out _ -> list directory >> readPipe out 1)

write :: FilePath -> ByteString.ByteString -> IO ()
write path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes)

childCount :: IO Int
childCount = do
  tasks <- listDirectory "/proc/self/task"
  children <- forM tasks $ \task ->
    (readFile ("/proc/self/task/" ++ task ++ "/children") >>= \text -> length text `seq` return text) `catch` none
  return (length (concatMap words children))
  where
    none :: IOError -> IO String
    none _ = return ""
