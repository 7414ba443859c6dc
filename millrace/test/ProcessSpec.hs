{-# LANGUAGE OverloadedStrings #-}

-- | Processes, pipes, signals, terminals and names.
module ProcessSpec (spec) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, evaluate, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Data.Maybe (fromJust)
import Foreign.C.Error (eACCES, eBADF, eINVAL, eNOENT, eNOTDIR, ePERM, ePIPE, eSRCH)
import Millrace.Deadline
import Millrace.Directory (Permissions (..))
import Millrace.File.Temporary (withTemporaryDirectory)
import Millrace.Name
import Millrace.Pipe
import Millrace.Process
import Millrace.Signal
import Millrace.Socket (AddrInfo (..), SockAddr (..), tupleToHostAddress)
import Millrace.Splice
import Millrace.Terminal
import qualified Millrace.Timer as Timer
import Scenario (scenarioPasses)
import Support
import System.Directory (listDirectory)
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
        received <- readAll out
        received `shouldBe` bytesAt 0 1000000
        finish writer
    it "has deadlines, loses nothing to them, and is closed under a waiting thread" $
      withoutLeaks . withPipe $ \out into -> do
        soon <- deadlineAfter 2000
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
        soon <- deadlineAfter 5000
        failsWith (openFifoForWritingBefore soon (root ++ "/fifo")) >>= (`shouldSatisfy` isDeadlineError)
        out <- openFifoForReading (root ++ "/fifo")
        into <- openFifoForWriting (root ++ "/fifo")
        writePipe into "x"
        readPipe out 1 `shouldReturn` "x"
        closeReadEnd out >> closeWriteEnd into
  describe "Millrace.Process" $ do
    it "gives a program its arguments, environment, directory and streams" $
      withoutLeaks $ do
        let what =
              (command "sh" ["-c", "echo $0 $1; echo $COLOUR; pwd; cat; echo bad >&2; exit 7", "zero", "one two"])
                { commandEnvironment =
                    Just [("COLOUR", "green"), ("PATH", "/usr/bin:/bin")],
                  commandDirectory = Just "/"
                }
        readProcess what "input" `shouldReturn` (Exited 7, "zero one two\ngreen\n/\ninput", "bad\n")
    it "throws what exec fails with" $
      withoutLeaks $ do
        failsWith (startProcess (command "/none" [])) >>= (`shouldSatisfy` hasCode eNOENT)
        failsWith (startProcess (command "/etc/passwd" [])) >>= (`shouldSatisfy` hasCode eACCES)
        failsWith (startProcess (command "true" []) {commandDirectory = Just "/etc/passwd"})
          >>= (`shouldSatisfy` hasCode eNOTDIR)
    it "gives a program the user of any number, or fails, and refuses the number of none" $ do
      -- Beyond 2147483647, where a number with a sign would be "unchanged".
      let asked numbers =
            try
              ( readProcess
                  (command "sh" ["-c", "id -u; id -g"])
                    { commandUser =
                        Just numbers
                    }
                  ""
              ) ::
              IO (Either IOError (Exit, ByteString, ByteString))
      outcome <- asked (3000000000, 3000000001)
      outcome
        `shouldSatisfy` either
          (\problem -> hasCode ePERM problem || hasCode eINVAL problem)
          (== (Exited 0, "3000000000\n3000000001\n", ""))
      forM_ [(maxBound, 0), (0, maxBound)] $ \numbers -> do
        problem <- failsWith (asked numbers >>= either throwIO return)
        (hasCode eINVAL problem, "4294967295" `isInfixOf` show problem) `shouldBe` (True, True)
    it "gives a program no other descriptor" $
      withoutLeaks . withPipe $ \_ _ -> do
        (_, out, _) <- readProcess (command "ls" ["/proc/self/fd"]) ""
        -- The fourth is that of ls itself.
        Char8.lines out `shouldBe` ["0", "1", "2", "3"]
    it "gives a program no signal that is ignored or blocked" $
      withoutLeaks $ do
        (_, out, _) <- readProcess (command "grep" ["-E", "^Sig(Blk|Ign)", "/proc/self/status"]) ""
        out `shouldBe` "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    it "moves more than a pipe holds through a program" $
      withoutLeaks $ do
        let bytes = bytesAt 0 3000000
        (exit, out, _) <- readProcess (command "cat" []) bytes
        exit `shouldBe` Exited 0
        (out == bytes) `shouldBe` True
    it "gives a program pipes that block for it, and not here" $
      withoutLeaks . withPipe $ \numbers intoNumbers ->
        withPipe $ \unsorted intoUnsorted -> withPipe $ \sorted intoSorted -> do
          let bytes = Char8.unlines (map (Char8.pack . show) [1 .. 100000 :: Int])
              both = Descriptor (writeEndDescriptor intoNumbers)
          withProcess (command "seq" ["1", "100000"]) {commandOutput = both, commandErrors = both} $ \process -> do
            closeWriteEnd intoNumbers
            pause 20000 -- It fills the pipe.
            counted <- readAll numbers
            counted == bytes `shouldBe` True
            waitProcess process `shouldReturn` Exited 0
          withProcess
            (command "sort" ["-n"])
              { commandInput =
                  Descriptor (readEndDescriptor unsorted),
                commandOutput = Descriptor (writeEndDescriptor intoSorted)
              }
            $ \process ->
              do
                closeReadEnd unsorted >> closeWriteEnd intoSorted
                soon <- deadlineAfter 20000
                failsWith (readPipeBefore soon sorted 10) >>= (`shouldSatisfy` isDeadlineError)
                writer <- start (writePipe intoUnsorted bytes >> closeWriteEnd intoUnsorted)
                back <- readAll sorted
                finish writer
                back == bytes `shouldBe` True
                waitProcess process `shouldReturn` Exited 0
    it "starts a program whose FIFO has no other end" $
      withoutLeaks . withTemporaryDirectory "." "fifo" $ \root -> do
        createFifo (root ++ "/fifo") (Permissions 0o600)
        bracket (openFifoForReading (root ++ "/fifo")) closeReadEnd $ \out ->
          within 5 "the end" (runProcess (command "cat" []) {commandInput = Descriptor (readEndDescriptor out)})
            `shouldReturn` Exited 0
    it "ends a group at its deadline, with all that it has started" $
      withoutLeaks . withTemporaryDirectory "." "group" $ \root -> do
        soon <- deadlineAfter 300000
        exit <- runProcessBefore soon (command "sh" ["-c", "sleep 600 & echo $! > " ++ root ++ "/child; sleep 600"])
        exit `shouldBe` Killed 9
        child <- filter (/= '\n') <$> readFile (root ++ "/child")
        isGone child `shouldBecome` True
    it "waits until its deadline, and no longer, for others that have its output open" $
      withoutLeaks $
        forM_
          [ (SameGroup, "sleep 20 & echo $!; sleep 20", Killed 9),
            (NewGroup, "setsid sh -c 'echo $$; exec sleep 20' & sleep 20", Killed 9),
            (NewGroup, "setsid sh -c 'echo $$; while :; do echo y; done' & sleep 20", Killed 9),
            (NewGroup, "setsid sh -c 'echo $$; exec sleep 20' & sleep 0.2; exit 3", Exited 3)
          ]
          $ \(group, script, expected) -> do
            soon <- deadlineAfter 500000
            (exit, out, _) <-
              within 10 "the deadline" (readProcessBefore soon (command "sh" ["-c", script]) {commandGroup = group} "")
            exit `shouldBe` expected
            let other = Char8.unpack (Char8.takeWhile (/= '\n') out)
            void (runProcess (command "sh" ["-c", "kill " ++ other]))
            isGone other `shouldBecome` True
    it "asks politely first" $
      withoutLeaks $
        withProcess
          (command "sh" ["-c", "trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done"])
            { commandOutput =
                NewPipe
            }
          $ \process ->
            do
              readPipe (fromJust (processOutput process)) 100 `shouldReturn` "ready\n"
              terminateProcess 20000000 process `shouldReturn` Exited 4
    it "gives the rest of a group its time when it asks that to end" $
      withoutLeaks $ do
        let cleansUp = "(trap 'sleep 0.3; echo clean; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait"
            goesOn = "(trap '' TERM; echo ready; while :; do sleep 0.01; done) & wait"
            shell script group = (command "sh" ["-c", script]) {commandOutput = NewPipe, commandGroup = group}
            terminated script group micros = withProcess (shell script group) $ \process -> do
              let out = fromJust (processOutput process)
              readPipe out 100 `shouldReturn` "ready\n"
              within 10 "the end" (terminateProcess micros process) `shouldReturn` Killed 15
              readAll out
        forM_ [NewGroup, DetachedGroup] $ \group -> do
          terminated cleansUp group 20000000 `shouldReturn` "clean\n"
          begin <- monotonicNanoseconds
          terminated goesOn group 300000 `shouldReturn` ""
          passed <- subtract begin <$> monotonicNanoseconds
          passed `shouldSatisfy` (>= 300000000)
        noChildren
    it "ends the process when the action is interrupted" $
      withoutLeaks $ do
        running <- start (withProcess (command "sleep" ["600"]) waitProcess)
        pause 20000
        within 5 "the end" (stop running)
        noChildren
    it "ends a process that has left its group" $
      withoutLeaks $ do
        let leaves = command "perl" ["-e", "setpgrp(0, getpgrp(getppid())) or die; $| = 1; print \"left\"; sleep 20"]
        begin <- monotonicNanoseconds
        withProcess leaves {commandOutput = NewPipe} $ \process ->
          readPipe (fromJust (processOutput process)) 4 `shouldReturn` "left"
        -- Asked to end, it does so before its time of grace is over.
        withProcess leaves {commandOutput = NewPipe} $ \process -> do
          readPipe (fromJust (processOutput process)) 4 `shouldReturn` "left"
          terminateProcess 20000000 process `shouldReturn` Killed 15
        passed <- subtract begin <$> monotonicNanoseconds
        passed `shouldSatisfy` (< 10000000000)
        noChildren
    it "lets many threads wait, and leaves no zombies when nobody does" $
      withoutLeaks $ do
        replicateM_ 20 (startProcess (command "true" []))
        process <- startProcess (command "sh" ["-c", "exit 5"])
        waiting <- forM [1 .. 10 :: Int] (const (start (waitProcess process)))
        mapM finish waiting `shouldReturn` replicate 10 (Exited 5)
        processExit process `shouldReturn` Just (Exited 5)
        signalProcess process 15
        noChildren
    it "limits what a program may use" $
      withoutLeaks $ do
        (_, out, _) <-
          readProcess (command "sh" ["-c", "ulimit -n"]) {commandLimits = [Limit OpenFiles (Just 33) (Just 40)]} ""
        out `shouldBe` "33\n"
        let many = replicate 40 (Limit CoreBytes (Just 0) (Just 0)) ++ [Limit OpenFiles (Just 34) (Just 40)]
        (_, later, _) <- readProcess (command "sh" ["-c", "ulimit -n"]) {commandLimits = many} ""
        later `shouldBe` "34\n"
    it "starts programs, and notices their ends, where others take their exit codes" $ do
      scenarioPasses "children-ignored"
      scenarioPasses "children-reaped-by-others"
    it "has a terminal of its own for a program" $
      withoutLeaks $
        withProcess
          (command "sh" ["-c", "tty >/dev/null && stty -echo && read line && echo \"got $line\""])
            { commandInput =
                NewTerminal,
              commandOutput = NewTerminal,
              commandErrors = NewTerminal
            }
          $ \process ->
            do
              let terminal = fromJust (processTerminal process)
              soon <- deadlineAfter 5000
              failsWith (readPseudoTerminalBefore soon terminal 100) >>= (`shouldSatisfy` isDeadlineError)
              writePseudoTerminal terminal "hello\n"
              out <- readTerminalAll terminal
              waitProcess process `shouldReturn` Exited 0
              Char8.unpack out `shouldContain` "got hello"
  describe "Millrace.Signal" $ do
    it "gives every listener each signal" $
      withSignals [User1, User2] $ \one -> withSignals [User1] $ \other -> do
        raiseSignal User1
        within 5 "the signal" (nextSignal one) `shouldReturn` User1
        within 5 "the signal" (nextSignal other) `shouldReturn` User1
        raiseSignal User2
        within 5 "the signal" (nextSignal one) `shouldReturn` User2
        soon <- deadlineAfter 2000
        nextSignalBefore soon other `shouldReturn` Nothing
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
        failsWith (sendSignal (beyond + self) User1) >>= (`shouldSatisfy` hasCode eSRCH)
        void (failsWith (raiseSignal (Numbered (beyond + signalNumber User1))) :: IO IOError)
        void (failsWith (withSignals [Numbered (beyond + signalNumber User2)] return) :: IO IOError)
        now <- deadlineAfter 50000
        nextSignalBefore now signals `shouldReturn` Nothing
      withProcess (command "sleep" ["60"]) $ \process -> do
        failsWith (signalProcess process (beyond + 9)) >>= (`shouldSatisfy` hasCode eINVAL)
        processExit process `shouldReturn` Nothing
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
      nameProblem problem `shouldBe` NoSuchService
      show problem `shouldSatisfy` isInfixOf "127.0.0.1:no-such-service"
    it "refuses names beyond ASCII, and looks up no other ones" $ do
      -- U+0161 without its high byte is the letter a.
      problem <- failsWith (lookUp (host "loc\x0161lhost" "80"))
      problem `shouldBe` NameError "loc\x0161lhost:80" NotAscii
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
      cache <- newCache 2 60000000
      forM_ ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"] $ \name ->
        (length <$> lookUpIn cache noDeadline (host name "80")) `shouldReturn` 1
    it "remembers for a time beyond all measure" $
      forM_ [maxBound, 18446744073709552] $ \micros -> do
        cache <- newCache 2 micros
        [one, other] <- replicateM 2 (lookUpIn cache noDeadline (host "127.0.0.1" "80") >>= evaluate >>= makeStableName)
        (one == other) `shouldBe` True
    it "has deadlines" $ do
      past <- deadlineAfter 0
      outcome <- try (lookUpBefore past (host "127.0.0.1" "80"))
      either (`shouldSatisfy` isDeadlineError) (const (return ())) (outcome :: Either IOError [AddrInfo])
  where
    -- With a handler of the program's own, and an action that waits for it.
    withHandler number use = do
      arrived <- newEmptyMVar
      let install action = Posix.installHandler number action Nothing
      bracket (install (Posix.Catch (putMVar arrived ()))) install (\_ -> use (takeMVar arrived :: IO ()))
    readAll out = ByteString.concat <$> go
      where
        go = readPipe out 65536 >>= \part -> if ByteString.null part then return [] else (part :) <$> go
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
    -- What is read until this has come.
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
    -- It may go while its file is read.
    isGone child =
      either isDoesNotExistError (isInfixOf "Z (zombie)")
        <$> try (readFile ("/proc/" ++ child ++ "/status") >>= \text -> length text `seq` return text)
    noChildren = childCount `shouldBecome` (0 :: Int)
    childCount = do
      tasks <- listDirectory "/proc/self/task"
      children <- forM tasks (childrenOf `orNone`)
      return (length (concatMap words children))
    childrenOf task = readFile ("/proc/self/task/" ++ task ++ "/children") >>= \text -> length text `seq` return text
    orNone read' task = either noneThere id <$> try (read' task)
    noneThere :: IOError -> String
    noneThere _ = ""
