{-# LANGUAGE OverloadedStrings #-}

-- | Pipes, signals, terminals and names.
module PipeSpec (spec) where

import Control.Concurrent (getNumCapabilities, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, evaluate, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Data.Maybe (fromJust)
import Foreign.C.Error (eBADF, eINVAL, eMFILE, ePIPE, eSRCH)
import GHC.IO.Exception (IOException (..))
import Millrace.Deadline
import Millrace.Directory (Permissions (..))
import Millrace.File.Temporary (withTemporaryDirectory)
import Millrace.Name
import Millrace.Pipe
import Millrace.Process
import Millrace.Signal
import Millrace.Socket
  ( AddrInfo (..),
    AddrInfoFlag (..),
    Family (..),
    NameInfoFlag (..),
    SockAddr (..),
    SocketType (..),
    defaultProtocol,
    tupleToHostAddress,
  )
import Millrace.Splice
import Millrace.Terminal
import qualified Millrace.Timer as Timer
import Support
import System.Environment (getExecutablePath)
import System.IO.Error (isDoesNotExistError)
import System.Mem.StableName (makeStableName)
import System.Posix.Process (getProcessID)
import qualified System.Posix.Signals as Posix
import Test.Hspec

spec :: Spec
spec = do
  describe "Millrace.Pipe" $ do
    it "carries bytes, and waits when it is full or empty" $
      withoutLeaks . withPipe $ \out into -> do
        writer <- start (writePipe into (bytesAt 0 1000000) >> closeWriteEnd into)
        received <- receiveAllBy (readPipe out 65536)
        received `shouldBe` bytesAt 0 1000000
        finish writer
    it "has deadlines, loses nothing to them, and is closed under a waiting thread" $
      withoutLeaks . withPipe $ \out into -> do
        soon <- deadlineAfter (milliseconds 2)
        failsWith (readPipeBefore soon out 10) >>= (`shouldSatisfy` isDeadlineError)
        writePipe into "late"
        readPipe out 10 `shouldReturn` "late"
        waiting <- start (readPipe out 10)
        pause 2000
        closeReadEnd out
        outcomeOf waiting >>= (`shouldSatisfy` isErrno eBADF)
    it "tells a writer that nobody reads" $
      withoutLeaks . withPipe $ \out into -> do
        closeReadEnd out
        failsWith (writePipe into "x") >>= (`shouldSatisfy` hasCode ePIPE)
    it "does not change another file when it was closed" $
      withoutLeaks . withPipe $ \_ into -> do
        closeWriteEnd into
        -- One of these has its number now.
        withPipe $ \_ other -> do
          held <- setPipeCapacity other 0
          failsWith (setPipeCapacity into 4096) >>= (`shouldSatisfy` hasCode eBADF)
          setPipeCapacity other 0 `shouldReturn` held
    it "loses nothing when readers are interrupted" $
      withoutLeaks . withPipe $ \out into -> do
        writer <- start (forM_ [0 .. 199] (\i -> writePipe into (bytesAt (i * 50) 50)) >> closeWriteEnd into)
        received <- readInterrupted out
        finish writer
        received `shouldBe` bytesAt 0 10000
    it "has names" $
      withoutLeaks . withTemporaryDirectory "." "fifo" $ \root -> do
        createFifo (root ++ "/fifo") (Permissions 0o600)
        Timer.timeout 5000 (openFifoForWriting (root ++ "/fifo")) >>= (`shouldSatisfy` null)
        soon <- deadlineAfter (milliseconds 5)
        failsWith (openFifoForWritingBefore soon (root ++ "/fifo")) >>= (`shouldSatisfy` isDeadlineError)
        out <- openFifoForReading (root ++ "/fifo")
        into <- openFifoForWriting (root ++ "/fifo")
        writePipe into "x"
        readPipe out 1 `shouldReturn` "x"
        closeReadEnd out >> closeWriteEnd into
  describe "Millrace.Signal" $ do
    it "gives every listener each signal" $
      withSignals [User1, User2] $ \one -> withSignals [User1] $ \other -> do
        raiseSignal User1
        within 5 "the signal" (nextSignal one) `shouldReturn` User1
        within 5 "the signal" (nextSignal other) `shouldReturn` User1
        raiseSignal User2
        within 5 "the signal" (nextSignal one) `shouldReturn` User2
        soon <- deadlineAfter (milliseconds 2)
        nothingIfLate (nextSignalBefore soon other) `shouldReturn` Nothing
    it "refuses what cannot be received, and leaves the others as they were" $
      withHandler Posix.sigUSR1 $ \handled ->
        -- SIGKILL, a signal that belongs to libc, and no signal.
        forM_ [9, 32, 65] $ \number -> do
          failsWith (withSignals [User1, Numbered number] (const (return ()))) >>= (`shouldSatisfy` hasCode eINVAL)
          raiseSignal User1
          within 5 "the signal" handled
    it "takes no number for another one that it would be if it were cut off" $ do
      let beyond = 2 ^ (32 :: Int)
      withSignals [User1] $ \signals -> do
        self <- fromIntegral <$> getProcessID
        failsWith (sendSignal User1 (beyond + self)) >>= (`shouldSatisfy` hasCode eSRCH)
        void (failsWith (raiseSignal (Numbered (beyond + signalNumber User1))) :: IO IOError)
        void (failsWith (withSignals [Numbered (beyond + signalNumber User2)] return) :: IO IOError)
        now <- deadlineAfter (milliseconds 50)
        nothingIfLate (nextSignalBefore now signals) `shouldReturn` Nothing
      withProcess (command "sleep" ["60"]) $ \process -> do
        failsWith (signalProcess (Numbered (beyond + 9)) process) >>= (`shouldSatisfy` hasCode eINVAL)
        processExit process `shouldReturn` Nothing
    it "is a stream of its listener alone" $
      withSignals [User1] $ \one -> withSignals [User1] $ \other -> do
        (one == one, one == other) `shouldBe` (True, False)
        getProcessID >>= sendSignal User1 . fromIntegral
        within 5 "the signal" (nextSignalBefore noDeadline one) `shouldReturn` User1
        within 5 "the signal" (nextSignal other) `shouldReturn` User1
    it "has one number for each name" $ do
      [Numbered 15, Numbered 9, Numbered 10] `shouldBe` [Terminate, Kill, User1]
      forM_ named $ \(signal, name, number) ->
        (show signal, signalNumber signal) `shouldBe` (name, fromIntegral number)
      map show [Numbered 28, Numbered 34, Numbered 11]
        `shouldBe` ["WindowChange", "Numbered 34", "SegmentationViolation"]
      withProcess (command "sleep" ["60"]) (\process -> signalGroup Abort process >> waitProcess process)
        `shouldReturn` Killed Abort
    it "gives its signals back when it is interrupted at its end" $
      withHandler Posix.sigUSR2 $ \handled -> do
        let interrupted i = do
              job <- start (forever (withSignals [User2] (\_ -> return ())))
              pause (100 + i)
              stop job
        jobs <- forM [1 .. 8] (start . replicateM_ 20 . interrupted)
        mapM_ finish jobs
        raiseSignal User2
        within 5 "the signal" handled
  describe "Millrace.Terminal" $ do
    it "knows what is none" $
      withoutLeaks . withPipe $ \out _ -> isTerminal (readEndDescriptor out) `shouldReturn` False
    it "reads, writes, notices sizes, changes modes, and keeps deadlines" $
      withoutLeaks $
        withScenario "terminal" NewPipe $ \process -> do
          let terminal = fromJust (processTerminal process)
              answer question act = awaitText terminal question <* act
          -- Until then it fills the terminal.
          readPipe (fromJust (processErrors process)) 5 `shouldReturn` "read!"
          _ <- answer "size?" $ setPseudoTerminalSize terminal 30 100
          _ <- answer "password?" $ writePseudoTerminal terminal "secret\n"
          secretly <- answer "line?" $ writePseudoTerminal terminal "open\n"
          Char8.unpack secretly `shouldNotContain` "secret"
          openly <- answer "key?" $ writePseudoTerminal terminal "k"
          Char8.unpack openly `shouldContain` "open"
          _ <- answer "input?" $ writePseudoTerminal terminal "more\n"
          _ <- answer "terminal?" . withPipe $ \out into -> do
            writePipe into "again\n"
            splice (FromPipe out) (ToPseudoTerminal terminal) 6 `shouldReturn` 6
          spliced <- answer "end" $ return ()
          map (`ByteString.isInfixOf` spliced) ["out, ", " terminal,"] `shouldBe` [True, True]
          waitProcess process `shouldReturn` Exited 0
    it "is refused where there is none" $ do
      program <- getExecutablePath
      let alone = (command program ["--scenario", "without-terminal"]) {commandGroup = NewSession}
      within 30 "the process" (withProcess alone waitProcess) `shouldReturn` Exited 0
    it "restores the mode when a signal ends the program" $
      withoutLeaks . forM_ [("terminal-at-user2", 12), ("terminal-at-terminate", 15 :: Int)] $ \(name, signal) -> do
        program <- getExecutablePath
        let script = "\"$0\" --scenario " ++ name ++ "; echo ended $?; stty -a"
        within 30 name
          . withProcess
            (command "sh" ["-c", script, program])
              { commandInput =
                  NewTerminal,
                commandOutput = NewTerminal,
                commandErrors = NewTerminal
              }
          $ \process ->
            do
              out <- readTerminalAll (fromJust (processTerminal process))
              waitProcess process `shouldReturn` Exited 0
              let found = Char8.words out
              found `shouldContain` ["ended", Char8.pack (show (128 + signal))]
              found `shouldSatisfy` (\modes -> all (`elem` modes) ["icanon", "isig", "opost"])
    it "leaves nothing behind when threads are killed at random" $
      withoutLeaks $
        withScenario "terminal-functions" NewTerminal $ \process -> do
          out <- readTerminalAll (fromJust (processTerminal process))
          exit <- waitProcess process
          unless (exit == Exited 0) $
            expectationFailure (show exit ++ Char8.unpack (ByteString.drop (ByteString.length out - 1000) out))
  describe "Millrace.Name" $ do
    it "finds addresses of numbers and of names that the system knows by itself" $
      withoutLeaks $ do
        (map addrAddress <$> lookUp (host "127.0.0.1" "8080"))
          `shouldReturn` [SockAddrInet 8080 (tupleToHostAddress (127, 0, 0, 1))]
        found <- map addrAddress <$> lookUp (host "localhost" "80")
        found `shouldSatisfy` (not . null)
        (name, service) <- lookUpName (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) []
        (null name, null service) `shouldBe` (False, False)
    it "tells why it has failed" $ do
      problem <- failsWith (lookUp (host "127.0.0.1" "no-such-service"))
      nameProblem problem `shouldBe` Just NoSuchService
      problem `shouldSatisfy` isDoesNotExistError
      show problem `shouldSatisfy` isInfixOf "127.0.0.1:no-such-service"
    it "tells what is wrong with a look-up that has no answer" $
      forM_
        [ (numeric {queryHost = Just "localhost"}, NoSuchName, "there is no such name"),
          (numeric {queryHost = Just "local\NULhost"}, NoSuchName, "there is no such name"),
          (numeric {queryFlags = [AI_NUMERICSERV], queryService = Just "http"}, NoSuchName, "there is no such name"),
          (passive "no-such-service", NoSuchService, "this machine:no-such-service"),
          (numeric {queryFamily = AF_APPLETALK}, NotSupported, "is not supported"),
          (numeric {queryType = GeneralSocketType 77}, NotSupported, "is not supported"),
          (Query Nothing (Just "80") AF_UNSPEC Stream defaultProtocol [AI_CANONNAME], NotSupported, "is not supported")
        ]
        $ \(query, problem, text) -> do
          failed <- failsWith (lookUp query)
          (nameProblem failed, show failed) `shouldSatisfy` \(is, said) -> is == Just problem && text `isInfixOf` said
    it "tells problems of name servers apart" $ do
      failed <- failsWith (lookUp numeric {queryHost = Just "localhost"})
      -- Linux numbers them downwards: NoSuchName is -2.
      let as number = nameProblem failed {ioe_errno = (+ (number - 2)) <$> ioe_errno failed}
      map as [2, 3, 4, 77] `shouldBe` map Just [NoSuchName, TemporaryFailure, PermanentFailure, OtherProblem 77]
    it "tells that descriptors have run out, and does not take that for a name that does not exist" $ do
      -- Loops open their descriptors when they first need them.
      capabilities <- getNumCapabilities
      forM_ [0 .. capabilities - 1] (\capability -> startOn capability (Timer.threadDelay 1) >>= finish)
      failures <- withoutNewDescriptors (mapM (failsWith . lookUp) [host "localhost" "80", host "127.0.0.1" "http"])
      forM_ failures $ \failed -> do
        nameProblem failed `shouldBe` Nothing
        failed `shouldSatisfy` hasCode eMFILE
        show failed `shouldContain` "ulimit -n"
    it "asks as its flags say" $ do
      found <- lookUp (host "localhost" "80") {queryFamily = AF_INET, queryFlags = [AI_CANONNAME]}
      map addrCanonName (take 1 found) `shouldBe` [Just "localhost"]
      mapped <- lookUp numeric {queryFamily = AF_INET6, queryFlags = [AI_V4MAPPED, AI_ALL]}
      map addrAddress mapped `shouldBe` [SockAddrInet6 80 0 (0, 0, 0xffff, 0x7f000001) 0]
      let numbers = [NI_NUMERICHOST, NI_NUMERICSERV]
          address = SockAddrInet 512 (tupleToHostAddress (127, 0, 0, 1))
      lookUpName address numbers `shouldReturn` ("127.0.0.1", "512")
      lookUpName address (NI_DGRAM : NI_NOFQDN : numbers) `shouldReturn` ("127.0.0.1", "512")
      failed <- failsWith (lookUpName address (NI_NAMEREQD : numbers))
      (nameProblem failed, ioe_location failed) `shouldBe` (Just NoSuchName, "Millrace.Name.lookUpName")
      show failed `shouldContain` "127.0.0.1:512"
    it "refuses names beyond ASCII, and looks up no other ones" $ do
      -- U+0161 without its high byte is the letter a.
      problem <- failsWith (lookUp (host "loc\x0161lhost" "80"))
      nameProblem problem `shouldBe` Just NotAscii
      nameProblem (userError "another error") `shouldBe` Nothing
      show problem `shouldSatisfy` isInfixOf "IDNA"
    it "looks up a thousand names at the same time" $
      withoutLeaks $ do
        jobs <-
          forM
            [1 .. 1000 :: Int]
            (\i -> start (lookUp (host ("127.0." ++ show (i `div` 256) ++ "." ++ show (i `mod` 256)) "80")))
        found <- mapM finish jobs
        length (concat found) `shouldBe` 1000
    it "remembers" $ do
      cache <- newCache 2 (minutes 1)
      forM_ ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"] $ \name ->
        (length <$> lookUpIn cache (host name "80")) `shouldReturn` 1
    it "remembers for a time beyond all measure" $
      forM_ [maxBound, 18446744073709552] $ \micros -> do
        cache <- newCache 2 (microseconds micros)
        [one, other] <- replicateM 2 (lookUpIn cache (host "127.0.0.1" "80") >>= evaluate >>= makeStableName)
        (one == other) `shouldBe` True
    it "has deadlines" $ do
      past <- deadlineAfter (seconds 0)
      outcome <- try (lookUpBefore past (host "127.0.0.1" "80"))
      either (`shouldSatisfy` isDeadlineError) (const (return ())) (outcome :: Either IOError [AddrInfo])
  where
    named =
      [ (Hangup, "Hangup", Posix.sigHUP),
        (Interrupt, "Interrupt", Posix.sigINT),
        (Quit, "Quit", Posix.sigQUIT),
        (IllegalInstruction, "IllegalInstruction", Posix.sigILL),
        (Trap, "Trap", Posix.sigTRAP),
        (Abort, "Abort", Posix.sigABRT),
        (BusError, "BusError", Posix.sigBUS),
        (FloatingPointException, "FloatingPointException", Posix.sigFPE),
        (Kill, "Kill", Posix.sigKILL),
        (User1, "User1", Posix.sigUSR1),
        (SegmentationViolation, "SegmentationViolation", Posix.sigSEGV),
        (User2, "User2", Posix.sigUSR2),
        (BrokenPipe, "BrokenPipe", Posix.sigPIPE),
        (Alarm, "Alarm", Posix.sigALRM),
        (Terminate, "Terminate", Posix.sigTERM),
        (Child, "Child", Posix.sigCHLD),
        (Continue, "Continue", Posix.sigCONT),
        (Stop, "Stop", Posix.sigSTOP),
        (TerminalStop, "TerminalStop", Posix.sigTSTP),
        (ProcessorTimeExceeded, "ProcessorTimeExceeded", Posix.sigXCPU),
        (FileSizeExceeded, "FileSizeExceeded", Posix.sigXFSZ)
      ]
    numeric = (host "127.0.0.1" "80") {queryFlags = [AI_NUMERICHOST]}
    -- Installs a handler of the program, and runs an action with another one that waits for it.
    withHandler number use = do
      arrived <- newEmptyMVar
      let install action = Posix.installHandler number action Nothing
      bracket (install (Posix.Catch (putMVar arrived ()))) install (\_ -> use (takeMVar arrived :: IO ()))
    withScenario name errors use = do
      program <- getExecutablePath
      within 30 name $
        withProcess
          (command program ["--scenario", name])
            { commandInput =
                NewTerminal,
              commandOutput = NewTerminal,
              commandErrors = errors
            }
          use
    -- Reads until this text has come. Returns all that was read.
    awaitText terminal text = go ByteString.empty
      where
        go come
          | text `ByteString.isInfixOf` come = return come
          | otherwise = do
            part <- readPseudoTerminal terminal 65536
            if ByteString.null part
              then
                fail
                  ("there is no " ++ show text ++ " in " ++ show (ByteString.drop (ByteString.length come - 1000) come))
              else go (come <> part)
    readTerminalAll terminal = ByteString.concat <$> go
      where
        go = readPseudoTerminal terminal 1000 >>= \part -> if ByteString.null part then return [] else (part :) <$> go
    readInterrupted out = go []
      where
        go parts = do
          reader <- start (readPipe out 7)
          pause 20
          stop reader
          outcome <- outcomeOf reader
          case outcome of
            Left _ -> go parts
            Right part
              | ByteString.null part -> return (ByteString.concat (reverse parts))
              | otherwise -> go (part : parts)
