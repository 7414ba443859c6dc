{-# LANGUAGE OverloadedStrings #-}

-- | Processes.
module ProcessSpec (spec) where

import Control.Exception (bracket, throwIO, try)
import Control.Monad (forM, forM_, replicateM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Data.Maybe (fromJust)
import Foreign.C.Error (eACCES, eINVAL, eNOENT, eNOTDIR, ePERM)
import Millrace.Deadline
import Millrace.Directory (Permissions (..))
import Millrace.File.Temporary (withTemporaryDirectory)
import Millrace.Pipe
import Millrace.Process
import Millrace.Signal (Signal (Terminate))
import Scenario (scenarioPasses)
import Support
import System.Directory (doesDirectoryExist, listDirectory)
import System.IO.Error (isDoesNotExistError)
import System.Posix.Process (getProcessID)
import Test.Hspec

spec :: Spec
spec = do
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
            counted <- receiveAllBy (readPipe numbers 65536)
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
                soon <- deadlineAfter (milliseconds 20)
                failsWith (readPipeBefore soon sorted 10) >>= (`shouldSatisfy` isDeadlineError)
                writer <- start (writePipe intoUnsorted bytes >> closeWriteEnd intoUnsorted)
                back <- receiveAllBy (readPipe sorted 65536)
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
        soon <- deadlineAfter (milliseconds 300)
        problem <-
          failsWith
            ( runProcessBefore
                soon
                ( command
                    "sh"
                    [ "-c",
                      "sleep 600 & echo $! > " ++ root
                        ++ "/child; sleep 600"
                    ]
                )
            )
        (isDeadlineError problem, "Millrace.Process.runProcess" `isInfixOf` show problem) `shouldBe` (True, True)
        child <- filter (/= '\n') <$> readFile (root ++ "/child")
        isGone child `shouldBecome` True
    it "waits until its deadline, and no longer, for others that have its output open" $
      withoutLeaks $
        forM_
          [ (SameGroup, "sleep 20 & echo $! > $FILE; sleep 20"),
            (NewGroup, "setsid sh -c 'echo $$ > $FILE; exec sleep 20' & sleep 20"),
            (NewGroup, "setsid sh -c 'echo $$ > $FILE; while :; do echo y; done' & sleep 20"),
            (NewGroup, "setsid sh -c 'echo $$ > $FILE; exec sleep 20' & sleep 0.2; exit 3")
          ]
          $ \(group, script) -> withTemporaryDirectory "." "daemon" $ \root -> do
            soon <- deadlineAfter (milliseconds 500)
            let inRoot = "FILE=" ++ root ++ "/daemon; export FILE; " ++ script
            late <-
              within 10 "the deadline" $
                nothingIfLate (readProcessBefore soon (command "sh" ["-c", inRoot]) {commandGroup = group} "")
            late `shouldBe` Nothing
            other <- filter (/= '\n') <$> readFile (root ++ "/daemon")
            void (runProcess (command "sh" ["-c", "kill " ++ other]))
            isGone other `shouldBecome` True
    it "ends everything that a process has started, if that is in a cgroup" . withTemporaryDirectory "." "cgroup" $
      \root -> do
        let daemon = "setsid sh -c 'echo $$ > $FILE; exec sleep 600' < /dev/null > /dev/null 2>&1 &"
            -- Twice forked, so that its parent is gone.
            script rest =
              unwords
                [ "FILE=" ++ root ++ "/daemon; export FILE; (" ++ daemon ++ ") &",
                  "while [ ! -s $FILE ]; do sleep 0.01; done;",
                  rest
                ]
            contained rest = (command "sh" ["-c", script rest]) {commandContainment = ByCgroup}
            daemonIsGone = do
              number <- filter (/= '\n') <$> readFile (root ++ "/daemon")
              length number `shouldSatisfy` (> 0)
              -- Whoever has adopted it has to reap it.
              isGone number `shouldBecome` True
              ByteString.writeFile (root ++ "/daemon") ""
        possible <- try (runProcess (command "true" []) {commandContainment = ByCgroup}) :: IO (Either IOError Exit)
        case possible of
          Left problem -> do
            problem `shouldSatisfy` isInfixOf "ByCgroup needs cgroup v2" . show
            pendingWith ("skipped, because this process may make no cgroup: " ++ show problem)
          Right _ -> withoutLeaks $ do
            runProcess (contained "exit 3") `shouldReturn` Exited 3
            daemonIsGone
            withProcess (contained "echo; sleep 600") {commandOutput = NewPipe} $ \process ->
              readPipe (fromJust (processOutput process)) 1 `shouldReturn` "\n"
            daemonIsGone
            withProcess (contained "echo; sleep 600") {commandOutput = NewPipe} $ \process -> do
              readPipe (fromJust (processOutput process)) 1 `shouldReturn` "\n"
              within 10 "the end" (terminateProcess (milliseconds 300) process) `shouldReturn` Killed Terminate
              daemonIsGone
            let trap = "trap \"echo asked >> $FILE.asked; exit\" TERM; echo $$ > $FILE;"
                obedient =
                  unwords
                    [ "FILE=" ++ root ++ "/daemon; export FILE;",
                      "(setsid sh -c '" ++ trap ++ " while :; do sleep 0.01; done' &);",
                      "while [ ! -s $FILE ]; do sleep 0.01; done; echo; exec sleep 600"
                    ]
                askedAll = (command "sh" ["-c", obedient]) {commandContainment = ByCgroup, commandOutput = NewPipe}
            withProcess askedAll $ \process -> do
              readPipe (fromJust (processOutput process)) 1 `shouldReturn` "\n"
              within 20 "the end" (terminateProcess (seconds 60) process) `shouldReturn` Killed Terminate
              daemonIsGone
              readFile (root ++ "/daemon.asked") `shouldReturn` "asked\n"
            failsWith (startProcess (command "/none" []) {commandContainment = ByCgroup})
              >>= (`shouldSatisfy` hasCode eNOENT)
            own <- getProcessID
            let name = "millrace-" ++ show own ++ "-*"
                cgroupsLeft =
                  (\(_, out, _) -> out)
                    <$> readProcess (command "find" ["/sys/fs/cgroup", "-name", name]) ""
            -- That of a process that did not start is removed beside its error.
            cgroupsLeft `shouldBecome` ""
    it "adopts orphans, reaps them, and leaves its own processes to their keepers" $
      withoutLeaks . adoptingOrphans $ do
        let orphan = "(sh -c 'echo $$; exec sleep 0.3 > /dev/null 2>&1') & exit 5"
        (exit, out, _) <- readProcess (command "sh" ["-c", orphan]) {commandGroup = DetachedGroup} ""
        exit `shouldBe` Exited 5
        own <- getProcessID
        let number = filter (/= '\n') (Char8.unpack out)
            parent = do
              text <- readFile ("/proc/" ++ number ++ "/status")
              return [name | ["PPid:", name] <- map words (lines text)]
        parent `shouldReturn` [show own]
        forM_ [0 .. 50] $ \code -> runProcess (command "sh" ["-c", "exit " ++ show code]) `shouldReturn` Exited code
        doesDirectoryExist ("/proc/" ++ number) `shouldBecome` False
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
              terminateProcess (seconds 20) process `shouldReturn` Exited 4
    it "gives the rest of a group its time when it asks that to end" $
      withoutLeaks $ do
        let cleansUp = "(trap 'sleep 0.3; echo clean; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait"
            goesOn = "(trap '' TERM; echo ready; while :; do sleep 0.01; done) & wait"
            shell script group = (command "sh" ["-c", script]) {commandOutput = NewPipe, commandGroup = group}
            terminated script group micros = withProcess (shell script group) $ \process -> do
              let out = fromJust (processOutput process)
              readPipe out 100 `shouldReturn` "ready\n"
              within 10 "the end" (terminateProcess (microseconds micros) process) `shouldReturn` Killed Terminate
              receiveAllBy (readPipe out 65536)
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
          terminateProcess (seconds 20) process `shouldReturn` Killed Terminate
        passed <- subtract begin <$> monotonicNanoseconds
        passed `shouldSatisfy` (< 10000000000)
        noChildren
    it "lets many threads wait, and leaves no zombies when none does" $
      withoutLeaks $ do
        replicateM_ 20 (startProcess (command "true" []))
        process <- startProcess (command "sh" ["-c", "exit 5"])
        waiting <- forM [1 .. 10 :: Int] (const (start (waitProcess process)))
        mapM finish waiting `shouldReturn` replicate 10 (Exited 5)
        processExit process `shouldReturn` Just (Exited 5)
        signalProcess Terminate process
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
    it "has a new terminal for a program" $
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
              soon <- deadlineAfter (milliseconds 5)
              failsWith (readPseudoTerminalBefore soon terminal 100) >>= (`shouldSatisfy` isDeadlineError)
              writePseudoTerminal terminal "hello\n"
              out <- readTerminalAll terminal
              waitProcess process `shouldReturn` Exited 0
              Char8.unpack out `shouldContain` "got hello"
  where
    readTerminalAll terminal = ByteString.concat <$> go
      where
        go = readPseudoTerminal terminal 1000 >>= \part -> if ByteString.null part then return [] else (part :) <$> go
    -- The child may disappear while its file is read.
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
