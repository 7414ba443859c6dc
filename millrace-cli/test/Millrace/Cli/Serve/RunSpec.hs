{-# LANGUAGE OverloadedStrings #-}

-- | The program with a configuration file: what it serves, and what it takes while it runs.
module Millrace.Cli.Serve.RunSpec (spec) where

import Certificates
import ConfigurationFile
import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, forM_)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isPrefixOf, nub)
import Load
import Program
import Site (withDirectory, write)
import System.Directory (listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (accessModes, fileMode, getFileStatus, intersectFileModes)
import System.Posix.Signals (sigCONT, sigHUP, sigSTOP, sigTERM)
import Test.Hspec

spec :: Spec
spec = do
  it "serves sites by name, and other programs by path" . withDirectory $ \folder ->
    withServer ["pong", "--port", "0"] $ \target -> do
      write folder "one/index.html" "one"
      write folder "two/x.txt" "two"
      configured
        folder
        (sites folder ["    routes:", "      - {path: /api, proxy: " <> show (serverPort target) <> "}"])
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        let at name path = curl ["--header", "Host: " <> name, serverUrl server <> path]
        at "one.test" "/" `shouldReturn` "one"
        at "one.test" "/api/x" `shouldReturn` "Pong!"
        at "sub.two.test" "/x.txt" `shouldReturn` "two"
        curl ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server] `shouldReturn` "404"
  it "takes a changed file at SIGHUP, and loses no request" . withDirectory $ \folder -> do
    forM_ ["one", "two"] $ \name -> write folder (name </> "index.html") (Char8.pack name <> " Pong!")
    let serving name = configured folder (listening ["sites:", "  files: " <> folder </> name])
    serving "one"
    outcome <- withServer ["run", folder </> "m.yaml"] $ \server -> underLoad (serverPort server) $ \endOfLoad -> do
      forM_ (concat (replicate 6 ["two", "one"])) $ \name -> do
        serving name
        signalServer sigHUP server
        nextErrorLine server >>= (`shouldContain` "was read again")
        curl [serverUrl server] `shouldReturn` (name <> " Pong!")
        threadDelay 50000
      endOfLoad
    nothingIsLost outcome
  it "remembers SIGHUP until it serves" . withDirectory $ \folder -> do
    path <- millracePath
    write folder "one/index.html" "one"
    configured folder (listening ["sites: {files: " <> folder </> "one}"])
    -- The program waits for its file, which is a pipe, and gets the signal meanwhile, as soon as it has a handler: the
    -- lowest bit.
    let waiting =
          [ "cd " <> folder <> " && mkfifo pipe && exec 3<>pipe",
            "(for _ in $(seq 200); do sleep 0.05; [ $(cat /proc/$$/comm) = millrace ] && grep -q \
            \'^SigCgt:.*[13579bdf]$' /proc/$$/status && break; done",
            "kill -HUP $$; cat m.yaml >&3) &",
            "exec \"$0\" run pipe 3>&-"
          ]
    withCommand "bash" ["-c", unlines waiting, path] $ \server -> do
      -- Nothing is left in the pipe when it is read again.
      nextErrorLine server >>= (`shouldContain` "everything stays as it was: cannot use pipe: one mistake")
      curl [serverUrl server] `shouldReturn` "one"
      signalServer sigTERM server
      waitForExit 30 server `shouldReturn` ExitSuccess
  it "refuses a broken file and one that needs a restart, and nothing changes" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    let good = listening ["process: {pid-file: " <> folder </> "pid}", "sites:", "  files: " <> folder </> "one"]
        refusedWith text server said = do
          configured folder text
          signalServer sigHUP server
          untilSaid server said
          curl [serverUrl server] `shouldReturn` "one"
    configured folder good
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      refusedWith (listening ["sites: {file: x}"]) server "m.yaml:3:9: a site has no key 'file'. Did you mean 'files'?"
      refusedWith
        (take 3 good <> ["sites: {files: " <> folder </> "none}"])
        server
        ("m.yaml:4:16: cannot serve " <> folder </> "none: No such file")
      refusedWith ("listen: 1" : drop 1 good) server "The guide's page"
      refusedWith (good <> ["limits: {fields: 5}"]) server "'fields' in 'limits' has changed"
      refusedWith
        ("listen: [{http: 127.0.0.1:0}, {http: 127.0.0.1:0}]" : drop 1 good <> ["limits: {fields: 5}"])
        server
        "'listen' (127.0.0.1:0) and 'fields' in 'limits' have changed"
      refusedWith
        (listening ["process: {cores: 2, pid-file: " <> folder </> "pid}", "sites: {files: " <> folder </> "one}"])
        server
        "'cores' in 'process' has changed"
      untilSaid server "This needs a restart."
      -- Who may ask: its user, and root.
      (`intersectFileModes` accessModes) . fileMode <$> getFileStatus (folder </> "pid.sock") `shouldReturn` 0o600
      -- The command tells what the server says.
      let reloading more = runMillrace [] (["reload", folder </> "m.yaml"] <> more)
          refusedByCommand text said = do
            configured folder text
            outcome <- reloading []
            outcomeExit outcome `shouldBe` ExitFailure 1
            outcomeOutput outcome `shouldBe` ""
            forM_ said (outcomeErrors outcome `shouldContain`)
      refusedByCommand
        (listening ["process: {cores: 2, pid-file: " <> folder </> "pid}", "sites: {files: " <> folder </> "one}"])
        ["'cores' in 'process' has changed", "This needs a restart."]
      untilSaid server "'cores' in 'process' has changed"
      refusedByCommand
        (take 3 good <> ["sites: {files: " <> folder </> "none}"])
        ["cannot serve " <> folder </> "none", "No such file"]
      refusedByCommand (good <> ["  fiels: x"]) ["m.yaml:6:3: a site has no key 'fiels'"]
      -- It does not take a file that it does not run with.
      writeFile (folder </> "other.yaml") (unlines good)
      other <- runMillrace [] ["reload", folder </> "other.yaml"]
      (outcomeExit other, outcomeOutput other) `shouldBe` (ExitFailure 1, "")
      outcomeErrors other `shouldContain` "which is another file"
      curl [serverUrl server] `shouldReturn` "one"
      write folder "two/index.html" "two"
      configured folder (take 3 good <> ["sites: {files: " <> folder </> "two}"])
      done <- reloading []
      (outcomeExit done, outcomeOutput done)
        `shouldBe` (ExitSuccess, folder </> "m.yaml was read again; new requests are answered as it says\n")
      curl [serverUrl server] `shouldReturn` "two"
      -- Several at once each get an answer.
      outcomes <- forM [1 .. 4 :: Int] . const $ do
        place <- newEmptyMVar
        place <$ forkIO (reloading [] >>= putMVar place . outcomeExit)
      within 60 "four answers" (mapM takeMVar outcomes) `shouldReturn` replicate 4 ExitSuccess
      signalServer sigSTOP server
      late <- reloading ["--timeout", "1"]
      outcomeExit late `shouldBe` ExitFailure 1
      outcomeErrors late `shouldContain` "has not answered within 1 second"
      signalServer sigCONT server
      signalServer sigTERM server
      waitForExit 30 server `shouldReturn` ExitSuccess
    filter ("pid" `isPrefixOf`) <$> listDirectory folder `shouldReturn` []
    gone <- runMillrace [] ["reload", folder </> "m.yaml"]
    outcomeExit gone `shouldBe` ExitFailure 1
    outcomeErrors gone `shouldContain` "The server must be running, and this must be its user"
    configured folder ["process: {pid-file: run/pid}", "sites: {files: one}"]
    relative <- runMillrace [] ["reload", folder </> "m.yaml"]
    outcomeErrors relative `shouldContain` "'pid-file' is relative to the folder in which the server was started"
  it "takes other certificates with a changed file" . withCertificates $ \folder -> do
    write folder "one/index.html" "one"
    let with name =
          configured
            folder
            [ "listen: {https: 127.0.0.1:0}",
              "certificates: {certificate: " <> folder </> name <> ".pem, key: " <> folder </> name <> ".key}",
              "sites: {files: " <> folder </> "one}"
            ]
        asked server name =
          curl ["--cacert", folder </> name <> ".pem", "https://localhost:" <> show (serverPort server)]
    with "one"
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      serverUrl server `shouldSatisfy` ("https://" `isPrefixOf`)
      asked server "one" `shouldReturn` "one"
      with "two"
      signalServer sigHUP server
      untilSaid server "was read again"
      asked server "two" `shouldReturn` "one"
      with "none"
      signalServer sigHUP server
      untilSaid server "none.pem"
      asked server "two" `shouldReturn` "one"
  it "listens on several addresses" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured folder ["listen: [{http: 127.0.0.1:0}, {http: 127.0.0.1:0}]", "sites: {files: " <> folder </> "one}"]
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let second = drop (length ("listening on " :: String)) (serverBackendLine server)
      answers <- mapM (curl . pure) [serverUrl server, second]
      nub answers `shouldBe` ["one"]
      signalServer sigTERM server
      waitForExit 30 server `shouldReturn` ExitSuccess
  it "prints the file that says what options say" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    printed <- runMillrace [] ["serve", folder </> "one", "--port", "0", "--listing", "--print-config"]
    configured folder (lines (outcomeOutput printed))
    withServer ["run", folder </> "m.yaml"] $ \server -> curl [serverUrl server] `shouldReturn` "one"
  where
    sites folder more =
      listening $
        ["sites:", "  - hosts: one.test", "    files: " <> folder </> "one"] <> more
          <> ["  - {hosts: '*.two.test', files: " <> folder </> "two}"]
