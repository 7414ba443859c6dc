{-# LANGUAGE OverloadedStrings #-}

-- | The program with HTTP/3, if it is built with it: curl speaks to it, and certificates change under it.
module Millrace.Cli.Serve.Http3Spec (spec) where

import Certificates
import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, bracket, throwIO, try)
import Control.Monad (forM, replicateM_)
import qualified Data.ByteString as ByteString
import Data.Char (toLower)
import Data.List (isInfixOf, isPrefixOf)
import Network.Socket
import Program
import Site (write)
import System.Directory (copyFile, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM, sigUSR2)
import Test.Hspec

spec :: Spec
spec = around withCertificates $ do
  it "is demanded of a program that is built without, in vain" $ \folder -> do
    program <- hasHttp3
    if program
      then pendingWith "this one is built with it"
      else do
        outcome <- runMillrace [] (["pong", "--port", "0", "--http3", "on"] ++ tls folder "one")
        outcomeExit outcome `shouldBe` ExitFailure 1
        outcomeErrors outcome `shouldSatisfy` ("cannot speak HTTP/3: this program was built without" `isInfixOf`)
        withServer (["pong", "--port", "0"] ++ tls folder "one") $ \server ->
          headers folder "one" server ["--http2"] >>= (`shouldNotContain` "alt-svc")

  it "serves files, and tells clients of https that it speaks HTTP/3" . needingHttp3 $ \folder -> do
    write folder "site/index.html" "a page"
    withServer
      ( ["serve", folder </> "site", "--port", "0", "--http3", "on", "--status", "0", "--access-log", folder </> "log"]
          ++ tls folder "one"
      )
      $ \server ->
        do
          status <- nextLine server
          overHttp3 folder "one" server ["--write-out", " %{http_version}", "/index.html"] `shouldReturn` "a page 3"
          let announcement = "alt-svc: h3=\":" ++ show (serverPort server) ++ "\"; ma=86400"
          headers folder "one" server ["--http2"] >>= (`shouldContain` announcement)
          headers folder "one" server ["--http1.1"] >>= (`shouldContain` announcement)
          metrics <- curl [takeWhile (/= '/') (drop (length ("status on http://" :: String)) status) ++ "/metrics"]
          metrics `shouldContain` "millrace_"
          signalServer sigTERM server
          waitForExit 30 server `shouldReturn` ExitSuccess
          -- The log may be written when the server ends.
          readFile (folder </> "log") >>= (`shouldContain` "\"GET /index.html HTTP/3.0\" 200 6")

  it "passes requests on" . needingHttp3 $ \folder ->
    withServer ["pong", "--port", "0"] $ \target ->
      withServer (["proxy", show (serverPort target), "--port", "0", "--http3", "on"] ++ tls folder "one") $ \server ->
        overHttp3 folder "one" server ["/"] `shouldReturn` "Pong!"

  it "says which limit ends a connection, and counts that" . needingHttp3 $ \folder ->
    withServer
      (["serve", folder, "--port", "0", "--http3", "on", "--status", "0", "--limit", "fields=1"] ++ tls folder "one")
      $ \server ->
        do
          status <- nextLine server
          overHttp3
            folder
            "one"
            server
            (concat [["--header", "x: " ++ show number] | number <- [1 .. 1200 :: Int]] ++ ["/"])
            `shouldThrow` anyIOException
          told <- nextErrorLine server
          told `shouldSatisfy` ("millrace: the connection of 127.0.0.1:" `isPrefixOf`)
          told `shouldSatisfy` (" ends: too many fields in a head" `isInfixOf`)
          metrics <- curl [takeWhile (/= ',') (drop (length ("status on " :: String)) status) ++ "metrics"]
          lines metrics `shouldContain` ["millrace_connections_ended_by_limit_total{limit=\"heads\"} 1"]

  it "does not speak it if it is told so" . needingHttp3 $ \folder ->
    withServer (["pong", "--port", "0", "--http3", "off"] ++ tls folder "one") $ \server -> do
      headers folder "one" server ["--http2"] >>= (`shouldNotContain` "alt-svc")
      overHttp3 folder "one" server ["/"] `shouldThrow` anyIOException

  it "leaves it out where clients must show certificates, or a proxy names them" . needingHttp3 $ \folder -> do
    withServer (["pong", "--port", "0", "--client-authorities", folder </> "two.pem"] ++ tls folder "one") $ \server ->
      do
        headers folder "one" server ["--http2", "--cert", folder </> "two.pem", "--key", folder </> "two.key"]
          >>= (`shouldNotContain` "alt-svc")
        overHttp3 folder "one" server ["/"] `shouldThrow` anyIOException
    let demanded options = do
          outcome <- runMillrace [] (["pong", "--port", "0", "--http3", "on"] ++ options ++ tls folder "one")
          outcomeExit outcome `shouldBe` ExitFailure 1
          pure (outcomeErrors outcome)
    demanded ["--client-authorities", folder </> "two.pem"] >>= (`shouldContain` "clients must show certificates")
    demanded ["--proxy-protocol"] >>= (`shouldContain` "the header of a proxy")

  it "says that the port is taken, and serves https alone if HTTP/3 is not demanded" . needingHttp3 $ \folder ->
    bracket (socket AF_INET Datagram defaultProtocol) close $ \taken -> do
      -- A port that is free for TCP.
      number <- bracket (socket AF_INET Stream defaultProtocol) close $ \free ->
        bind free (SockAddrInet 0 loopback) >> socketPort free
      bind taken (SockAddrInet number loopback)
      let port = show number
      outcome <- runMillrace [] (["pong", "--port", port, "--http3", "on"] ++ tls folder "one")
      outcomeExit outcome `shouldBe` ExitFailure 1
      outcomeErrors outcome `shouldContain` "cannot speak HTTP/3: the port is in use for UDP"
      withServer (["pong", "--port", port] ++ tls folder "one") $ \server -> do
        nextErrorLine server >>= (`shouldContain` "https without HTTP/3: the port is in use for UDP")
        headers folder "one" server ["--http2"] >>= (`shouldNotContain` "alt-svc")

  it "takes new certificates, and keeps the old ones if the new ones are broken" . needingHttp3 $ \folder -> do
    let install name =
          mapM_
            ( \suffix ->
                copyFile (folder </> (name ++ suffix)) (folder </> "new")
                  >> renameFile (folder </> "new") (folder </> ("live" ++ suffix))
            )
            [".key", ".pem"]
    install "one"
    withServer (["pong", "--port", "0", "--http3", "on"] ++ tls folder "live") $ \server -> do
      overHttp3 folder "one" server ["/"] `shouldReturn` "Pong!"
      writeFile (folder </> "live.pem") "broken"
      nextErrorLine server >>= (`shouldContain` "the certificates stay as they were")
      overHttp3 folder "one" server ["/"] `shouldReturn` "Pong!"
      install "two"
      signalServer sigUSR2 server
      nextErrorLine server >>= (`shouldContain` "the certificates were read again; new connections use them")
      overHttp3 folder "two" server ["/"] `shouldReturn` "Pong!"
      overHttp3 folder "one" server ["/"] `shouldThrow` anyIOException

  it "restarts without losing a request, while downloads go on" . needingHttp3 $ \folder -> do
    let bytes = ByteString.replicate 6000000 7
        serving port =
          withServer
            (["serve", folder </> "site", "--reuse-port", "--port", show port, "--http3", "on"] ++ tls folder "one")
        names = map show [1 .. 4 :: Int]
    write folder "site/index.html" "a page"
    write folder "site/large" bytes
    serving (0 :: Int) $ \first -> do
      -- They take three seconds. The system gives their datagrams to either server.
      downloads <- forM names $ \name -> do
        ended <- newEmptyMVar
        _ <-
          forkIO
            ( try
                ( overHttp3
                    folder
                    "one"
                    first
                    ["--max-time", "30", "--limit-rate", "2M", "--output", folder </> name, "/large"]
                )
                >>= putMVar ended
            )
        pure ended
      threadDelay 500000
      serving (serverPort first) $ \next -> do
        signalServer sigTERM first
        replicateM_ 10 (overHttp3 folder "one" next ["/index.html"] `shouldReturn` "a page")
        mapM takeMVar downloads >>= mapM_ (either (throwIO :: SomeException -> IO String) pure)
        mapM (\name -> (== bytes) <$> ByteString.readFile (folder </> name)) names `shouldReturn` map (const True) names
        waitForExit 30 first `shouldReturn` ExitSuccess

  it "takes the certificates of a changed configuration, but no demand for those of clients" . needingHttp3 $ \folder ->
    do
      write folder "site/index.html" "Pong!"
      let configured name more =
            writeFile (folder </> "m.yaml") . unlines $
              [ "listen: {https: 127.0.0.1:0, http3: on}",
                "process: {pid-file: " ++ folder </> "pid}",
                "certificates: {certificate: "
                  ++ folder </> (name ++ ".pem")
                  ++ ", key: "
                  ++ folder </> (name ++ ".key}"),
                "sites: {files: " ++ folder </> "site}"
              ]
                ++ more
          reload = runMillrace [] ["reload", folder </> "m.yaml"]
      configured "one" []
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        overHttp3 folder "one" server ["/"] `shouldReturn` "Pong!"
        configured "two" []
        outcomeExit <$> reload `shouldReturn` ExitSuccess
        overHttp3 folder "two" server ["/"] `shouldReturn` "Pong!"
        configured "one" ["tls: {client-authorities: " ++ folder </> "two.pem}"]
        outcome <- reload
        outcomeExit outcome `shouldBe` ExitFailure 1
        outcomeErrors outcome `shouldContain` "the server speaks HTTP/3"
        overHttp3 folder "two" server ["/"] `shouldReturn` "Pong!"
        headers folder "two" server ["--http2"] >>= (`shouldContain` "alt-svc")
  where
    loopback = tupleToHostAddress (127, 0, 0, 1)
    tls folder name = ["--certificate", folder </> (name ++ ".pem"), "--key", folder </> (name ++ ".key")]
    headers folder name server options =
      map toLower
        <$> curl
          ( ["--head", "--cacert", folder </> (name ++ ".pem")]
              ++ options
              ++ ["https://localhost:" ++ show (serverPort server) ++ "/"]
          )

-- | For a program and a curl with HTTP/3.
needingHttp3 :: (FilePath -> IO ()) -> FilePath -> IO ()
needingHttp3 test folder = do
  program <- hasHttp3
  client <- curlHasHttp3
  case (program, client) of
    (True, True) -> test folder
    (False, _) -> pendingWith "millrace is built without HTTP/3"
    _ -> pendingWith "this curl has no HTTP/3"

-- | What curl prints, with HTTP/3 alone. The certificate has this name; the last argument is the path. It tries again
-- when nothing comes: if the handshake was slow, curl 8.14 sends a request without its own streams for QPACK, which the
-- request needs, and waits for ever.
overHttp3 :: FilePath -> String -> Server -> [String] -> IO String
overHttp3 folder name server arguments =
  curl
    ( [ "--http3-only",
        "--speed-limit",
        "1",
        "--speed-time",
        "2",
        "--retry",
        "12",
        "--retry-delay",
        "1",
        "--cacert",
        folder </> (name ++ ".pem")
      ]
        ++ init arguments
        ++ ["https://localhost:" ++ show (serverPort server) ++ last arguments]
    )
