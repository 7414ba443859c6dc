{-# LANGUAGE OverloadedStrings #-}

-- | The middleware of wai-extra, on Millrace.
module MiddlewareSpec (spec) where

import Clients
import Control.Concurrent (newEmptyMVar, putMVar, takeMVar, threadDelay)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.Maybe (fromMaybe, listToMaybe)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.EventSource (ServerEvent (..), eventSourceAppIO)
import Network.Wai.Middleware.Autohead (autohead)
import Network.Wai.Middleware.Gzip (gzip)
import Network.Wai.Middleware.HttpAuth (basicAuth)
import Network.Wai.Middleware.RequestLogger
  ( Destination (..),
    OutputFormat (..),
    defaultRequestLoggerSettings,
    mkRequestLogger,
    outputFormat,
  )
import qualified Network.Wai.Middleware.RequestLogger as Logger
import Network.Wai.Middleware.RequestSizeLimit
  ( defaultRequestSizeLimitSettings,
    requestSizeLimitMiddleware,
    setMaxLengthForRequest,
  )
import Network.Wai.Middleware.Timeout (timeout)
import Network.Wai.Parse (lbsBackEnd, parseRequestBody)
import Releases
import System.Log.FastLogger (fromLogStr)
import Test.Hspec

spec :: Spec
spec = describe "wai-extra" $ do
  it "gzip compresses, and curl unpacks" $
    serving (return (gzip gzipDefaults text)) $ \address -> do
      curl ["--compressed", address] `shouldReturn` replicate 100000 'x'
      compressed <- curl ["-H", "Accept-Encoding: gzip", "-o", "/dev/null", "-w", "%{size_download}", address]
      (read compressed :: Int) `shouldSatisfy` (< 5000)
  it "autohead answers HEAD" $
    serving (return (autohead text)) $ \address ->
      curl ["-I", "-o", "/dev/null", "-w", "%{http_code}", address] `shouldReturn` "200"
  it "basicAuth refuses without a password and accepts the right one" $
    serving (return (basicAuth (\user key -> return (user == "u" && key == "p")) "realm" text)) $ \address -> do
      get address >>= (`shouldBe` 401) . fst
      curl ["-u", "u:p", "-o", "/dev/null", "-w", "%{http_code}", address] `shouldReturn` "200"
  it "timeout interrupts, and the connection continues" $
    serving (return (timeout 1 slow)) $ \address ->
      curl ["-o", "/dev/null", "-w", "%{http_code} ", address ++ "/slow", "-o", "/dev/null", address ++ "/fast"]
        `shouldReturn` "503 200 "
  it "requestSizeLimit refuses with a 413" $ do
    let limit =
          requestSizeLimitMiddleware
            (setMaxLengthForRequest (const (return (Just 1000))) defaultRequestSizeLimitSettings)
    serving (return (limit echo)) $ \address -> do
      post address "text/plain" (L.replicate 1000 0x61) `shouldReturn` (200, L.replicate 1000 0x61)
      post address "text/plain" (L.replicate 1001 0x61) >>= (`shouldBe` 413) . fst
      curl
        ["-o", "/dev/null", "-w", "%{http_code}", "-H", "Transfer-Encoding: chunked", "-d", replicate 5000 'x', address]
        `shouldReturn` "413"
  it "parseRequestBody reads forms with files" $
    serving (return form) $ \address ->
      curl ["-F", "field=value", "-F", "file=@-;filename=name", address] `shouldReturn` "1 1"
  it "the request logger logs" $ do
    logged <- newEmptyMVar
    logger <-
      mkRequestLogger
        defaultRequestLoggerSettings
          { outputFormat =
              Apache Logger.FromSocket,
            Logger.destination = Callback (putMVar logged . fromLogStr),
            Logger.autoFlush = True
          }
    serving (return (logger text)) $ \address -> do
      _ <- get (address ++ "/path")
      -- It logs after the response has been sent.
      takeMVar logged >>= (`shouldSatisfy` B.isInfixOf "\"GET /path HTTP/1.1\" 200")
  it "event sources stream, one event after the other" $ do
    left <- newIORef [ServerEvent Nothing Nothing ["one"], ServerEvent Nothing Nothing ["two"], CloseEvent]
    serving
      ( return
          ( eventSourceAppIO
              (atomicModifyIORef left (\events -> (drop 1 events, fromMaybe CloseEvent (listToMaybe events))))
          )
      )
      $ \address ->
        curl ["-N", address] `shouldReturn` "data:one\n\ndata:two\n\n"
  where
    text _ respond = respond (responseLBS status200 [(hContentType, "text/plain")] (L.replicate 100000 0x78))
    echo request respond = strictRequestBody request >>= respond . responseLBS status200 []
    slow request respond
      | rawPathInfo request == "/slow" = threadDelay 10000000 >> text request respond
      | otherwise = text request respond
    form request respond = do
      (fields, files) <- parseRequestBody lbsBackEnd request
      respond (responseLBS status200 [] (L.intercalate " " (map (L.fromStrict . number) [length fields, length files])))
    number count = B.pack [fromIntegral (0x30 + count)]
