{-# LANGUAGE OverloadedStrings #-}

-- | Real clients: http-client and curl.
module ClientSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Network.HTTP.Client hiding (port)
import qualified Network.HTTP.Types as HTTP
import Network.Wai (responseLBS)
import Support
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Hspec

spec :: Spec
spec = do
  describe "http-client" $ do
    it "sends and receives bodies of all sizes over kept connections" $
      withServer id echo $ \port -> do
        manager <- newManager defaultManagerSettings
        request <- parseRequest ("http://127.0.0.1:" ++ show port ++ "/path?query")
        forM_ [0, 1, 1000, 16384, 100000, 1000000] $ \size -> do
          let body = L.fromStrict (B.take size (B.concat (replicate (size `div` 251 + 1) (B.pack [0 .. 250]))))
          response <- httpLbs request {method = "POST", requestBody = RequestBodyLBS body} manager
          responseBody response == body `shouldBe` True
          chunked <- httpLbs request {method = "POST", requestBody = RequestBodyStreamChunked (streamOf body)} manager
          responseBody chunked == body `shouldBe` True
    it "asks with HEAD" $
      withServer id pong $ \port -> do
        manager <- newManager defaultManagerSettings
        request <- parseRequest ("http://127.0.0.1:" ++ show port ++ "/")
        forM_ [1 .. 5 :: Int] $ \_ -> do
          response <- httpLbs request {method = "HEAD"} manager
          (responseStatus response, responseBody response) `shouldBe` (HTTP.status200, "")
          full <- httpLbs request manager
          responseBody full `shouldBe` "Pong"

  describe "curl" $ do
    forM_ [[], ["--http1.0"], ["--http1.0", "-H", "Connection: keep-alive"]] $ \options ->
      it (unwords ("gets" : options)) $
        withServer id pong $ \port -> do
          (code, output, _) <- curl (options ++ [url port, url port])
          (code, output) `shouldBe` (ExitSuccess, "PongPong")
    it "uploads with 100 (Continue)" $
      withServer id echo $ \port -> do
        (code, output, _) <-
          curl
            [ "-H",
              "Expect: 100-continue",
              "-H",
              "Transfer-Encoding: chunked",
              "--data-binary",
              replicate 5000 'x',
              url port
            ]
        (code, output) `shouldBe` (ExitSuccess, replicate 5000 'x')
    it "sees the response to an upload that was not read" $
      withServer id (\_ respond -> respond (responseLBS HTTP.status403 [] "no")) $ \port -> do
        (code, output, _) <- curl ["-H", "Expect:", "--data-binary", replicate 100000 'x', url port]
        (code, output) `shouldBe` (ExitSuccess, "no")
  where
    url port = "http://127.0.0.1:" ++ show port ++ "/"
    curl arguments =
      within "curl" (readProcessWithExitCode "curl" (["-sS", "--max-time", "8", "--noproxy", "*"] ++ arguments) "")
    streamOf body needs = do
      left <- newIORef (L.toChunks body)
      needs (atomicModifyIORef' left (\chunks -> (drop 1 chunks, B.concat (take 1 chunks))))
