-- | The program with TLS: curl speaks to it, certificates change under it.
module Millrace.Cli.Serve.TlsSpec (spec) where

import Certificates
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as B
import Data.List (isInfixOf, isPrefixOf, stripPrefix)
import Data.Maybe (fromMaybe)
import Program
import System.Directory (copyFile, createDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM, sigUSR2)
import System.Process (readProcessWithExitCode)
import Test.Hspec

spec :: Spec
spec = around withCertificates $ do
  it "serves https, and sends clients of http there" $ \folder ->
    withServer (["pong", "--port", "0", "--redirect-to-https", "0", "--status", "0"] ++ tls folder "one") $ \server ->
      do
        serverUrl server `shouldSatisfy` ("https://127.0.0.1:" `isPrefixOf`)
        status <- nextLine server
        redirect <- fromMaybe "" . stripPrefix "redirecting from " <$> nextLine server
        curl (trusting folder "one" ++ ["--http1.1", "--write-out", " %{http_version}", localUrl server])
          >>= (`shouldBe` "Pong! 1.1")
        curl (trusting folder "one" ++ ["--http2", "--write-out", " %{http_version}", localUrl server])
          >>= (`shouldBe` "Pong! 2")
        answer <- curl ["-i", redirect ++ "/a?b=c", "-H", "Host: localhost:80"]
        answer `shouldSatisfy` (" 308 " `isInfixOf`)
        answer `shouldSatisfy` (("Location: " ++ localUrl server ++ "/a?b=c\r\n") `isInfixOf`)
        -- A challenge goes to the application.
        curl [redirect ++ "/.well-known/acme-challenge/token"] >>= (`shouldBe` "Pong!")
        curl ["-i", "http" ++ drop 5 (serverUrl server)] >>= (`shouldSatisfy` (" 426 " `isInfixOf`))
        metrics <- curl [takeWhile (/= ' ') (drop (length "status on ") status) `replacing` "metrics"]
        metrics `shouldSatisfy` ("millrace_tls_handshakes_total{result=\"full\"} 2\n" `isInfixOf`)
        signalServer sigTERM server
        waitForExit 30 server >>= (`shouldBe` ExitSuccess)

  it "counts the outcomes of handshakes" $ \folder ->
    withServer (["pong", "--port", "0", "--status", "0"] ++ tls folder "one") $ \server -> do
      status <- nextLine server
      let session = folder </> "session"
          connecting options =
            readOpenssl (["s_client", "-connect", "127.0.0.1:" ++ show (serverPort server), "-ign_eof"] ++ options)
          metrics = curl [takeWhile (/= ' ') (drop (length "status on ") status) `replacing` "metrics"]
          counted result =
            eventually (result ++ " is counted") $
              (("millrace_tls_handshakes_total{result=\"" ++ result ++ "\"} 1\n") `isInfixOf`) <$> metrics
      mapM_ connecting [["-sess_out", session], ["-sess_in", session]]
      counted "resumed"
      -- This client does not trust the certificate, and says so.
      curl [localUrl server] `shouldThrow` anyIOException
      counted "refused"

  it "sends all but plain names of challenges to https" $ \folder ->
    withServer (["pong", "--port", "0", "--redirect-to-https", "0"] ++ tls folder "one") $ \server -> do
      redirect <- fromMaybe "" . stripPrefix "redirecting from " <$> nextLine server
      let status path =
            curl ["--output", "/dev/null", "--write-out", "%{http_code}", "-H", "Host: localhost", redirect ++ path]
          below = ("/.well-known/acme-challenge/" ++)
      mapM (status . below) ["evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA", "a.b/c~d", "..a"]
        `shouldReturn` ["200", "200", "200"]
      let others =
            ["", "../../x", "a/../../../x", "%2e%2e/%2E./x", "..%2f..%2fx", "..%5c..%5cx", "a/./b", "a//b", "%61"]
      mapM (status . below) others `shouldReturn` map (const "308") others
      mapM
        status
        [ "/.well-known/acme-challenge",
          "/.well-known/acme-challengex",
          "/.well-known/../x",
          "/%2ewell-known/acme-challenge/x"
        ]
        `shouldReturn` replicate 4 "308"

  it "chooses a certificate by name" $ \folder ->
    withServer (["pong", "--port", "0"] ++ tls folder "one" ++ tls folder "other") $ \server -> do
      let at name = ["--connect-to", name ++ "::127.0.0.1:" ++ show (serverPort server), "https://" ++ name ++ "/"]
      curl (trusting folder "one" ++ at "localhost") >>= (`shouldBe` "Pong!")
      curl (trusting folder "other" ++ at "other.test") >>= (`shouldBe` "Pong!")

  it "takes new certificates, and keeps the old ones if the new ones are broken" $ \folder -> do
    let install name =
          mapM_
            ( \suffix ->
                copyFile (folder </> (name ++ suffix)) (folder </> "new")
                  >> renameFile (folder </> "new") (folder </> ("live" ++ suffix))
            )
            [".key", ".pem"]
    install "one"
    withServer (["pong", "--port", "0"] ++ tls folder "live") $ \server -> do
      curl (trusting folder "one" ++ [localUrl server]) >>= (`shouldBe` "Pong!")
      writeFile (folder </> "live.pem") "broken"
      nextErrorLine server >>= (`shouldSatisfy` ("the certificates stay as they were" `isInfixOf`))
      signalServer sigUSR2 server
      nextErrorLine server >>= (`shouldSatisfy` ("the certificates stay as they were" `isInfixOf`))
      curl (trusting folder "one" ++ [localUrl server]) >>= (`shouldBe` "Pong!")
      install "two"
      signalServer sigUSR2 server
      nextErrorLine server >>= (`shouldSatisfy` ("the certificates were read again" `isInfixOf`))
      curl (trusting folder "two" ++ [localUrl server]) >>= (`shouldBe` "Pong!")

  it "serves only clients with a certificate, if it is told whose" $ \folder ->
    withServer (["pong", "--port", "0", "--client-authorities", folder </> "two.pem"] ++ tls folder "one") $ \server ->
      do
        curl (trusting folder "one" ++ ["--cert", folder </> "two.pem", "--key", folder </> "two.key", localUrl server])
          >>= (`shouldBe` "Pong!")
        curl (trusting folder "one" ++ ["--write-out", "%{http_code}", "--output", "/dev/null", localUrl server])
          `shouldThrow` anyIOException

  it "resumes sessions of another server with the same keys for tickets" $ \folder -> do
    let keys = folder </> "tickets"
        session = folder </> "session"
        connectTo running options =
          snd
            <$> readOpenssl
              ( [ "s_client",
                  "-connect",
                  "127.0.0.1:"
                    ++ show (serverPort running),
                  "-servername",
                  "localhost",
                  "-ign_eof"
                ]
                  ++ options
              )
        server keysOf = withServer (["pong", "--port", "0"] ++ tls folder "one" ++ keysOf)
    B.writeFile keys (B.replicate 80 'k')
    server ["--ticket-keys", keys] $ \first ->
      connectTo first ["-sess_out", session] >>= (`shouldSatisfy` ("Pong!" `isInfixOf`))
    server ["--ticket-keys", keys] $ \second -> do
      connectTo second ["-sess_in", session] >>= (`shouldSatisfy` ("Reused, TLSv1.3" `isInfixOf`))
      -- New keys in front of the old ones are taken while the server runs.
      B.writeFile keys (B.replicate 80 'n' <> B.replicate 80 'k')
      signalServer sigUSR2 second
      nextErrorLine second >>= (`shouldSatisfy` ("were read again" `isInfixOf`))
      connectTo second ["-sess_in", session, "-sess_out", session] >>= (`shouldSatisfy` ("Reused, TLSv1.3" `isInfixOf`))
    server [] $ \another -> connectTo another ["-sess_in", session] >>= (`shouldSatisfy` ("New, TLSv1.3" `isInfixOf`))

  it "says what is wrong with keys for tickets" $ \folder -> do
    B.writeFile (folder </> "tickets") (B.replicate 79 'k')
    outcome <- runMillrace [] (["pong", "--port", "0", "--ticket-keys", folder </> "tickets"] ++ tls folder "one")
    outcomeExit outcome `shouldBe` ExitFailure 1
    outcomeErrors outcome `shouldSatisfy` ("a key for session tickets has 80 bytes" `isInfixOf`)
    outcomeErrors outcome `shouldSatisfy` ("'ticket-keys' takes keys" `isInfixOf`)

  it "says what is wrong with a certificate" $ \folder -> do
    outcome <-
      runMillrace [] ["pong", "--port", "0", "--certificate", folder </> "one.pem", "--key", folder </> "two.key"]
    outcomeExit outcome `shouldBe` ExitFailure 1
    outcomeErrors outcome `shouldSatisfy` ("the private key belongs to another certificate" `isInfixOf`)
    missing <-
      runMillrace [] ["pong", "--port", "0", "--certificate", folder </> "none.pem", "--key", folder </> "two.key"]
    outcomeExit missing `shouldBe` ExitFailure 1
    outcomeErrors missing
      `shouldSatisfy` ( ( "cannot read the certificates: "
                            ++ folder </> "none.pem: No such file or directory\n"
                        )
                          `isInfixOf`
                      )

  it "answers clients that speak HTTP/1.0, also through a proxy with TLS on both sides" $ \folder -> do
    createDirectory (folder </> "site")
    B.writeFile (folder </> "site/index.html") (B.replicate 300000 'x')
    withServer (["serve", folder </> "site", "--port", "0"] ++ tls folder "one") $ \target ->
      withServer
        (["proxy", "--port", "0", "--target-authorities", folder </> "one.pem", localUrl target] ++ tls folder "one")
        $ \front ->
          forM_ [(server, more) | server <- [target, front], more <- [[], ["--header", "Connection: keep-alive"]]] $
            \(server, more) ->
              do
                let url = localUrl server ++ "/"
                told <-
                  curl
                    ( trusting folder "one"
                        ++ ["-0", "--output", "/dev/null", "--write-out", "%{http_code} %{size_download};"]
                        ++ more
                        ++ [url, "--output", "/dev/null", url]
                    )
                told `shouldBe` "200 300000;200 300000;"

  it "wants a certificate for the other options" $ \_ -> do
    outcome <- runMillrace [] ["pong", "--redirect-to-https", "80"]
    outcomeExit outcome `shouldBe` ExitFailure 2
  where
    tls folder name = ["--certificate", folder </> (name ++ ".pem"), "--key", folder </> (name ++ ".key")]
    trusting folder name = ["--cacert", folder </> (name ++ ".pem")]
    localUrl server = "https://localhost:" ++ show (serverPort server)
    readOpenssl arguments = do
      (exit, out, _) <-
        readProcessWithExitCode "openssl" arguments "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      return (exit, out)
    replacing url page = reverse (dropWhile (/= '/') (reverse url)) ++ page
