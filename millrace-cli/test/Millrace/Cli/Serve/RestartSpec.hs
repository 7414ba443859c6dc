{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | One server takes over from another while clients go on asking, over kept connections and over new ones.
module Millrace.Cli.Serve.RestartSpec (spec) where

import Certificates
import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.Char (isDigit)
import Data.List (isPrefixOf, sort)
import Load
import Network.Socket
import Program
import Site
import System.Directory (copyFile, listDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigTERM)
import System.Posix.Types (Fd (..))
import System.Process (readProcessWithExitCode)
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = describe "restarts without losing a request" $ do
  describe "refuses to inherit" $ do
    let refused descriptors from reason = do
          path <- millracePath
          outcome <-
            timeout 20000000 (readProcessWithExitCode "bash" (inheriting descriptors from (path : ["pong"])) "")
          case outcome of
            Just (ExitFailure 1, "", text) ->
              text `shouldContain` ("millrace: cannot listen on the sockets of LISTEN_FDS: descriptor " <> reason)
            _ -> expectationFailure (show outcome)
        opened kind prepare use = withSocket (socket AF_INET kind defaultProtocol) $ \found -> do
          bind found (SockAddrInet 0 loopback)
          () <- prepare found
          withFdSocket found $ \number -> setFdOption (Fd number) CloseOnExec False >> use ("<&" <> show number)
    it "a file" $ refused 1 "</etc/passwd" "3 is no socket"
    it "a socket that does not listen" . opened Stream (const (pure ())) $ \from -> refused 1 from "3 does not listen"
    it "a socket of datagrams" . opened Datagram (const (pure ())) $ \from -> refused 1 from "3 is no stream socket"
    it "more than there are: the number may be the run-time system's" . opened Stream (`listen` 1) $ \from ->
      refused 2 from "4 is no"
  it "on a port that both servers have" (sharing withServer)
  it "on a port that both servers have, as an ordinary user" . withDirectory $ \folder -> sharing (asNobody folder)
  it "on an inherited socket, the next before the last" . withInheritable $ \descriptor port -> do
    outcome <- withInheritor descriptor $ \first -> underLoad port (handOver restarts (withInheritor descriptor) first)
    nothingIsLost outcome
  it "on an inherited socket, the last before the next" . withInheritable $ \descriptor port -> do
    outcome <- underLoad port $ \endOfLoad -> do
      forM_ [1 .. restarts] $ \_ -> withInheritor descriptor stopped
      withInheritor descriptor $ \_ -> served >> endOfLoad
    nothingIsLost outcome
  forM_ [("the next before the last" :: String, True), ("the last before the next", False)] $ \(order, overlaps) ->
    it ("with a configuration file that changes, on an inherited socket, as another program: " <> order)
      . withDirectory
      $ \folder ->
        withInheritable $ \(Fd number) port -> do
          path <- millracePath
          let versions = [1 .. restarts] :: [Int]
              withVersion version use = do
                -- As after an upgrade: another file under another name.
                let program = folder </> "millrace-" <> show version
                copyFile path program
                write folder ("site-" <> show version <> "/index.html") "Pong!"
                writeFile
                  (folder </> "m.yaml")
                  ( unlines
                      [ "listen: {http: 127.0.0.1:"
                          <> show port
                          <> "}",
                        "process: {pid-file: "
                          <> folder </> "pid}",
                        "sites: {headers: {X-Version: "
                          <> show version
                          <> "}, files: "
                          <> folder </> "site-"
                          <> show version
                          <> "}"
                      ]
                  )
                setFdOption (Fd number) CloseOnExec False
                withCommand "bash" (inheriting 1 ("<&" <> show number) [program, "run", folder </> "m.yaml"]) use
              replacedBy [] end _ = served >> end
              replacedBy (version : others) end server =
                withVersion version (\next -> stopped server >> replacedBy others end next)
          outcome <- underLoad port $ \endOfLoad ->
            if overlaps
              then withVersion (0 :: Int) (replacedBy versions endOfLoad)
              else mapM_ (`withVersion` stopped) versions >> withVersion (0 :: Int) (\_ -> served >> endOfLoad)
          nothingIsLost outcome
  it "and 'millrace reload' then finds the next server" . withDirectory $ \folder -> do
    write folder "site/index.html" "Pong!"
    let running port use = do
          writeFile
            (folder </> "m.yaml")
            ( unlines
                [ "listen: {http: 127.0.0.1:"
                    <> show port
                    <> "}",
                  "process: {reuse-port: true, pid-file: "
                    <> folder </> "pid}",
                  "sites: {files: "
                    <> folder </> "site}"
                ]
            )
          withServer ["run", folder </> "m.yaml"] use
    running (0 :: Int) $ \first -> running (serverPort first) $ \next -> do
      stopped first
      outcome <- runMillrace [] ["reload", folder </> "m.yaml"]
      (outcomeExit outcome, outcomeErrors outcome) `shouldBe` (ExitSuccess, "")
      nextErrorLine next >>= (`shouldContain` "was read again")
      stopped next
    filter ("pid" `isPrefixOf`) <$> listDirectory folder `shouldReturn` []
  describe "leaves the running server what it has: 'millrace reload' reaches it" $ do
    let serving folder more = do
          write folder "site/index.html" "Pong!"
          writeFile (folder </> "m.yaml") (unlines (more <> ["sites: {files: " <> folder </> "site}"]))
        inProcess folder more = "process: {" <> more <> "pid-file: " <> folder </> "pid" <> "}"
        listening port = "listen: {http: 127.0.0.1:" <> show (port :: Int) <> "}"
        withFirst folder use = do
          serving folder [listening 0, inProcess folder "reuse-port: true, "]
          withServer ["run", folder </> "m.yaml"] $ \first -> do
            () <- use first
            serving folder [listening 0, inProcess folder "reuse-port: true, "]
            outcome <- runMillrace [] ["reload", folder </> "m.yaml"]
            (outcomeExit outcome, outcomeErrors outcome) `shouldBe` (ExitSuccess, "")
            stopped first
          filter ("pid" `isPrefixOf`) <$> listDirectory folder `shouldReturn` []
        doesNotStart folder said = do
          outcome <- runMillrace [] ["run", folder </> "m.yaml"]
          outcomeExit outcome `shouldBe` ExitFailure 1
          outcomeErrors outcome `shouldContain` said
    it "when its port is taken" . withDirectory $ \folder -> withFirst folder $ \first -> do
      serving folder [listening (serverPort first), inProcess folder ""]
      doesNotStart folder "the port is in use"
    it "when the port of its status is taken" . withDirectory $ \folder -> withFirst folder $ \first ->
      withServer ["pong", "--port", "0"] $ \other -> do
        serving
          folder
          [ listening (serverPort first),
            inProcess
              folder
              ("reuse-port: true, status: " <> show (serverPort other) <> ", ")
          ]
        doesNotStart folder "the port is in use"
    it "when its certificate cannot be read" . withDirectory $ \folder -> withFirst folder $ \first -> do
      serving
        folder
        [ "listen: {https: 127.0.0.1:"
            <> show (serverPort first)
            <> "}",
          "certificates: {certificate: "
            <> folder </> "none, key: "
            <> folder </> "none}",
          inProcess folder "reuse-port: true, "
        ]
      doesNotStart folder (folder </> "none")
    it "when it has no room for its files" . withDirectory $ \folder -> withFirst folder $ \first -> do
      serving folder [listening (serverPort first), inProcess (folder </> "none") "reuse-port: true, "]
      doesNotStart folder "pid-file"
  it "removes the files of its process, and not those that have come in their place" . withDirectory $ \folder -> do
    write folder "site/index.html" "Pong!"
    writeFile
      (folder </> "m.yaml")
      ( unlines
          [ "listen: {http: 127.0.0.1:0}",
            "process: {pid-file: "
              <> folder </> "pid}",
            "sites: {files: "
              <> folder </> "site}"
          ]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      -- As in another container, or of a later process with the same number.
      same <- readFile (folder </> "pid")
      writeFile (folder </> "next") same
      renameFile (folder </> "next") (folder </> "pid")
      withSocket (socket AF_UNIX Stream defaultProtocol) $ \next -> do
        bind next (SockAddrUnix (folder </> "next.sock"))
        renameFile (folder </> "next.sock") (folder </> "pid.sock")
        stopped server
      readFile (folder </> "pid") `shouldReturn` same
    filter ("pid" `isPrefixOf`) <$> (sort <$> listDirectory folder) `shouldReturn` ["pid", "pid.sock"]
  it "listens on each inherited socket in the way that the file has for its port" . withCertificates $ \folder ->
    withInheritable $ \(Fd one) onePort -> withInheritable $ \(Fd other) otherPort -> do
      path <- millracePath
      write folder "site/index.html" "Pong!"
      writeFile (folder </> "m.yaml") . unlines $
        [ "listen: [{http: 127.0.0.1:1}, {https: 127.0.0.1:" <> show otherPort <> "}]",
          "certificates: {certificate: " <> folder </> "one.pem, key: " <> folder </> "one.key}",
          "sites: {files: " <> folder </> "site}"
        ]
      withCommand "bash" (inheriting 2 ("<&" <> show one <> " 4<&" <> show other) [path, "run", folder </> "m.yaml"]) $
        \_ ->
          do
            curl ["http://127.0.0.1:" <> show onePort] `shouldReturn` "Pong!"
            curl ["--cacert", folder </> "one.pem", "https://localhost:" <> show otherPort] `shouldReturn` "Pong!"
  it "on several inherited sockets, which are all announced" . withInheritable $ \(Fd one) onePort ->
    withInheritable $ \(Fd other) otherPort -> do
      path <- millracePath
      withCommand "bash" (inheriting 2 ("<&" <> show one <> " 4<&" <> show other) [path, "pong"]) $ \server -> do
        let urls = ["http://127.0.0.1:" <> show port | port <- [onePort, otherPort]]
        [serverUrl server, drop (length ("listening on " :: String)) (serverBackendLine server)] `shouldBe` urls
        nextLine server >>= (`shouldStartWith` "backend ")
        mapM (curl . pure) urls `shouldReturn` ["Pong!", "Pong!"]
  it "on a Unix socket, which is announced as such" . withDirectory $ \directory -> do
    let path = directory </> "socket"
    withSocket (socket AF_UNIX Stream defaultProtocol) $ \listener -> do
      bind listener (SockAddrUnix path)
      listen listener 1024
      withFdSocket listener $ \number -> withInheritor (Fd number) $ \server -> do
        serverUrl server `shouldBe` "unix:" <> path
        curl ["--unix-socket", path, "http://localhost/"] `shouldReturn` "Pong!"
  it "on a Unix socket that is in no file system" $
    withSocket (socket AF_UNIX Stream defaultProtocol) $ \listener -> do
      name <- ("millrace-cli-test-" <>) . show <$> getProcessID
      bind listener (SockAddrUnix ('\0' : name))
      listen listener 1024
      withFdSocket listener $ \number -> withInheritor (Fd number) $ \server -> do
        serverUrl server `shouldBe` "unix:@" <> name
        curl ["--abstract-unix-socket", name, "http://localhost/"] `shouldReturn` "Pong!"
  it "and the next server tells what it does at the same place" $
    withServer (shared 0 <> ["--status", "0"]) $ \first -> do
      statusPort <- takeWhile isDigit . drop (length ("status on http://127.0.0.1:" :: String)) <$> nextLine first
      withServer (shared (serverPort first) <> ["--status", statusPort]) $ \next -> do
        serverUrl next `shouldBe` serverUrl first
        stopped first
        curl ["http://127.0.0.1:" <> statusPort <> "/metrics"] >>= (`shouldContain` "millrace_")
  where
    sharing :: (forall a. [String] -> (Server -> IO a) -> IO a) -> Expectation
    sharing start = do
      outcome <- start (shared 0) $ \first ->
        underLoad (serverPort first) (handOver restarts (start (shared (serverPort first))) first)
      nothingIsLost outcome
    shared :: Int -> [String]
    shared port = ["pong", "--reuse-port", "--port", show port]
    restarts = 4 :: Int

-- | Starts a server and stops the one before it, this many times; then runs the action while the last one serves.
handOver :: Int -> ((Server -> IO a) -> IO a) -> Server -> IO a -> IO a
handOver 0 _ _ end = served >> end
handOver left start current end = start $ \next -> stopped current >> handOver (left - 1) start next end

-- | For a while.
served :: IO ()
served = threadDelay 300000

-- | After it has served for a while.
stopped :: Server -> IO ()
stopped server = do
  served
  signalServer sigTERM server
  waitForExit 30 server `shouldReturn` ExitSuccess

-- | A socket that listens, and that other programs can inherit.
withInheritable :: (Fd -> Int -> IO a) -> IO a
withInheritable use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 loopback)
  listen listener 1024
  port <- socketPort listener
  withFdSocket listener $ \number -> do
    setFdOption (Fd number) CloseOnExec False
    use (Fd number) (fromIntegral port)

-- | As systemd passes sockets: descriptor 3, and the process's own number.
withInheritor :: Fd -> (Server -> IO a) -> IO a
withInheritor (Fd number) use = do
  path <- millracePath
  setFdOption (Fd number) CloseOnExec False
  withCommand "bash" (inheriting 1 ("<&" <> show number) [path, "pong"]) use

-- | What bash is told to run a program with so many descriptors, it says, of which the first comes from there.
inheriting :: Int -> String -> [String] -> [String]
inheriting count from command =
  ["-c", "exec 3" <> from <> "; export LISTEN_FDS=" <> show count <> " LISTEN_PID=$$; exec \"$@\"", "bash"] <> command

withSocket :: IO Socket -> (Socket -> IO a) -> IO a
withSocket open = bracket open close

loopback :: HostAddress
loopback = tupleToHostAddress (127, 0, 0, 1)
