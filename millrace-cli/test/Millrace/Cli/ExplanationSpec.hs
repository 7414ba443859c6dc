{-# LANGUAGE OverloadedStrings #-}

-- | The executable explains failures, and prints help.
module Millrace.Cli.ExplanationSpec (spec) where

import Control.Monad (forM_)
import Data.List (isInfixOf, isPrefixOf)
import Program
import ProgramClients
import Site
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process
import Test.Hspec

spec :: Spec
spec = do
  describe "explains" $ do
    it "a port that is in use" . withServer ["pong", "--port", "0"] $ \server -> do
      let port = drop (length ("http://127.0.0.1:" :: String)) (serverUrl server)
      outcome <- runMillrace [] ["pong", "--port", port]
      outcome `failsWith` ["cannot listen on 127.0.0.1:" <> port <> ": the port is in use", "--port"]
    it "a port for the status that is in use" . withServer ["pong", "--port", "0"] $ \server -> do
      let port = show (serverPort server)
      outcome <- runMillrace [] ["pong", "--port", "0", "--status", port]
      outcome `failsWith` ["cannot listen on 127.0.0.1:" <> port <> ": the port is in use", "--status"]
    it "a port for the status that is its own" . withServer ["pong", "--port", "0", "--reuse-port"] $ \server -> do
      let port = show (serverPort server)
      outcome <- runMillrace [] ["pong", "--port", port, "--reuse-port", "--status", port]
      outcomeExit outcome `shouldBe` ExitFailure 2
      outcomeErrors outcome `shouldContain` ("--port: port " <> port <> " is taken: 'status' has it")
    it "an address of another machine" $ do
      outcome <- runMillrace [] ["pong", "--port", "0", "--host", "192.0.2.1"]
      outcome `failsWith` ["cannot listen on 192.0.2.1:0: this machine has no such address", "--host"]
    forM_ [8, 10, 12, 14, 16] $ \limit ->
      it ("a limit of " <> show limit <> " open files, and what helps") . withDirectory $ \directory -> do
        path <- millracePath
        let confined =
              [ "-c",
                "ulimit -n "
                  <> show (limit :: Int)
                  <> "; exec \"$@\"",
                "bash",
                path,
                "serve",
                "--port",
                "0",
                "--cores",
                "2",
                directory
              ]
        (code, _, errors) <- within 20 "millrace to end" (readProcessWithExitCode "bash" confined "")
        -- The run-time system may be the first that finds none, and ends then, with its own message.
        (code, lines errors) `shouldSatisfy` \(status, told) -> case status of
          ExitFailure 1 ->
            map ("Too many open files" `isInfixOf`) told == [True, False] && any ("Raise the limit" `isPrefixOf`) told
          ExitFailure _ -> any ("timerfd_create: Too many open files" `isInfixOf`) told
          ExitSuccess -> False
    it "a host that does not exist" $ do
      outcome <- runMillrace [] ["pong", "--port", "0", "--host", "nowhere.invalid"]
      outcome `failsWith` ["cannot listen on nowhere.invalid: ", "--host"]
    it "a directory that does not exist" $ do
      outcome <- runMillrace [] ["serve", "/no/such/directory"]
      outcome `failsWith` ["cannot serve /no/such/directory: No such file or directory", "It must be a directory"]
    it "a name that the locale has no characters for" $ do
      outcome <- runMillrace [("LC_ALL", "C")] ["serve", "/no/such/\233"]
      outcome `failsWith` ["cannot serve /no/such/\233: No such file or directory"]
    it "a file in place of a directory" $ do
      outcome <- runMillrace [] ["serve", "/etc/passwd"]
      outcome `failsWith` ["cannot serve /etc/passwd: is not a directory"]
    it "an empty name of a directory" $ do
      outcome <- runMillrace [] ["serve", ""]
      outcome `failsWith` ["cannot serve : No such file or directory"]
    it "a directory that it could not reach if it were not there already" . withDirectory $ \directory -> do
      write directory "closed/site/file" ""
      (program, arguments) <- nobodys directory
      let fromInside =
            ["-c", "cd \"$1\" && chmod 0 .. && shift && exec \"$@\"", "bash", directory </> "closed/site", program]
      (code, _, errors) <-
        within
          20
          "millrace to end"
          (readProcessWithExitCode "bash" (fromInside ++ arguments ++ ["serve", "--port", "0"]) "")
      code `shouldBe` ExitFailure 1
      errors `shouldSatisfy` isPrefixOf "millrace: cannot serve .: Permission denied\n"
    it "a directory that it may not enter" . withDirectory $ \directory -> do
      write directory "closed/index.html" ""
      (program, arguments) <- nobodys directory
      let closing = ["-c", "chmod 0 \"$1\" && shift && exec \"$@\"", "bash", directory </> "closed", program]
      (code, _, errors) <-
        within
          20
          "millrace to end"
          (readProcessWithExitCode "bash" (closing ++ arguments ++ ["serve", directory </> "closed", "--port", "0"]) "")
      code `shouldBe` ExitFailure 1
      errors `shouldSatisfy` isPrefixOf ("millrace: cannot serve " ++ directory </> "closed" ++ ": Permission denied\n")
    it "a backend that does not exist" $ do
      outcome <- runMillrace [] ["pong", "--backend", "select"]
      outcomeExit outcome `shouldBe` ExitFailure 2
      outcomeErrors outcome `shouldSatisfy` isInfixOf "auto, hybrid, epoll"
    it "a backend that does not exist, in the environment" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "select")] ["pong", "--port", "0"]
      outcome
        `failsWith` [ "cannot start the I/O manager with MILLRACE_BACKEND=select: there is no such backend",
                      "millrace doctor"
                    ]

  describe "informs" $ do
    it "--version" $ do
      outcome <- runMillrace [] ["--version"]
      (outcomeExit outcome, take 9 (outcomeOutput outcome)) `shouldBe` (ExitSuccess, "millrace ")
    it "--help" $ do
      outcome <- runMillrace [] ["--help"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "Available commands:"
    it "doctor" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitSuccess
      forM_ ["kernel              Linux ", "descriptors ", "backend epoll       works", "a server would use  "] $
        \text ->
          outcomeOutput outcome `shouldSatisfy` isInfixOf text
    it "doctor does not touch what was not asked for" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "epoll")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "backend io_uring    not tried"
      outcomeOutput outcome `shouldSatisfy` isInfixOf "epoll (asked for by MILLRACE_BACKEND)"
    it "doctor --json" $ do
      outcome <- runMillrace [] ["doctor", "--json", "--backend", "epoll"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "\"chosen\": \"epoll\",\n  \"reason\": \"asked for by --backend\""
    forM_ [["doctor"], ["--help"], ["serve", "--help"], ["--version"], ["--bash-completion-script", "millrace"]] $
      \arguments ->
        it (unwords arguments <> ", or says that it could not") $ do
          (code, _, errors) <- redirected "> /dev/full" arguments
          code `shouldBe` ExitFailure 1
          errors `shouldSatisfy` isPrefixOf "millrace: cannot write to standard output: No space left on device\n"
    it "of wrong usage by its exit status, too, if nobody takes what it says" $
      redirected "2> /dev/full" ["serve", "--bogus"] `shouldReturn` (ExitFailure 2, "", "")
    it "of wrong usage, also if the locale has no characters for it" $ do
      outcome <- runMillrace [("LC_ALL", "C")] ["serve", "--\233"]
      outcomeExit outcome `shouldBe` ExitFailure 2
      outcomeErrors outcome `shouldSatisfy` isPrefixOf "Invalid option `--\233'\n"
    it "doctor that nothing would work" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "select")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitFailure 1
      outcomeOutput outcome
        `shouldSatisfy` isInfixOf
          "a server would use  nothing, it cannot start the I/O manager with MILLRACE_BACKEND=select"
