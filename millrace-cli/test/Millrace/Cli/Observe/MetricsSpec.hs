{-# LANGUAGE OverloadedStrings #-}

-- | What a server has done, as JSON and for Prometheus.
module Millrace.Cli.Observe.MetricsSpec (spec) where

import Control.Concurrent (forkIO, forkOn, getNumCapabilities, setNumCapabilities)
import Control.Concurrent.MVar
import Control.Exception (bracket_)
import Control.Monad (forM_, replicateM, replicateM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Millrace.Cli.Observe.Histogram
import Millrace.Cli.Observe.Metrics
import Millrace.Cli.Observe.PerCpuCounter
import Millrace.Cli.Observe.Status
import Millrace.Cli.Observe.Upstream
import Network.HTTP.Types
import Network.Socket (SockAddr (..))
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), InvalidRequest (..), RefusalReason (..), microseconds, milliseconds)
import Network.Wai.Internal (ResponseReceived (..))
import Program (python3)
import Test.Hspec

spec :: Spec
spec = do
  describe "a counter" $ do
    it "loses nothing when several threads add" $ do
      counter <- newPerCpuCounter 3
      ends <- replicateM 4 newEmptyMVar
      forM_ ends $ \end -> forkIO (replicateM_ 50000 (add counter 1 1 >> add counter 2 (-2)) >> putMVar end ())
      mapM_ takeMVar ends
      amounts counter `shouldReturn` [0, 200000, -400000]
    it "counts also on capabilities that come later" $ do
      had <- getNumCapabilities
      counter <- newPerCpuCounter 1
      bracket_ (setNumCapabilities (had + 2)) (setNumCapabilities had) $ do
        ends <- replicateM (had + 2) newEmptyMVar
        forM_ (zip [0 ..] ends) $ \(capability, end) ->
          forkOn capability (replicateM_ 1000 (add counter 0 1) >> putMVar end ())
        mapM_ takeMVar ends
      amounts counter `shouldReturn` [1000 * (had + 2)]

  describe "the histogram" $ do
    it "has each duration in the bucket whose end is the next" $ do
      let expected nanoseconds = length (takeWhile (\end -> nanoseconds > 1000 * end) bucketEnds)
      forM_ ([end * 1000 + offset - 1 | end <- bucketEnds, offset <- [0, 1, 2, 1000, 1001]] ++ [0, 1, maxBound]) $
        \nanoseconds ->
          (nanoseconds, bucketOf nanoseconds) `shouldBe` (nanoseconds, expected nanoseconds)
      length bucketEnds `shouldBe` bucketCount - 1
    it "knows percentiles as exactly as a bucket" $ do
      let counts durations =
            [length (filter ((== bucket) . bucketOf . (* 1000)) durations) | bucket <- [0 .. bucketCount - 1]]
          evenly = counts [1 .. 10000]
      forM_ [0.1, 0.5, 0.9, 0.99 :: Double] $ \share -> do
        fmap fromIntegral (percentile share evenly)
          `shouldSatisfy` maybe False (\micros -> micros > 10000 * share / 1.5 && micros < 10000 * share * 1.5)
      percentile 0.5 (counts []) `shouldBe` Nothing
      percentile 0 (counts [100]) `shouldBe` Just 96
      percentile 1 (counts [100]) `shouldBe` Just 128

  describe "the targets of proxies" $
    it "are there while their proxies run, each once" $ do
      upstreams <- newUpstreams
      let one = Upstream "http://a:1" UpstreamWell 1 2
          other = Upstream "http://b:1" UpstreamWell 3 4
      withUpstreams upstreams (pure [other, one]) $ do
        readUpstreams upstreams `shouldReturn` [one, other]
        withUpstreams upstreams (pure [Upstream "http://a:1" UpstreamChecksFailed 10 20]) $
          readUpstreams upstreams `shouldReturn` [Upstream "http://a:1" UpstreamChecksFailed 11 22, other]
        readUpstreams upstreams `shouldReturn` [one, other]
      readUpstreams upstreams `shouldReturn` []

  describe "metrics" $ do
    it "count requests by status, their bytes and their time" $ do
      metrics <- newMetrics
      forM_ [status200, status200, status404, status500] $ \status -> countAnswer metrics answer {answerStatus = status}
      countAnswer metrics answer {answerStatus = status304, answerBytes = Nothing, answerDuration = milliseconds 1100}
      replicateM_
        2
        (countAnswer metrics answer {answerRefusal = Just (RefusedAtOnce PayloadTooLarge), answerStatus = status413})
      countAnswer metrics answer {answerIsCutOff = True, answerBytes = Just 3}
      page <- pageOf metrics "/metrics"
      mapM_
        (page `hasLine`)
        [ "millrace_requests_total{status=\"2xx\"} 2",
          "millrace_requests_cut_off_total 1",
          "millrace_requests_total{status=\"3xx\"} 1",
          "millrace_requests_total{status=\"4xx\"} 1",
          "millrace_requests_total{status=\"5xx\"} 1",
          "millrace_requests_refused_total 2",
          "millrace_response_body_bytes_total 43",
          "millrace_request_duration_seconds_bucket{le=\"1.048576\"} 5",
          "millrace_request_duration_seconds_bucket{le=\"+Inf\"} 6",
          "millrace_request_duration_seconds_count 6",
          "# TYPE millrace_request_duration_seconds histogram"
        ]
    it "count open connections, and requests in progress, of which a connection may have many" $ do
      metrics <- newMetrics
      replicateM_ 5 (countOpened metrics)
      replicateM_ 2 (countClosed metrics)
      during <- newIORef ""
      let oneMore inner = serve metrics (\_ respond -> inner >> respond (responseLBS status200 [] ""))
      iterate oneMore (pageOf metrics "/metrics" >>= writeIORef during) !! 7
      inside <- readIORef during
      mapM_ (inside `hasLine`) ["millrace_connections_accepted_total 5", "millrace_requests_in_progress 7"]
      later <- pageOf metrics "/metrics"
      later `hasLine` "millrace_requests_in_progress 0"
    it "are well-formed" $ do
      page <- newMetrics >>= (`pageOf` "/metrics")
      forM_ (Char8.lines page) $ \line ->
        (line, isSample line || "# HELP " `ByteString.isPrefixOf` line || "# TYPE " `ByteString.isPrefixOf` line)
          `shouldSatisfy` snd
      page `shouldSatisfy` ByteString.isInfixOf "\nmillrace_loop_operations_total "
    it "are a record in JSON" $ do
      metrics <- newMetrics
      countOpened metrics
      page <- pageOf metrics "/status"
      forM_
        [ "\"open\": 1",
          "\"in_progress\": 0",
          "\"total\": 0",
          "\"2xx\": 0",
          "\"system_calls\": ",
          "\"p50_microseconds\": null",
          "\"upstreams\": []",
          "\"resident_bytes\": "
        ]
        $ \text ->
          page `shouldSatisfy` ByteString.isInfixOf text
    it "are the same in JSON and for Prometheus" $ do
      metrics <- newMetrics
      replicateM_ 5 (countOpened metrics)
      countClosed metrics
      forM_ [status200, status404, status500] $ \status -> countAnswer metrics answer {answerStatus = status}
      countAnswer metrics answer {answerRefusal = Just (RefusedAtOnce PayloadTooLarge)}
      countAnswer metrics answer {answerIsCutOff = True}
      countHandshake metrics Resumption
      json <- pageWith targets metrics "/status"
      text <- pageWith targets metrics "/metrics"
      mapM_
        (text `hasLine`)
        [ "millrace_upstream_well{target=\"http://a:1\"} 1",
          "millrace_upstream_well{target=\"unix:/\\\"\\\\\\n\"} 0",
          "millrace_upstream_requests{target=\"http://a:1\"} 3"
        ]
      compared <- python3 comparing (json <> "\0" <> text)
      compared `shouldBe` "the same\n"
    it "have a page that may load nothing but its own figures" $ do
      metrics <- newMetrics
      (headers, page) <- answerWith [] metrics "/"
      lookup hContentType headers `shouldBe` Just "text/html; charset=utf-8"
      digests <- python3 hashing page
      lookup "Content-Security-Policy" headers
        `shouldBe` Just
          ( Char8.pack
              ( filter
                  (/= '\n')
                  ( "default-src 'none'; "
                      <> digests
                      <> "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
                  )
              )
          )
      -- The one address is the name of SVG.
      length (filter ("http" `Char8.isPrefixOf`) (ByteString.tails page)) `shouldBe` 2
      forM_ ["url(", "@import", " style=\"", " onclick", "eval", "innerHTML"] $ \text ->
        page `shouldNotSatisfy` ByteString.isInfixOf text
  where
    targets = [Upstream "http://a:1" UpstreamWell 3 4, Upstream "unix:/\"\\\n" UpstreamChecksFailed 0 0]
    answer = Answer (SockAddrUnix "") (Just defaultRequest) Nothing "" status200 (Just 10) False (microseconds 50)
    hasLine page line = Char8.lines page `shouldContain` [line]
    isSample line = case Char8.words line of
      [name, value] -> "millrace_" `ByteString.isPrefixOf` name && Char8.all (`elem` ("0123456789.e-" :: String)) value
      _ -> False

serve :: Metrics -> Application -> IO ()
serve metrics application = void (countActive metrics application defaultRequest (const (pure ResponseReceived)))

pageOf :: Metrics -> ByteString -> IO ByteString
pageOf = pageWith []

pageWith :: [Upstream] -> Metrics -> ByteString -> IO ByteString
pageWith upstreams metrics path = snd <$> answerWith upstreams metrics path

answerWith :: [Upstream] -> Metrics -> ByteString -> IO (ResponseHeaders, ByteString)
answerWith upstreams metrics path = do
  answered <- newIORef ([], "")
  _ <- statusPages metrics (pure upstreams) defaultRequest {rawPathInfo = path} $ \response -> do
    let (_, headers, withBody) = responseToStream response
    writeIORef answered (headers, "")
    withBody
      (\body -> body (\piece -> modifyIORef answered (fmap (<> Lazy.toStrict (toLazyByteString piece)))) (pure ()))
    pure ResponseReceived
  readIORef answered

-- Compares each figure of the record with the one for Prometheus. Figures of loops and of memory change meanwhile.
comparing :: [String]
comparing =
  [ "import json, re, sys",
    "record, text = sys.stdin.read().split('\\0')",
    "record = json.loads(record)",
    "samples = dict(line.rsplit(' ', 1) for line in text.splitlines() if not line.startswith('#'))",
    "got = lambda name: float(samples.pop('millrace_' + name))",
    "wanted = {'connections_accepted_total': record['connections']['accepted'], ",
    "    'requests_in_progress': record['requests']['in_progress'], 'requests_refused_total': \
    \record['requests']['refused'], 'requests_cut_off_total': record['requests']['cut_off'],",
    "    'response_body_bytes_total': record['body_bytes'], 'capabilities': record['capabilities'], 'loops': \
    \record['loops']['count'],",
    "    'request_duration_seconds_sum': record['latency']['sum_microseconds'] / 1e6,",
    "    'build_info{version=\"%s\",backend=\"%s\"}' % (record['version'], record['backend']): 1}",
    "wanted.update(('connections{state=\"%s\"}' % name, record['connections'][name]) for name in ('active', \
    \'idle', 'new'))",
    "wanted.update(('requests_total{status=\"%s\"}' % name, record['requests'][name]) for name in ('1xx', '2xx', \
    \'3xx', '4xx', '5xx'))",
    "wanted.update(('connections_ended_by_limit_total{limit=\"%s\"}' % name, count) for name, count in \
    \record['connections']['ended_by_limit'].items())",
    "wanted.update(('tls_handshakes_total{result=\"%s\"}' % name, count) for name, count in \
    \record['tls_handshakes'].items())",
    "assert record['requests']['total'] == 4 and record['requests']['cut_off'] == 1, record['requests']",
    "before = 0",
    "for end, count in zip(record['latency']['bucket_ends_microseconds'] + [None], \
    \record['latency']['bucket_counts']):",
    "    before += count",
    "    found = [name for name in samples if 'bucket' in name and (end is None if '+Inf' in name else \
    \float(re.search('\"(.*)\"', name)[1]) * 1e6 == end)]",
    "    assert len(found) == 1, (end, found)",
    "    wanted[found[0][len('millrace_'):]] = before",
    "wanted['request_duration_seconds_count'] = before",
    "quoted = lambda target: target.replace('\\\\', '\\\\\\\\').replace('\"', '\\\\\"').replace('\\n', '\\\\n')",
    "for target in record['upstreams']:",
    "    wanted['upstream_well{target=\"%s\"}' % quoted(target['target'])] = int(target['health'] == 'well')",
    "    wanted['upstream_requests{target=\"%s\"}' % quoted(target['target'])] = target['requests']",
    "    wanted['upstream_connections_kept{target=\"%s\"}' % quoted(target['target'])] = target['kept']",
    "differences = [(name, value, samples.get('millrace_' + name)) for name, value in wanted.items() if \
    \got(name) != value]",
    "changing = ('millrace_uptime_seconds', 'millrace_resident_memory_bytes', 'millrace_heap_bytes', 'millrace_loop_')",
    "others = [name for name in samples if not name.startswith(changing)]",
    "print(differences or others or 'the same')"
  ]

hashing :: [String]
hashing =
  [ "import base64, hashlib, sys",
    "page = sys.stdin.buffer.read()",
    "for name in (b'script', b'style'):",
    "    text = page.split(b'<%s>' % name)[1].split(b'</%s>' % name)[0]",
    "    print(\"%s-src 'sha256-%s'; \" % (name.decode(), base64.b64encode(hashlib.sha256(text).digest()).decode()))"
  ]
