-- | The program as a reverse proxy, in front of itself.
module Millrace.Cli.Serve.ReverseProxySpec (spec) where

import Certificates
import Data.List (isInfixOf, isSuffixOf)
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM)
import Target
import Test.Hspec

spec :: Spec
spec = do
  it "passes requests on to a port of this machine, logs and counts them, and stops" $
    withServer ["pong", "--port", "0"] $ \target ->
      withServer ["proxy", show (serverPort target), "--port", "0", "--status", "0", "--access-log", "-"] $ \server ->
        do
          status <- nextLine server
          curl [serverUrl server ++ "/a?b=c"] >>= (`shouldBe` "Pong!")
          nextLine server >>= (`shouldSatisfy` ("\"GET /a?b=c HTTP/1.1\" 200 5 " `isInfixOf`))
          metrics <-
            curl
              [ reverse (dropWhile (/= '/') (reverse (takeWhile (/= ' ') (drop (length "status on ") status))))
                  ++ "metrics"
              ]
          metrics `shouldSatisfy` ("status=\"2xx\"} 1\n" `isInfixOf`)
          signalServer sigTERM server
          waitForExit 30 server >>= (`shouldBe` ExitSuccess)
  it "uses the target that is well, and says what is wrong when there is none" $ do
    gone <- withServer ["pong", "--port", "0"] (return . show . serverPort)
    withServer ["pong", "--port", "0"] $ \target ->
      withServer ["proxy", gone, show (serverPort target), "--port", "0"] $ \server ->
        mapM (const (curl [serverUrl server])) [1 .. 4 :: Int] >>= (`shouldBe` replicate 4 "Pong!")
    withServer ["proxy", gone, "--port", "0"] $ \server -> do
      curl ["-i", serverUrl server ++ "/x"] >>= (`shouldSatisfy` (" 502 " `isInfixOf`))
      nextErrorLine server
        `shouldReturn` ("millrace: GET /x: no connection to http://127.0.0.1:" ++ gone ++ ": connection refused")
  it "refuses in the same words as a server of files" $ do
    gone <- withServer ["pong", "--port", "0"] (return . show . serverPort)
    let asked server options path = curl (["-i"] ++ options ++ [serverUrl server ++ path])
        isPlain line answer = do
          answer `shouldSatisfy` (("\r\n\r\n" ++ line ++ "\n") `isSuffixOf`)
          answer `shouldSatisfy` ("X-Content-Type-Options: nosniff\r\n" `isInfixOf`)
    withServer ["proxy", gone, "--port", "0", "--limit", "url-bytes=20"] $ \server -> do
      asked server [] "/" >>= isPlain "502 Bad Gateway"
      asked server [] ('/' : replicate 20 'x') >>= isPlain "414 Request-URI Too Long"
    withSilentTarget $ \silent -> withServer ["proxy", silent, "--port", "0", "--limit", "body-bytes=10"] $ \server ->
      asked server ["-H", "Expect:", "-H", "Transfer-Encoding: chunked", "-d", replicate 20 'x'] "/"
        >>= isPlain "413 Request Entity Too Large"
  it "says which option has targets with a certificate of their own trusted" . withCertificates $ \folder ->
    withServer ["pong", "--port", "0", "--certificate", folder </> "one.pem", "--key", folder </> "one.key"] $
      \target ->
        do
          let url = "https://localhost:" ++ show (serverPort target)
          withServer ["proxy", url, "--port", "0"] $ \server -> do
            curl ["-i", serverUrl server] >>= (`shouldSatisfy` (" 502 " `isInfixOf`))
            nextErrorLine server
              >>= (`shouldSatisfy` ("'target-authorities' takes the certificates of those" `isInfixOf`))
          withServer ["proxy", url, "--port", "0", "--target-authorities", folder </> "one.pem"] $ \server ->
            curl [serverUrl server] `shouldReturn` "Pong!"
  it "blames a target whose response is broken before any of it was passed on"
    . withOneResponse "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"
    $ \target ->
      withServer ["proxy", target, "--port", "0"] $ \server ->
        curl ["-i", serverUrl server] >>= (`shouldSatisfy` (" 502 " `isInfixOf`))
  it "wants targets that are some" $ do
    none <- runMillrace [] ["proxy", "--port", "0"]
    outcomeExit none `shouldBe` ExitFailure 2
    wrong <- runMillrace [] ["proxy", "http://localhost/app", "--port", "0"]
    outcomeExit wrong `shouldBe` ExitFailure 1
    outcomeErrors wrong
      `shouldSatisfy` ("cannot pass requests on to 'http://localhost/app': a target has no path" `isInfixOf`)
    authorities <- runMillrace [] ["proxy", "3000", "--port", "0", "--target-authorities", "/nowhere"]
    outcomeExit authorities `shouldBe` ExitFailure 1
    outcomeErrors authorities `shouldSatisfy` ("/nowhere" `isInfixOf`)
