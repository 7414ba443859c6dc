{-# LANGUAGE OverloadedStrings #-}

-- | Counts what a server has done, and shows it as a JSON record and in the text format of Prometheus. Must not know: files.
module Millrace.Cli.Metrics
  ( Metrics,
    newMetrics,
    countOpened,
    countClosed,
    countAnswer,
    countActive,
    HandshakeResult (..),
    countHandshake,
    statusPages,
  )
where

import Control.Exception (finally)
import Data.ByteString.Builder
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Millrace.Cli.Json (Json (..), renderJson)
import Millrace.Cli.Refusal (refusal)
import Millrace.Cli.Tally
import Millrace.Manager
import Network.HTTP.Types
import Network.HTTP.Types.Header (hAllow)
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..))

-- | Counters of one server. Adding to them takes no lock.
--
-- @since 0.1.0
data Metrics = Metrics
  { metricsStart :: Word64,
    metricsTally :: Tally
  }

-- The indices of the numbers. The five classes of status begin at 'firstClass', the results of handshakes at 'firstHandshake', the
-- buckets of the histogram at 'firstBucket'.
opened, closed, active, refused, bodyBytes, nanoseconds, firstClass, firstHandshake, firstBucket :: Int
opened = 0
closed = 1
active = 2
refused = 3
bodyBytes = 4
nanoseconds = 5
firstClass = 6
firstHandshake = 11
firstBucket = 11 + length handshakeResults

-- The upper ends of the buckets in microseconds. One more bucket has no upper end.
bucketMicros :: [Word64]
bucketMicros = [100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000]

-- | The counters of a server that has done nothing yet.
--
-- @since 0.1.0
newMetrics :: IO Metrics
newMetrics = Metrics <$> getMonotonicTimeNSec <*> newTally (firstBucket + length bucketMicros + 1)

-- | Counts a connection that was accepted.
--
-- @since 0.1.0
countOpened :: Metrics -> IO ()
countOpened metrics = add (metricsTally metrics) opened 1

-- | Counts a connection that has ended.
--
-- @since 0.1.0
countClosed :: Metrics -> IO ()
countClosed metrics = add (metricsTally metrics) closed 1

-- | Counts an answer. A request that was refused before the application saw it counts only as refused.
--
-- @since 0.1.0
countAnswer :: Metrics -> Answer -> IO ()
countAnswer metrics answer
  | isJust (answerRefusal answer) = add tally refused 1
  | otherwise = do
    add tally bodyBytes (fromMaybe 0 (answerBytes answer))
    add tally nanoseconds (fromIntegral (answerNanoseconds answer))
    add tally (firstClass + min 4 (max 0 (statusCode (answerStatus answer) `div` 100 - 1))) 1
    add tally (firstBucket + bucketOf (answerNanoseconds answer)) 1
  where
    tally = metricsTally metrics

-- | How a handshake of TLS ended.
--
-- @since 0.1.0
data HandshakeResult
  = FullHandshake
  | -- | An earlier session was resumed.
    Resumption
  | RefusedHandshake
  | -- | It was not done in time.
    SlowHandshake
  | -- | The connection failed.
    LostHandshake
  deriving (Eq, Show, Enum, Bounded)

handshakeResults :: [(HandshakeResult, String)]
handshakeResults = zip [minBound ..] ["full", "resumed", "refused", "slow", "lost"]

-- | Counts a handshake that has ended.
--
-- @since 0.1.0
countHandshake :: Metrics -> HandshakeResult -> IO ()
countHandshake metrics result = add (metricsTally metrics) (firstHandshake + fromEnum result) 1

-- | Counts the requests on which an application is working.
--
-- @since 0.1.0
countActive :: Metrics -> Middleware
countActive metrics application request respond = do
  add tally active 1
  application request respond `finally` add tally active (-1)
  where
    tally = metricsTally metrics

bucketOf :: Word64 -> Int
bucketOf duration = length (takeWhile (\micros -> duration > 1000 * micros) bucketMicros)

-- | Answers @\/metrics@ with the text format of Prometheus and @\/status@ with a JSON record.
--
-- @since 0.1.0
statusPages :: Metrics -> Application
statusPages metrics request respond
  | requestMethod request `notElem` [methodGet, methodHead] = respond (refusal methodNotAllowed405 [(hAllow, "GET, HEAD")])
  | otherwise = case rawPathInfo request of
    "/metrics" -> page "text/plain; version=0.0.4; charset=utf-8" . prometheus =<< readFigures metrics
    "/status" -> page "application/json" . (<> "\n") . string7 . renderJson . record =<< readFigures metrics
    _ -> respond (refusal notFound404 [])
  where
    page contentType = respond . responseBuilder ok200 [(hContentType, contentType)]

-- The numbers at one moment.
data Figures = Figures
  { uptimeSeconds :: Double,
    figureOf :: Int -> Int,
    classes :: [(String, Int)],
    handshakes :: [(String, Int)],
    buckets :: [Int],
    loops :: Int,
    backend :: String,
    loopCounters :: Counters
  }

readFigures :: Metrics -> IO Figures
readFigures metrics = do
  now <- getMonotonicTimeNSec
  numbers <- amounts (metricsTally metrics)
  Figures
    (fromIntegral (now - metricsStart metrics) / 1e9)
    (numbers !!)
    (zip ["1xx", "2xx", "3xx", "4xx", "5xx"] (drop firstClass numbers))
    (zip (map snd handshakeResults) (drop firstHandshake numbers))
    (drop firstBucket numbers)
    <$> loopCount
    <*> (backendName <$> chosenBackend)
    <*> counters

openNow, idleNow, requestsDone :: Figures -> Int
openNow figures = max 0 (figureOf figures opened - figureOf figures closed)
idleNow figures = max 0 (openNow figures - figureOf figures active)
requestsDone = sum . map snd . classes

loopFigures :: Figures -> [(String, String, Word64)]
loopFigures figures =
  [ ("operations", "Operations submitted, timeouts included", operations from),
    ("completions", "Operations that ended", completions from),
    ("parks", "Operations that could not be done at once", parks from),
    ("system_calls", "System calls made by the loops", systemCalls from),
    ("waits", "Times that a loop went to sleep", waits from),
    ("wake_ups", "Times that a sleeping loop was woken", wakeUps from),
    ("resubmissions", "Operations begun again", resubmissions from)
  ]
  where
    from = loopCounters figures

record :: Figures -> Json
record figures =
  Object
    [ ("version", String version),
      ("backend", String (backend figures)),
      ("uptime_seconds", Number (floor (uptimeSeconds figures))),
      ( "connections",
        Object
          [ ("accepted", number (figureOf figures opened)),
            ("open", number (openNow figures)),
            ("active", number (figureOf figures active)),
            ("idle", number (idleNow figures))
          ]
      ),
      ( "requests",
        Object
          ( ("total", number (requestsDone figures)) :
            ("refused", number (figureOf figures refused)) :
              [(name, number count) | (name, count) <- classes figures]
          )
      ),
      ("tls_handshakes", Object [(name, number count) | (name, count) <- handshakes figures]),
      ("body_bytes", number (figureOf figures bodyBytes)),
      ( "loops",
        Object
          ( ("count", number (loops figures)) :
            ("in_flight", Number (toInteger (inFlight (loopCounters figures)))) :
              [(name, Number (toInteger count)) | (name, _, count) <- loopFigures figures]
          )
      )
    ]
  where
    number = Number . toInteger

prometheus :: Figures -> Builder
prometheus figures =
  mconcat $
    [ metric "uptime_seconds" "gauge" "Seconds since the start" [("", doubleDec (uptimeSeconds figures))],
      metric "connections_accepted_total" "counter" "Connections accepted" [("", int opened)],
      metric
        "connections"
        "gauge"
        "Open connections"
        [("{state=\"active\"}", int active), ("{state=\"idle\"}", intDec (idleNow figures))],
      metric "requests_total" "counter" "Requests answered by the application, by class of status" $
        [("{status=\"" <> string7 name <> "\"}", intDec count) | (name, count) <- classes figures],
      metric "requests_refused_total" "counter" "Requests refused as malformed or too slow" [("", int refused)],
      metric "tls_handshakes_total" "counter" "Handshakes of TLS, by how they ended" $
        [("{result=\"" <> string7 name <> "\"}", intDec count) | (name, count) <- handshakes figures],
      metric "response_body_bytes_total" "counter" "Bytes of response bodies" [("", int bodyBytes)],
      histogram,
      metric "loops" "gauge" "Loops" [("", intDec (loops figures))],
      metric "loop_operations_in_flight" "gauge" "Operations pending" [("", word64Dec (inFlight (loopCounters figures)))]
    ]
      ++ map ofLoops (loopFigures figures)
  where
    ofLoops (name, help, count) = metric ("loop_" <> string7 name <> "_total") "counter" (string7 help) [("", word64Dec count)]
    int = intDec . figureOf figures
    histogram =
      metric "request_duration_seconds" "histogram" "From the head of a request to the end of its response" $
        [("_bucket{le=\"" <> end <> "\"}", intDec count) | (end, count) <- zip ends (scanl1 (+) (buckets figures))]
          ++ [("_sum", doubleDec (fromIntegral (figureOf figures nanoseconds) / 1e9)), ("_count", intDec (sum (buckets figures)))]
    ends = map seconds bucketMicros ++ ["+Inf"]
    seconds micros = doubleDec (fromIntegral micros / 1e6)

-- A metric with its samples: the suffix of its name, and the value.
metric :: Builder -> Builder -> Builder -> [(Builder, Builder)] -> Builder
metric name kind help samples =
  "# HELP millrace_" <> name <> char7 ' ' <> help <> "\n# TYPE millrace_" <> name <> char7 ' ' <> kind <> char7 '\n'
    <> foldMap (\(suffix, value) -> "millrace_" <> name <> suffix <> char7 ' ' <> value <> char7 '\n') samples
