{-# LANGUAGE OverloadedStrings #-}

-- | The program with a configuration file: what it serves, and what it takes while it runs.
module Millrace.Cli.Serve.RunSpec (spec) where

import Certificates
import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, forM_, replicateM_)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, isPrefixOf, nub)
import Load
import Program
import Site (withDirectory, write)
import System.Directory (doesFileExist, listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (accessModes, fileMode, getFileStatus, intersectFileModes)
import System.Posix.Signals (sigCONT, sigHUP, sigSTOP, sigTERM)
import System.Process (readProcess)
import Target
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
    let with name = configured folder ["listen: {https: 127.0.0.1:0}", "certificates: {certificate: " <> folder </> name <> ".pem, key: " <> folder </> name <> ".key}", "sites: {files: " <> folder </> "one}"]
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
  it "keeps its limits" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured folder (listening ["limits: {fields: 5}", "sites: {files: " <> folder </> "one}"])
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let status fields = curl (["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server] <> concat [["--header", "X-" <> show field <> ": y"] | field <- [1 .. fields :: Int]])
      status 0 `shouldReturn` "200"
      status 5 `shouldReturn` "431"
  it "keeps the limits of a proxy" . withDirectory $ \folder ->
    withSilentTarget $ \silent -> withServer ["pong", "--port", "0"] $ \target -> do
      configured folder . listening $
        [ "sites:",
          "  proxy: {targets: " <> silent <> ", total-seconds: 1}",
          "  routes:",
          "    - {path: /slow, proxy: {targets: "
            <> silent
            <> ", send-seconds: 1, stall-seconds: 1, response-seconds: 1}}",
          "    - {path: /checked, proxy: {targets: ["
            <> silent
            <> ", "
            <> show (serverPort target)
            <> "], balance: path, health: {path: /, every-seconds: 1, limit-seconds: 1, failures: 1}}}"
        ]
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        let status path = curl ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server <> path]
        -- Usually a response has a minute.
        within 20 "all of it" (status "/") `shouldReturn` "504"
        within 20 "the first byte" (status "/slow") `shouldReturn` "504"
        -- Usually the second failure counts, after five seconds.
        untilSaid server (silent <> " is left out")
        mapM (const (curl [serverUrl server <> "/checked"])) [1 .. 4 :: Int] `shouldReturn` replicate 4 "Pong!"
  it "has pages for its own errors on the routes of a proxy, and leaves answers of targets alone" . withDirectory $ \folder ->
    withSilentTarget $ \silent -> withOneResponse broken $ \malformed -> do
      write folder "one/index.html" "one"
      forM_ ["401", "404", "413", "502", "504"] $ \status ->
        write folder ("errors" </> (status <> ".html")) ("<p>page " <> Char8.pack status)
      writeFile (folder </> "users") . ("a:" <>)
        =<< within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "b"] "")
      gone <- withServer ["pong", "--port", "0"] (pure . show . serverPort)
      withServer ["serve", folder </> "one", "--port", "0"] $ \target -> do
        let to port = "proxy: {targets: " <> port <> ", response-seconds: 1, error-pages: " <> folder </> "errors}"
        configured folder . listening $
          [ "limits: {body-bytes: 10}",
            "sites:",
            "  " <> to gone,
            "  routes:",
            "    - {path: /slow, " <> to silent <> "}",
            "    - {path: /malformed, " <> to malformed <> "}",
            "    - {path: /target, " <> to (show (serverPort target)) <> "}",
            "    - {path: /locked, users: " <> folder </> "users, " <> to gone <> "}"
          ]
        withServer ["run", folder </> "m.yaml"] $ \server -> do
          let facts path options = lines <$> curl (options <> ["--write-out", "\n%{http_code} %{content_type}", serverUrl server <> path])
              page status = ["<p>page " <> status, status <> " text/html; charset=utf-8"]
          facts "/" [] `shouldReturn` page "502"
          facts "/slow" [] `shouldReturn` page "504"
          -- The target has failed in the middle of a response of which nothing was sent.
          facts "/malformed" [] `shouldReturn` page "502"
          facts "/locked" [] `shouldReturn` page "401"
          curl ["--head", serverUrl server <> "/locked"] >>= (`shouldContain` "WWW-Authenticate: Basic")
          facts "/locked" ["--user", "a:b"] `shouldReturn` page "502"
          -- A target that answers before it has the body would be faster now and then.
          facts "/slow" ["--header", "Transfer-Encoding: chunked", "--header", "Expect:", "--data", replicate 20 'x']
            `shouldReturn` page "413"
          facts "/target/none" [] `shouldReturn` ["404 Not Found", "", "404 text/plain; charset=utf-8"]
          -- There is no page for it.
          facts "/target" ["--request", "TRACE"]
            `shouldReturn` ["405 Method Not Allowed", "", "405 text/plain; charset=utf-8"]
        -- The same by options.
        withServer ["proxy", gone, "--port", "0", "--error-pages", folder </> "errors"] $ \server ->
          curl [serverUrl server] `shouldReturn` "<p>page 502"
        none <- runMillrace [] ["proxy", gone, "--port", "0", "--error-pages", folder </> "none"]
        outcomeExit none `shouldBe` ExitFailure 1
        outcomeErrors none `shouldContain` ("cannot use the pages for errors in " <> folder </> "none")
  it "listens on several addresses" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured folder ["listen: [{http: 127.0.0.1:0}, {http: 127.0.0.1:0}]", "sites: {files: " <> folder </> "one}"]
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let second = drop (length ("listening on " :: String)) (serverBackendLine server)
      answers <- mapM (curl . pure) [serverUrl server, second]
      nub answers `shouldBe` ["one"]
      signalServer sigTERM server
      waitForExit 30 server `shouldReturn` ExitSuccess
  it "asks for a password" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    write folder "one/open.txt" "open"
    hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "a:b"] "")
    writeFile (folder </> "users") ("# mine\n\nsomebody:" <> hash)
    configured
      folder
      ( listening
          [ "sites:",
            "- users: {file: "
              <> folder </> "users, realm: 'the \"inner\" part'}",
            "  files: "
              <> folder </> "one"
          ]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let status options = curl (options <> ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server])
      status [] `shouldReturn` "401"
      status ["--user", "somebody:a:c"] `shouldReturn` "401"
      status ["--user", "nobody:a:b"] `shouldReturn` "401"
      status ["--user", "somebody:"] `shouldReturn` "401"
      status ["--header", "Authorization: Basic !!!"] `shouldReturn` "401"
      status ["--header", "Authorization: Basic"] `shouldReturn` "401"
      replicateM_ 3 (status ["--user", "somebody:a:b"] `shouldReturn` "200")
      status ["--user", "somebody:a:c"] `shouldReturn` "401"
      curl ["--user", "somebody:a:b", serverUrl server] `shouldReturn` "one"
      curl ["--head", serverUrl server]
        >>= (`shouldContain` "WWW-Authenticate: Basic realm=\"the \\\"inner\\\" part\", charset=\"UTF-8\"")
      -- Whoever asks.
      mapM
        (\options -> isInfixOf "\r\nVary: Authorization\r\n" <$> curl (options <> ["--head", serverUrl server]))
        [[], ["--user", "somebody:a:b"]]
        `shouldReturn` [True, True]
    forM_
      [ ("somebody", "line 1 is not NAME:HASH"),
        ("a:plain", "the hash of \"a\" is of no kind that is known and safe"),
        ("# none", "there is nobody in it")
      ]
      $ \(content, said) ->
        do
          writeFile (folder </> "users") content
          outcome <- runMillrace [] ["check", folder </> "m.yaml"]
          outcomeExit outcome `shouldBe` ExitFailure 1
          outcomeErrors outcome `shouldContain` said
  it "asks for the users of a route instead of those of its site, and lets questions of browsers pass" . withDirectory $
    \folder -> do
      forM_ ["one", "two", "three"] $ \name -> do
        write folder (name </> "index.html") "here"
        hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "secret"] "")
        writeFile (folder </> ("users-" <> name)) (name <> ":" <> hash)
      configured folder . listening $
        [ "sites:",
          "- users: " <> folder </> "users-one",
          "  files: " <> folder </> "one",
          "  routes:",
          "  - {path: /two, files: " <> folder </> "two, users: " <> folder </> "users-two, cors: 'https://app.test'}",
          "  - {path: /three, files: " <> folder </> "three, cors: 'https://app.test'}"
        ]
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        let status path options = curl (options <> ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server <> path])
            asking =
              [ "--request",
                "OPTIONS",
                "--header",
                "Origin: https://app.test",
                "--header",
                "Access-Control-Request-Method: GET"
              ]
        mapM (`status` []) ["/", "/two/", "/three/"] `shouldReturn` ["401", "401", "401"]
        mapM (\path -> status path ["--user", "one:secret"]) ["/", "/two/", "/three/"]
          `shouldReturn` ["200", "401", "200"]
        mapM (\path -> status path ["--user", "two:secret"]) ["/", "/two/", "/three/"]
          `shouldReturn` ["401", "200", "401"]
        mapM (`status` asking) ["/", "/two/", "/three/"] `shouldReturn` ["401", "204", "204"]
        -- Other paths of the site are not reached through such a route.
        status "/two/../" asking `shouldReturn` "400"
  it "lets pages of other origins read answers, if it is told whose" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( listening
          [ "sites:",
            "- cors: {origins: ['https://app.test'], methods: [PUT], headers: [X-A], credentials: true}",
            "  files: "
              <> folder </> "one"
          ]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let asked origin options = curl (["--include", "--header", "Origin: " <> origin] <> options <> [serverUrl server])
      allowed <- asked "https://app.test" []
      forM_
        [ "Access-Control-Allow-Origin: https://app.test\r\n",
          "Access-Control-Allow-Credentials: true\r\n",
          "Vary: Origin\r\n"
        ]
        (allowed `shouldContain`)
      other <- asked "https://other.test" []
      other `shouldNotContain` "Access-Control"
      other `shouldContain` "Vary: Origin\r\n"
      preflight <- asked "https://app.test" ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: PUT"]
      forM_
        [ " 204 ",
          "Access-Control-Allow-Methods: GET, HEAD, POST, PUT\r\n",
          "Access-Control-Allow-Headers: X-A\r\n",
          "Access-Control-Max-Age: 600\r\n"
        ]
        (preflight `shouldContain`)
      refused <- asked "https://other.test" ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: PUT"]
      refused `shouldNotContain` "Access-Control"
  it "adds the fields that keep browsers safe, and leaves those that are there" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( listening
          ["sites:", "- security-headers: true", "  headers: {X-Frame-Options: DENY}", "  files: " <> folder </> "one"]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      answer <- curl ["--include", serverUrl server]
      forM_
        [ "X-Content-Type-Options: nosniff\r\n",
          "X-Frame-Options: DENY\r\n",
          "Referrer-Policy: strict-origin-when-cross-origin\r\n",
          "Cross-Origin-Opener-Policy: same-origin\r\n"
        ]
        (answer `shouldContain`)
      answer `shouldNotContain` "SAMEORIGIN"
  it "checks a file without serving it, a thousand sites within a second" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( "sites:" :
        concat
          [["  - hosts: s" <> show number <> ".test", "    files: " <> folder </> "one"] | number <- [1 .. 1000 :: Int]]
      )
    found <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeOutput found `shouldContain` "OK, 1000 sites, 1 address"
    outcomeExit found `shouldBe` ExitSuccess
    configured folder ["sites: {file: one}"]
    wrong <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeExit wrong `shouldBe` ExitFailure 1
    outcomeErrors wrong `shouldContain` "m.yaml:1:9: "
    configured
      folder
      ("sites:" : ["  - {hosts: s" <> show number <> ".test, file: one}" | number <- [1 .. 1000 :: Int]])
    many <- runMillrace [] ["check", folder </> "m.yaml"]
    map (`isInfixOf` outcomeErrors many) ["2000 mistakes", "m.yaml:11:", "m.yaml:12:", "and 1980 more"]
      `shouldBe` [True, True, False, True]
    missing <- runMillrace [] ["check", folder </> "none.yaml"]
    outcomeErrors missing `shouldContain` "No such file"
  it "checks certificates, keys, and the folders of what it will write" . withCertificates $ \folder -> do
    write folder "one/index.html" "one"
    let checked certificates more = do
          configured
            folder
            ( "listen: {https: 127.0.0.1:0}" :
              ("certificates: {" <> certificates <> "}") :
              more
                <> ["sites: {files: " <> folder </> "one}"]
            )
          runMillrace [] ["check", folder </> "m.yaml"]
        good = "certificate: " <> folder </> "one.pem, key: " <> folder </> "one.key"
        isRefused said outcome = do
          outcomeExit outcome `shouldBe` ExitFailure 1
          outcomeErrors outcome `shouldContain` said
    checked
      good
      [ "tls: {client-authorities: "
          <> folder </> "two.pem}",
        "process: {access-log: "
          <> folder </> "log, pid-file: "
          <> folder </> "pid}"
      ]
      >>= (`shouldBe` ExitSuccess) . outcomeExit
    -- It has written nothing.
    mapM (doesFileExist . (folder </>)) ["log", "pid"] `shouldReturn` [False, False]
    checked ("certificate: " <> folder </> "none.pem, key: " <> folder </> "one.key") []
      >>= isRefused "m.yaml:2:30: cannot read the certificates"
    checked ("certificate: " <> folder </> "one.pem, key: " <> folder </> "two.key") []
      >>= isRefused "the private key belongs to another certificate"
    checked good ["tls: {client-authorities: " <> folder </> "none.pem}"] >>= isRefused "none.pem"
    checked good ["tls: {ticket-keys: " <> folder </> "one.pem}"] >>= isRefused "a key for session tickets has 80 bytes"
    checked good ["process: {access-log: " <> folder </> "none/log}"]
      >>= isRefused ("there is no folder " <> folder </> "none")
    checked good ["process: {pid-file: " <> folder </> "none/pid}"] >>= isRefused "m.yaml:3:21: cannot write the pid file"
    checked good ["process: {access-log: " <> folder <> "}"] >>= isRefused "m.yaml:3:23: cannot write the access log"
    checked good ["process: {pid-file: " <> folder <> "}"] >>= isRefused "it is a directory"
    made <- checked good ["process: {pid-file: /run/millrace-cli-test-none/pid}"]
    outcomeExit made `shouldBe` ExitSuccess
    outcomeErrors made `shouldContain` "there is no /run/millrace-cli-test-none now"
  it "prints the file that says what options say" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    printed <- runMillrace [] ["serve", folder </> "one", "--port", "0", "--listing", "--print-config"]
    configured folder (lines (outcomeOutput printed))
    withServer ["run", folder </> "m.yaml"] $ \server -> curl [serverUrl server] `shouldReturn` "one"
  where
    broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"
    configured folder = writeFile (folder </> "m.yaml") . unlines
    listening = ("listen: {http: 127.0.0.1:0}" :) . ("" :)
    sites folder more =
      listening $
        ["sites:", "  - hosts: one.test", "    files: " <> folder </> "one"] <> more
          <> ["  - {hosts: '*.two.test', files: " <> folder </> "two}"]
    untilSaid server said = within 30 said go
      where
        go = nextErrorLine server >>= \line -> if said `isInfixOf` line then pure () else go
