{-# LANGUAGE OverloadedStrings #-}

-- | Threads are killed at random moments in every function of the toolkit. Afterwards nothing is left: no descriptor,
-- operation, child, file or call. scripts/lint/toolkit reports functions that are missing here.
module ToolkitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.STM (atomically)
import Control.Exception (bracket, catch, mask_, onException)
import Control.Monad (forM, forM_, replicateM_, void)
import qualified Data.ByteString as ByteString
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Millrace.Deadline
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Buffered
import Millrace.File.Temporary
import qualified Millrace.Manager as Manager
import Millrace.Name
import Millrace.Pipe
import Millrace.Pool
import Millrace.Process
import Millrace.Signal
import Millrace.Socket
import Millrace.Socket.Batch
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString
import Millrace.Socket.Connect
import Millrace.Socket.Datagram
import Millrace.Socket.File
import Millrace.Socket.Option (connectSending, connectSendingBefore)
import Millrace.Socket.Train
import Millrace.Socket.Unix
import Millrace.Splice
import qualified Millrace.Stream as Stream
import qualified Millrace.Timer as Timer
import Millrace.Wait
import Millrace.Watch
import Support hiding (connectTo)
import System.Directory (listDirectory)
import System.IO (IOMode (WriteMode), openBinaryFile)
import System.Posix.Fcntl (Advice (AdviceDontNeed), fileAdvise)
import System.Posix.IO (closeFd, handleToFd)
import System.Posix.Types (Fd (..))
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "the toolkit" $ do
  it "leaves nothing behind when threads are killed at random in its functions" $
    withTree $ \root -> do
      before <- map entryName <$> list root
      -- Loops open their descriptors when they first need them.
      killInEach (functions root)
      withoutLeaks $ do
        killInEach (functions root)
        -- A call that continues without its caller, such as a sync on a busy disk, may take long.
        hasSettled <- becomesTrue 60000 ((== (0, 0)) . helpers <$> Manager.helperCounts)
        hasSettled `shouldBe` True
      (map entryName <$> list root) `shouldBecome` before
      childCount `shouldBecome` 0
  it "works in the child of a fork, whichever function is the first" $
    withTree $ \root -> forM_ (groupsOf 8 (functions root)) $ \group -> do
      children <- forM group $ \(name, action) -> (,) name <$> forked (killOneIn (name, action))
      forM_ children $ \(name, child) -> succeeds child `onException` putStrLn ("The first call was " ++ name ++ ".")
  where
    groupsOf count list' = if null list' then [] else take count list' : groupsOf count (drop count list')
    helpers counts = (Manager.helpersQueued counts, Manager.helpersRunning counts)

withTree :: (FilePath -> IO a) -> IO a
withTree use =
  withTemporaryDirectory "." "toolkit" $ \root -> do
    write (root ++ "/file") (bytesAt 0 300000)
    createDirectories (root ++ "/tree/a/b") ownerOnly
    forM_ [1 .. 20 :: Int] $ \i -> write (root ++ "/tree/a/" ++ show i) "x"
    -- More than fit into one batch.
    createDirectory (root ++ "/many") ownerOnly
    forM_ [1 .. 4000 :: Int] $ \i ->
      createSymbolicLink "nowhere" (root ++ "/many/a name that needs some room " ++ show i)
    use root

functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  [ ("openFile", \_ -> bracket (openFile (root ++ "/file") ForReading) closeFile (void . fileSize)),
    ("withFile", \_ -> withFile (root ++ "/file") ForReading (\file -> void (readAt file 0 100000))),
    ( "readExactlyAt",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              void (readExactlyAt file 0 300000) >> deadlineAfter 5000000 >>= \soon ->
                void (readExactlyAtBefore soon file 0 9)
          )
    ),
    ( "writeAt",
      \i ->
        withTemporaryFile root "w" (\_ file -> forM_ [0 .. 9] (\k -> writeAt file k (bytesAt i 50000)) >> sync file)
    ),
    ( "vectors",
      \_ ->
        withTemporaryFile
          root
          "v"
          (\_ file -> writeVectorAt file 0 [bytesAt 0 1000, bytesAt 1000 5000] >> void (readVectorAt file 0 [10, 20]))
    ),
    ("append", \_ -> withFileWith (root ++ "/file") ReadWrite [Append] (\file -> append file "" >> syncData file)),
    ("replaceFile", \i -> replaceFile (root ++ "/file") (\file -> writeAt file 0 (bytesAt i 300000))),
    ("copyFile", \_ -> withTemporaryDirectory root "c" (\d -> copyFile (root ++ "/file") (d ++ "/copy"))),
    ( "lockFile",
      \_ ->
        withFileWith (root ++ "/file") ReadWrite [] (\file -> withLockedFile file Sole (threadDelay 500))
    ),
    ( "unlockFile",
      \_ ->
        withFileWith
          (root ++ "/file")
          ReadWrite
          []
          (\file -> lockFile file Shared >> unlockFile file >> void (tryLockFile file Sole))
    ),
    ( "locks with deadlines",
      \i ->
        withFileWith
          (root ++ "/file")
          ReadWrite
          []
          ( \file ->
              deadlineAfter (i * 100) >>= \soon ->
                withLockedFileBefore soon file Sole (threadDelay 500) >> lockFileBefore soon file Shared
          )
    ),
    ("openFileWith", \_ -> bracket (openFileWith (root ++ "/file") ReadOnly [NoFollow]) closeFile (void . fileStatus)),
    ( "directories",
      \_ ->
        withTemporaryDirectory
          root
          "y"
          ( \d ->
              createDirectory (d ++ "/a") ownerOnly
                >> removeDirectory (d ++ "/a")
                >> createDirectories (d ++ "/b/c") ownerOnly
                >> removeTree (d ++ "/b")
          )
    ),
    ( "copyFileReporting",
      \_ ->
        withTemporaryDirectory
          root
          "p"
          (\d -> copyFileReporting (root ++ "/file") (d ++ "/copy") (\_ _ -> threadDelay 100))
    ),
    ( "writeFromMemory",
      \_ ->
        withTemporaryFile root "g" (\_ file -> directMemory 8192 >>= \place -> writeFromMemory file 0 place 8192)
    ),
    ("temporary directories", \_ -> withTemporaryDirectory root "d" (\d -> createDirectories (d ++ "/x/y") ownerOnly)),
    ("nameless files", \_ -> withNamelessFile root (\file -> writeAt file 0 "x")),
    ("walk", \_ -> walk (root ++ "/tree") Always (\_ -> return ())),
    ( "folds of directories",
      \i ->
        void (foldTree (root ++ "/tree") Never i (\n _ -> return (if n == 0 then Stop n else Proceed (n - 1))))
          >> void (foldEntries (root ++ "/many") i (\n _ -> return (Proceed (n + 1))))
    ),
    ( "streams of names",
      \_ ->
        withDirectory (root ++ "/many") (void . nextEntry)
          >> bracket (openDirectory (root ++ "/many")) closeDirectory (replicateM_ 5000 . nextEntry)
    ),
    ("status", \_ -> void (status (root ++ "/file") >> canonicalPath root >> space root)),
    ( "names",
      \i ->
        void
          ( lookUp (host ("127.0.0." ++ show i) "80")
              >> lookUpName (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) []
          )
    ),
    ( "pipes",
      \i ->
        withPipe (\out into -> writePipe into (bytesAt i 5000) >> void (readPipe out 5000) >> void (readPipe out 1))
    ),
    ("runProcess", \_ -> void (runProcess (command "true" []))),
    ("readProcess", \i -> void (readProcess (command "cat" []) (bytesAt i 100000))),
    ("withProcess", \_ -> withProcess (command "sh" ["-c", "sleep 60 & sleep 60"]) (void . waitProcess)),
    ("terminateProcess", \_ -> withProcess (command "sleep" ["60"]) (void . terminateProcess 1000)),
    ( "pseudo-terminals",
      \_ ->
        withProcess
          (command "cat" []) {commandInput = NewTerminal, commandOutput = NewTerminal}
          (\p -> forM_ (processTerminal p) (\t -> writePseudoTerminal t "x\n" >> void (readPseudoTerminal t 10)))
    ),
    ( "pseudo-terminals with deadlines",
      \i ->
        withProcess
          (command "cat" []) {commandInput = NewTerminal, commandOutput = NewTerminal}
          ( \p ->
              deadlineAfter (i * 100) >>= \soon ->
                forM_
                  (processTerminal p)
                  (\t -> writePseudoTerminalBefore soon t "x\n" >> replicateM_ 3 (readPseudoTerminalBefore soon t 10))
          )
    ),
    ( "startProcess",
      \_ ->
        bracket
          (startProcess (command "sleep" ["60"]))
          (\process -> signalProcess process 9 >> waitProcess process)
          (void . waitProcess)
    ),
    ( "signals",
      \_ ->
        withSignals [User2] (\signals -> deadlineAfter 1000 >>= \soon -> void (nextSignalBefore soon signals))
    ),
    ("watches", \_ -> withWatch [root ++ "/tree"] Recursive (void . nextEvents)),
    ( "deadlines of files",
      \i ->
        deadlineAfter 300 >>= \soon ->
          withTemporaryFile
            root
            "d"
            ( \_ file ->
                writeAtBefore soon file 0 (bytesAt i 50000)
                  >> syncBefore soon file
                  >> void (readAtBefore soon file 0 50000)
            )
    ),
    ( "openFileBefore",
      \i ->
        deadlineAfter (i * 20) >>= \soon ->
          bracket (openFileBefore soon (root ++ "/file") ForReading) closeFile (void . fileSize)
    ),
    ( "finishBefore",
      \_ ->
        deadlineAfter 300 >>= \soon -> void (Timer.finishBefore soon (list (root ++ "/tree/a") >> status root))
    ),
    ( "readers",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              newReader file 0 >>= \reader -> skipLine reader >> readLine reader 100000 >> void (readBytes reader 100)
          )
    ),
    ( "writers",
      \i ->
        withTemporaryFile
          root
          "b"
          ( \_ file ->
              withWriter
                file
                0
                ( \writer ->
                    forM_
                      [0 .. 9]
                      (\k -> writeLine writer (bytesAt (i + k) 20000) >> writeBytes writer "x" >> flush writer)
                )
          )
    ),
    ( "passing",
      \i ->
        unixSockets
          ( \here there ->
              withPipe
                ( \out _ ->
                    sendPassing here nothingPassed {passedDescriptors = [readEndDescriptor out]} (bytesAt i 10)
                      >> receivePassed there
                      >> receivePassed there
                )
          )
    ),
    ( "batches",
      \i ->
        datagramSockets
          ( \here there address ->
              sendBatch there [(bytesAt i 10, address), ("x", address)]
                >> sendSegments there 100 (bytesAt i 1000) address
                >> receiveBatch here 64 1000
                >> void (receiveBatch here 64 1000)
          )
    ),
    ( "trains",
      \i ->
        datagramSockets
          ( \here there address ->
              sendTrains
                there
                [ Train (Path address Nothing) CapableZero 100 (bytesAt i 1000),
                  Train
                    (Path address Nothing)
                    NotCapable
                    1
                    "x"
                ]
                >> receiveTrains here 64
                >> void (receiveTrains here 64)
          )
    ),
    ( "splicing sockets",
      \i ->
        unixSockets
          ( \far here ->
              unixSockets
                ( \there _ ->
                    sendAll far (bytesAt i 50000) >> void (splice (FromSocket here) (ToSocket there) everything)
                )
          )
    ),
    ( "splicing to a device",
      \i ->
        unixSockets
          ( \far here ->
              bracket
                (openBinaryFile "/dev/null" WriteMode >>= handleToFd >>= writeEndFromDescriptor)
                closeWriteEnd
                (\target -> sendAll far (bytesAt i 50000) >> void (splice (FromSocket here) (ToPipe target) everything))
          )
    ),
    ( "sending a file that is not in memory",
      \_ ->
        unixSockets
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    fileAdvise (fileDescriptor file) 0 0 AdviceDontNeed
                      >> void (sendFile here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "splicing files",
      \_ ->
        withTemporaryFile
          root
          "s"
          ( \_ target ->
              withFile
                (root ++ "/file")
                ForReading
                (\file -> void (splice (FromFile file 0) (ToFile target 0) everything))
          )
    ),
    ( "connectSending",
      \i ->
        withListener
          ( \_ address ->
              bracket
                (socket AF_INET Stream defaultProtocol)
                close
                (\s -> connectSending s address (bytesAt i 5000) >> void (recv s 1))
          )
    ),
    ("timers", \_ -> void (Timer.timeout 1000 (readNothing root))),
    ( "sizes and holes",
      \_ ->
        withTemporaryFile
          root
          "h"
          (\_ file -> setFileSize file 9000 >> allocate file 0 20000 >> punchHole file 0 4096 >> void (fileStatus file))
    ),
    ( "copyRange",
      \_ ->
        withTemporaryFile
          root
          "r"
          ( \_ to ->
              withFile (root ++ "/file") ForReading (\from -> cloneFile from to >> void (copyRange from 0 to 0 300000))
          )
    ),
    ( "direct reads",
      \_ ->
        withFileWith
          (root ++ "/file")
          ReadOnly
          [Direct]
          (\file -> directMemory 8192 >>= \place -> void (readIntoMemory file 0 place 8192))
    ),
    ( "names of files",
      \_ ->
        withTemporaryDirectory
          root
          "n"
          ( \d ->
              write (d ++ "/a") "x"
                >> createLink (d ++ "/a") (d ++ "/b")
                >> createSymbolicLink "a" (d ++ "/c")
                >> readSymbolicLink (d ++ "/c")
                >> rename (d ++ "/a") (d ++ "/d")
                >> exchange (d ++ "/b") (d ++ "/d")
                >> renameNew (d ++ "/b") (d ++ "/e")
                >> removeFile (d ++ "/e")
                >> void (exists d)
          )
    ),
    ( "attributes",
      \_ ->
        withTemporaryFile
          root
          "a"
          ( \path _ ->
              setPermissions path ownerOnly
                >> setTimes path Nothing (Just (Time 1 2))
                >> setOwner path Nothing Nothing
                >> void (linkStatus path)
          )
    ),
    ( "removeFileBefore",
      \i ->
        withTemporaryDirectory
          root
          "m"
          (\d -> write (d ++ "/a") "x" >> deadlineAfter (i * 20) >>= \soon -> removeFileBefore soon (d ++ "/a"))
    ),
    ( "names with deadlines",
      \i ->
        deadlineAfter (i * 20) >>= \soon ->
          void
            ( lookUpBefore soon (host "localhost" "80")
                >> lookUpNameBefore soon (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) []
            )
    ),
    ( "caches of names",
      \i ->
        newCache 10 1000 >>= \cache ->
          void
            ( lookUpIn cache noDeadline (host ("127.0.1." ++ show i) "80")
                >> lookUpIn cache noDeadline (host "localhost" "80")
            )
    ),
    ( "pipes with deadlines",
      \i ->
        withPipe
          ( \out into ->
              deadlineAfter 300 >>= \soon ->
                writePipeBefore soon into (bytesAt i 100000) >> void (readPipeBefore soon out 10)
          )
    ),
    ( "FIFOs",
      \i ->
        withTemporaryDirectory
          root
          "f"
          ( \d ->
              createFifo (d ++ "/f") ownerOnly
                >> bracket
                  (openFifoForReading (d ++ "/f"))
                  closeReadEnd
                  ( \out ->
                      bracket
                        (openFifoForWriting (d ++ "/f"))
                        closeWriteEnd
                        (\into -> writePipe into (bytesAt i 10) >> void (readPipe out 10))
                  )
          )
    ),
    ( "openFifoForWritingBefore",
      \i ->
        withTemporaryDirectory
          root
          "o"
          ( \d ->
              createFifo (d ++ "/f") ownerOnly >> deadlineAfter (i * 100) >>= \soon ->
                bracket (openFifoForWritingBefore soon (d ++ "/f")) closeWriteEnd (\_ -> return ())
          )
    ),
    ( "processes with deadlines",
      \i ->
        deadlineAfter (i * 100) >>= \soon ->
          runProcessBefore soon (command "sleep" ["60"])
            >> void (readProcessBefore soon (command "cat" []) (bytesAt i 1000))
    ),
    ( "waitProcessBefore",
      \_ ->
        withProcess
          (command "sleep" ["60"])
          (\process -> deadlineAfter 500 >>= \soon -> waitProcessBefore soon process >> signalGroup process 15)
    ),
    ( "nextEventsBefore",
      \i ->
        withWatch
          [root ++ "/tree"]
          Flat
          (\watch -> deadlineAfter (i * 50) >>= \soon -> void (nextEventsBefore soon watch))
    ),
    ( "nextSignal",
      \_ ->
        withSignals [User2] (\signals -> raiseSignal User2 >> nextSignal signals >> void (nextSignal signals))
    ),
    ( "connectTo",
      \_ ->
        withListener
          ( \listener _ ->
              socketPort listener >>= \port ->
                bracket (connectTo (host "localhost" (show port))) close (\s -> void (recv s 1))
          )
    ),
    ( "servers",
      \i ->
        withRunningServer
          defaultServer
          (passive "0") {queryHost = Just "127.0.0.1"}
          (\s -> void (recv s 1))
          (Timer.threadDelay (i * 20))
    ),
    ( "connectToBefore",
      \i ->
        withListener
          ( \listener _ ->
              socketPort listener >>= \port ->
                deadlineAfter (i * 50) >>= \soon ->
                  bracket (connectToBefore soon (host "localhost" (show port))) close (\s -> void (recv s 1))
          )
    ),
    ("withServer", \_ -> withServer defaultServer (passive "0") {queryHost = Just "127.0.0.1"} (\s -> void (recv s 1))),
    ( "sockets",
      \i ->
        unixSockets
          ( \here there ->
              memory
                ( \place ->
                    send here "x"
                      >> sendMany here ["x", bytesAt i 1000]
                      >> recv there 10
                      >> recvBuf there place 65536
                      >> sendBuf here place 100
                      >> replicateM_ 20 (sendAllBuf here place 65536)
                )
          )
    ),
    ( "sockets with deadlines",
      \i ->
        unixSockets
          ( \here there ->
              memory
                ( \place ->
                    deadlineAfter (i * 50) >>= \soon ->
                      sendBefore soon here "x"
                        >> sendManyBefore soon here ["x", "y"]
                        >> sendAllBefore soon here (bytesAt i 1000)
                        >> sendBufBefore soon here place 100
                        >> recvBefore soon there 10
                        >> recvBufBefore soon there place 65536
                        >> replicateM_ 20 (sendAllBufBefore soon here place 65536)
                )
          )
    ),
    ( "sockets with limits",
      \i ->
        unixSockets (\here _ -> memory (replicateM_ 20 . flip (sendAllBufWithin (microseconds (i * 50)) here) 65536))
    ),
    ( "accept",
      \_ ->
        withListener
          ( \listener address ->
              withStream
                ( \s ->
                    connect s address
                      >> bracket (fst <$> accept listener) close (\far -> sendAll far "x" >> void (accept listener))
                )
          )
    ),
    ( "acceptBefore",
      \i ->
        withListener
          ( \listener address ->
              deadlineAfter (i * 100) >>= \soon ->
                withStream
                  ( \s ->
                      connectBefore soon s address
                        >> bracket (fst <$> acceptBefore soon listener) close (\_ -> void (acceptBefore soon listener))
                  )
          )
    ),
    ("gracefulClose", \_ -> unixSockets (\here _ -> gracefulClose here 3)),
    ( "descriptors",
      \_ ->
        unixSockets
          ( \here there ->
              withPipe (\out _ -> sendFd here (numberOf (readEndDescriptor out)) >> receiveFd there >> receiveFd there)
          )
    ),
    ( "datagrams",
      \i ->
        datagramSockets
          ( \here there address ->
              sendTo there (bytesAt i 10) address >> sendAllTo there "x" address >> replicateM_ 3 (recvFrom here 10)
          )
    ),
    ( "datagrams with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (i * 50) >>= \soon ->
                sendToBefore soon there (bytesAt i 10) address
                  >> sendAllToBefore soon there "x" address
                  >> replicateM_ 3 (recvFromBefore soon here 10)
          )
    ),
    ( "sendFile",
      \_ ->
        unixSockets
          ( \here there ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    sendFile here (fileDescriptor file) 0 1000
                      >> recv there 1000
                      >> void (sendFile here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "sendFileBefore",
      \i ->
        unixSockets
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    deadlineAfter (i * 50) >>= \soon ->
                      replicateM_ 3 (sendFileBefore soon here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "borrowed buffers",
      \i ->
        unixSockets
          ( \here there ->
              sendAll here "xy"
                >> recvBorrowed noDeadline there 1 gaveBack
                >> replicateM_ 2 (recvBorrowedWithin (microseconds (i * 50)) there 1 gaveBack)
          )
    ),
    ( "sendThenReceiveWithin",
      \_ ->
        unixSockets
          ( \here _ ->
              mask_ (borrow >>= \buffer -> sendThenReceiveWithin noTimeLimit here (Slice buffer 0 10) (answered buffer))
          )
    ),
    ( "passing with deadlines",
      \i ->
        unixSockets
          ( \here there ->
              deadlineAfter (i * 50) >>= \soon ->
                sendPassingBefore soon here nothingPassed (bytesAt i 10)
                  >> receivePassingBefore soon there 10
                  >> void (receivePassingBefore soon there 10)
          )
    ),
    ( "batches with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (i * 50) >>= \soon ->
                sendBatchBefore soon there [("x", address)]
                  >> sendSegmentsBefore soon there 100 (bytesAt i 1000) address
                  >> replicateM_ 3 (receiveBatchBefore soon here 64 1000)
          )
    ),
    ( "trains with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (i * 50) >>= \soon ->
                sendTrainsBefore soon there [Train (Path address Nothing) NotCapable 1 "xy"]
                  >> replicateM_ 3 (receiveTrainsBefore soon here 64)
          )
    ),
    ( "connectSendingBefore",
      \i ->
        withListener
          ( \_ address ->
              withStream
                ( \s ->
                    deadlineAfter (i * 50) >>= \soon ->
                      connectSendingBefore soon s address (bytesAt i 5000) >> void (recv s 1)
                )
          )
    ),
    ( "waits for descriptors",
      \_ ->
        withPipe
          ( \out into ->
              threadWaitWrite (writeEndDescriptor into)
                >> transaction (threadWaitWriteSTM (writeEndDescriptor into))
                >> transaction (threadWaitReadSTM (readEndDescriptor out))
          )
    ),
    ("threadWaitRead", \_ -> withPipe (\out _ -> threadWaitRead (readEndDescriptor out))),
    ( "pools",
      \_ ->
        withPool
          pipes
          ( \pool ->
              withResource pool (\(out, into) -> writePipe into "x" >> readPipe out 1)
                >> void (withResource pool (\(out, _) -> readPipe out 1))
          )
    ),
    ( "turns in pools",
      \_ ->
        bracket
          (newPool pipes)
          closePool
          ( \pool ->
              deadlineAfter 60000000 >>= \late ->
                withResource pool (\_ -> withResourceBefore late pool (\_ -> return ()))
          )
    ),
    ("liftableTimeout", \_ -> void (Timer.liftableTimeout 1000 (\lift -> lift >> Timer.threadDelay 2000))),
    ( "finishBeforeOr",
      \i ->
        deadlineAfter (i * 20) >>= \soon ->
          bracket
            (Timer.finishBeforeOr soon closeFile (openFile (root ++ "/file") ForReading))
            closeFile
            (\_ -> return ())
    ),
    ( "streams",
      \_ ->
        unixSockets
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    withTemporaryFile
                      root
                      "x"
                      ( \_ copied ->
                          Stream.fromFile file 0 >>= Stream.atMost 290000 >>= Stream.counting >>= \(source, _) ->
                            Stream.toFile copied 0 >>= \sink ->
                              void
                                (Stream.copyReporting source (Stream.tee sink (Stream.toSocket here)) (\_ -> return ()))
                      )
                )
          )
    ),
    ( "frames",
      \i ->
        unixSockets
          ( \here there ->
              sendAll here (Stream.frame Stream.Length16 (bytesAt i 300))
                >> Stream.framesOf Stream.Length16 1000 (Stream.fromSocket there)
                >>= \next ->
                  next >> void next
          )
    ),
    ( "exactly",
      \i ->
        unixSockets
          ( \here there ->
              sendAll here (bytesAt i 10) >> Stream.exactly (Stream.fromSocket there) >>= \(takeBytes, isAtEnd) ->
                takeBytes 10 >> void isAtEnd
          )
    ),
    ( "collect",
      \i ->
        unixSockets
          ( \here there ->
              sendAll here (bytesAt i 300) >> Stream.linesOf 1000 (Stream.fromSocket there) >>= void . Stream.collect
          )
    ),
    ( "whole",
      \i ->
        unixSockets (\here there -> sendAll here (bytesAt i 300) >> void (Stream.whole 1000 (Stream.fromSocket there)))
    ),
    ( "concurrently",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              Stream.fromFile file 0 >>= \source ->
                void (Stream.concurrently 2 source (\ahead -> Stream.copy ahead (\_ -> return ())))
          )
    ),
    ( "lines of sockets",
      \i ->
        unixSockets
          ( \here there ->
              sendAll here (bytesAt i 300) >> Stream.linesOf 1000 (Stream.fromSocket there) >>= \line ->
                line >> void line
          )
    ),
    ( "spliceBefore",
      \_ ->
        unixSockets
          ( \_ here ->
              unixSockets
                ( \there _ ->
                    deadlineAfter 400 >>= \soon ->
                      void (spliceBefore soon (FromSocket here) (ToSocket there) everything)
                )
          )
    )
  ]
  where
    unixSockets = withPairOf (socketPair AF_UNIX Stream defaultProtocol)
    receivePassed s = mask_ (receivePassing s 10 >>= mapM_ closeFd . passedDescriptors . snd)
    datagramSockets use =
      withPairOf ((,) <$> datagramSocket <*> datagramSocket) (\here there -> getSocketName here >>= use here there)
    datagramSocket =
      mask_
        ( socket AF_INET Datagram defaultProtocol >>= \s ->
            s <$ (bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) `onException` close s)
        )
    withStream = bracket (socket AF_INET Stream defaultProtocol) close
    memory :: (Ptr Word8 -> IO a) -> IO a
    memory = allocaBytes 65536
    numberOf (Fd number) = number
    receiveFd s = mask_ (recvFd s >>= closeFd . Fd)
    gaveBack (Received buffer _) = giveBack buffer
    gaveBack EndOfStream = return ()
    answered buffer (NotSent _) = giveBack buffer
    answered _ (Sent received) = gaveBack received
    transaction begin = bracket begin snd (atomically . fst)
    pipes = (poolSettings (const newPipe) (\(out, into) -> closeReadEnd out >> closeWriteEnd into)) {poolLimit = 1}
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
