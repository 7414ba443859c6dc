{-# LANGUAGE OverloadedStrings #-}

-- | What a server has done, as JSON and for Prometheus.
module Millrace.Cli.MetricsSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Monad (forM_, replicateM, replicateM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Millrace.Cli.Metrics
import Millrace.Cli.Tally
import Network.HTTP.Types
import Network.Socket (SockAddr (..))
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), InvalidRequest (..))
import Network.Wai.Internal (ResponseReceived (..))
import Test.Hspec

spec :: Spec
spec = do
  describe "a tally" $
    it "loses nothing when several threads add" $ do
      tally <- newTally 3
      ends <- replicateM 4 newEmptyMVar
      forM_ ends $ \end -> forkIO (replicateM_ 50000 (add tally 1 1 >> add tally 2 (-2)) >> putMVar end ())
      mapM_ takeMVar ends
      amounts tally `shouldReturn` [0, 200000, -400000]

  describe "metrics" $ do
    it "count requests by status, their bytes and their time" $ do
      metrics <- newMetrics
      forM_ [status200, status200, status404, status500] $ \status -> countAnswer metrics answer {answerStatus = status}
      countAnswer metrics answer {answerStatus = status304, answerBytes = Nothing, answerNanoseconds = 1100000000}
      replicateM_ 2 (countAnswer metrics answer {answerRefusal = Just PayloadTooLarge, answerStatus = status413})
      page <- pageOf metrics "/metrics"
      mapM_
        (page `hasLine`)
        [ "millrace_requests_total{status=\"2xx\"} 2",
          "millrace_requests_total{status=\"3xx\"} 1",
          "millrace_requests_total{status=\"4xx\"} 1",
          "millrace_requests_total{status=\"5xx\"} 1",
          "millrace_requests_refused_total 2",
          "millrace_response_body_bytes_total 40",
          "millrace_request_duration_seconds_bucket{le=\"1.0\"} 4",
          "millrace_request_duration_seconds_bucket{le=\"+Inf\"} 5",
          "millrace_request_duration_seconds_count 5",
          "# TYPE millrace_request_duration_seconds histogram"
        ]
    it "count connections by state" $ do
      metrics <- newMetrics
      replicateM_ 5 (countOpened metrics)
      replicateM_ 2 (countClosed metrics)
      during <- newIORef ""
      serve metrics (\_ respond -> pageOf metrics "/metrics" >>= writeIORef during >> respond (responseLBS status200 [] ""))
      inside <- readIORef during
      mapM_ (inside `hasLine`) ["millrace_connections_accepted_total 5", "millrace_connections{state=\"active\"} 1", "millrace_connections{state=\"idle\"} 2"]
      later <- pageOf metrics "/metrics"
      mapM_ (later `hasLine`) ["millrace_connections{state=\"active\"} 0", "millrace_connections{state=\"idle\"} 3"]
    it "are well-formed" $ do
      page <- newMetrics >>= (`pageOf` "/metrics")
      forM_ (Char8.lines page) $ \line -> (line, isSample line || "# HELP " `ByteString.isPrefixOf` line || "# TYPE " `ByteString.isPrefixOf` line) `shouldSatisfy` snd
      page `shouldSatisfy` ByteString.isInfixOf "\nmillrace_loop_operations_total "
    it "are a record in JSON" $ do
      metrics <- newMetrics
      countOpened metrics
      page <- pageOf metrics "/status"
      forM_ ["\"open\": 1", "\"idle\": 1", "\"total\": 0", "\"2xx\": 0", "\"system_calls\": "] $ \text -> page `shouldSatisfy` ByteString.isInfixOf text
  where
    answer = Answer (SockAddrUnix "") (Just defaultRequest) Nothing "" status200 (Just 10) False 50000
    hasLine page line = Char8.lines page `shouldContain` [line]
    isSample line = case Char8.words line of
      [name, value] -> "millrace_" `ByteString.isPrefixOf` name && Char8.all (`elem` ("0123456789.e-" :: String)) value
      _ -> False

serve :: Metrics -> Application -> IO ()
serve metrics application = void (countActive metrics application defaultRequest (const (pure ResponseReceived)))

pageOf :: Metrics -> ByteString -> IO ByteString
pageOf metrics path = do
  page <- newIORef ""
  _ <- statusPages metrics defaultRequest {rawPathInfo = path} $ \response -> do
    let (_, _, withBody) = responseToStream response
    withBody (\body -> body (\piece -> modifyIORef page (<> Lazy.toStrict (toLazyByteString piece))) (pure ()))
    pure ResponseReceived
  readIORef page
