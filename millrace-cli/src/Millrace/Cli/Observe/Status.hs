{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files.

-- | Shows what a server has done: on a page that draws it live, as a JSON record, and in the text format of Prometheus,
-- all with the same figures.
module Millrace.Cli.Observe.Status
  ( statusPages,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.CaseInsensitive as CI
import Data.Char (isDigit)
import Data.Maybe (maybeToList)
import Data.Word (Word64)
import Millrace.Cli.Base.HostField (nameOfHost)
import Millrace.Cli.Base.Json (Json (..), renderJson)
import Millrace.Cli.Base.Page (statusPage)
import Millrace.Cli.Base.Refusal (noSniffing, refusal)
import Millrace.Cli.Observe.Histogram
import Millrace.Cli.Observe.Metrics
import Millrace.Cli.Observe.Upstream
import Millrace.Manager (Counters (..), version)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hAllow)
import Network.Wai
import Network.Wai.Handler.Millrace (ConnectionStates (..))

-- | Answers @\/@ with a page for people, @\/status@ with a JSON record and @\/metrics@ with the text format of
-- Prometheus. The action tells the targets of a proxy; without a proxy there are none.
statusPages :: Metrics -> IO [Upstream] -> Application
statusPages metrics upstreams request respond
  | not (maybe True isOfThisMachine (requestHeaderHost request)) = respond (refusal misdirected [])
  | requestMethod request `notElem` [methodGet, methodHead] =
    respond (refusal methodNotAllowed405 [(hAllow, "GET, HEAD")])
  | otherwise = case rawPathInfo request of
    "/" -> respond (responseBuilder ok200 (pageHeaders ++ [noSniffing]) (byteString statusPage))
    "/metrics" -> figures "text/plain; version=0.0.4; charset=utf-8" prometheus
    "/status" -> figures "application/json" (\now targets -> string7 (renderJson (record now targets)) <> char7 '\n')
    _ -> respond (refusal notFound404 [])
  where
    figures contentType render = do
      body <- render <$> readFigures metrics <*> upstreams
      respond (responseBuilder ok200 [(hContentType, contentType), (hCacheControl, "no-store"), noSniffing] body)
    pageHeaders =
      [ (hContentType, "text/html; charset=utf-8"),
        (hContentLength, Char8.pack (show (ByteString.length statusPage))),
        (hCacheControl, "no-cache"),
        ("Content-Security-Policy", policy)
      ]

-- Whether the Host field names this machine by an address or as localhost. Otherwise a page of the web, in a browser on
-- this machine, could read the figures by a name whose address changes to 127.0.0.1 (DNS rebinding).
isOfThisMachine :: ByteString -> Bool
isOfThisMachine host = maybe True isLocal (nameOfHost host)
  where
    isLocal name =
      CI.mk name == "localhost"
        || Char8.all (\letter -> isDigit letter || letter == '.') name
        || Char8.isPrefixOf "[" name

misdirected :: Status
misdirected = mkStatus 421 "Misdirected Request"

-- The page runs its own script, which asks this server. The hashes are those of the script and the style; a test
-- compares them.
policy :: ByteString
policy =
  "default-src 'none'; script-src 'sha256-VHidiWEgEKiiNThnhR6GYSPlmYqKhhajaX+yu3clhnA='; \
  \style-src 'sha256-zko/0ntqvkgYSSpjCG8cqdKA+YebYHVj1ccXvYsxh0g='; \
  \connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

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
    from = figureLoopCounters figures

healthWord :: UpstreamHealth -> String
healthWord health = case health of
  UpstreamWell -> "well"
  UpstreamChecksFailed -> "checks_failed"
  UpstreamRequestsFailed -> "requests_failed"

------------------------------------------------------------------------------------------------------------------------
-- JSON

record :: Figures -> [Upstream] -> Json
record figures upstreams =
  Object
    [ ("version", String version),
      ("backend", String (figureBackend figures)),
      ("uptime_seconds", Number (toInteger (figureUptime figures `quot` 1000000000))),
      ("uptime_milliseconds", Number (toInteger (figureUptime figures `quot` 1000000))),
      ("capabilities", number (figureCapabilities figures)),
      ( "connections",
        Object
          [ ("accepted", number (figureOpened figures)),
            ("open", number (openNow figures)),
            ("active", number (connectionsActive (figureStates figures))),
            ("idle", number (connectionsIdle (figureStates figures))),
            ("new", number (connectionsNew (figureStates figures))),
            ("ended_by_limit", Object [(name, number count) | (name, count) <- figureLimits figures])
          ]
      ),
      ( "requests",
        Object
          ( ("total", number (requestsDone figures)) :
            ("in_progress", number (figureActive figures)) :
            ("refused", number (figureRefused figures)) :
            ("cut_off", number (figureCutOff figures)) :
              [(name, number count) | (name, count) <- figureClasses figures]
          )
      ),
      ( "latency",
        Object
          ( [ (name, maybe Null (Number . toInteger) (percentile share (figureBuckets figures)))
              | (name, share) <-
                  percentiles
            ]
              ++ [ ("sum_microseconds", number (figureNanoseconds figures `quot` 1000)),
                   ("bucket_ends_microseconds", Array (map (Number . toInteger) bucketEnds)),
                   ("bucket_counts", Array (map number (figureBuckets figures)))
                 ]
          )
      ),
      ("tls_handshakes", Object [(name, number count) | (name, count) <- figureHandshakes figures]),
      ("body_bytes", number (figureBodyBytes figures)),
      ( "memory",
        Object
          [ ("resident_bytes", maybe Null number (figureResidentBytes figures)),
            ("heap_bytes", maybe Null number (figureHeapBytes figures))
          ]
      ),
      ( "loops",
        Object
          ( ("count", number (figureLoops figures)) :
            ("in_flight", Number (toInteger (inFlight (figureLoopCounters figures)))) :
              [(name, Number (toInteger count)) | (name, _, count) <- loopFigures figures]
          )
      ),
      ("upstreams", Array (map target upstreams))
    ]
  where
    number = Number . toInteger
    percentiles = [("p50_microseconds", 0.5), ("p90_microseconds", 0.9), ("p99_microseconds", 0.99)]
    target upstream =
      Object
        [ ("target", String (upstreamTarget upstream)),
          ("health", String (healthWord (upstreamHealth upstream))),
          ("requests", number (upstreamRequests upstream)),
          ("kept", number (upstreamKept upstream))
        ]

------------------------------------------------------------------------------------------------------------------------
-- Prometheus

prometheus :: Figures -> [Upstream] -> Builder
prometheus figures upstreams =
  mconcat $
    [ metric
        "build_info"
        "gauge"
        "Always 1; the version and the backend are its labels"
        [("{version=\"" <> label version <> "\",backend=\"" <> label (figureBackend figures) <> "\"}", intDec 1)],
      metric
        "uptime_seconds"
        "gauge"
        "Seconds since the start"
        [("", doubleDec (fromIntegral (figureUptime figures) / 1e9))],
      metric "connections_accepted_total" "counter" "Connections accepted" [("", int figureOpened)],
      metric "connections" "gauge" "Open connections by state" $
        [ ("{state=\"" <> name <> "\"}", int (state . figureStates))
          | (name, state) <- [("active", connectionsActive), ("idle", connectionsIdle), ("new", connectionsNew)]
        ],
      metric
        "connections_ended_by_limit_total"
        "counter"
        "Connections that ended because their clients went beyond a limit"
        $ [("{limit=\"" <> Char8.pack name <> "\"}", intDec count) | (name, count) <- figureLimits figures],
      metric "requests_in_progress" "gauge" "Requests on which the application is working" [("", int figureActive)],
      metric "requests_total" "counter" "Requests answered in whole by the application, by class of status" $
        [("{status=\"" <> Char8.pack name <> "\"}", intDec count) | (name, count) <- figureClasses figures],
      metric "requests_refused_total" "counter" "Requests refused as malformed or too slow" [("", int figureRefused)],
      metric
        "requests_cut_off_total"
        "counter"
        "Answers of the application that were cut off: the client left or was too slow, or the application failed"
        [("", int figureCutOff)],
      metric "tls_handshakes_total" "counter" "Handshakes of TLS, by how they ended" $
        [("{result=\"" <> Char8.pack name <> "\"}", intDec count) | (name, count) <- figureHandshakes figures],
      metric "response_body_bytes_total" "counter" "Bytes of response bodies" [("", int figureBodyBytes)],
      histogram,
      optional "resident_memory_bytes" "Memory of the process that is in use" figureResidentBytes,
      optional "heap_bytes" "Memory that GHC's run-time system holds" figureHeapBytes,
      metric "capabilities" "gauge" "Capabilities of GHC's run-time system" [("", int figureCapabilities)],
      metric "loops" "gauge" "Loops" [("", int figureLoops)],
      metric
        "loop_operations_in_flight"
        "gauge"
        "Operations pending"
        [("", word64Dec (inFlight (figureLoopCounters figures)))]
    ]
      ++ map ofLoops (loopFigures figures)
      ++ ofUpstreams
  where
    ofLoops (name, help, count) =
      metric ("loop_" <> Char8.pack name <> "_total") "counter" (Char8.pack help) [("", word64Dec count)]
    int figure = intDec (figure figures)
    optional name help figure =
      foldMap (\value -> metric name "gauge" help [("", intDec value)]) (maybeToList (figure figures))
    histogram =
      metric "request_duration_seconds" "histogram" "From the head of a request to the end of its response" $
        [ ("_bucket{le=\"" <> end <> "\"}", intDec count)
          | (end, count) <-
              zip ends (scanl1 (+) (figureBuckets figures))
        ]
          ++ [ ("_sum", doubleDec (fromIntegral (figureNanoseconds figures) / 1e9)),
               ("_count", intDec (sum (figureBuckets figures)))
             ]
    ends = map seconds bucketEnds ++ ["+Inf"]
    seconds micros = Char8.pack (show (fromIntegral micros / 1e6 :: Double))
    ofUpstreams
      | null upstreams = []
      | otherwise =
        [ metric "upstream_well" "gauge" "1 if a target gets requests, 0 if it is left out" $
            [ ("{target=\"" <> name <> "\"}", intDec (if upstreamHealth upstream == UpstreamWell then 1 else 0))
              | (name, upstream) <-
                  namedUpstreams
            ],
          ofEach "upstream_requests" "Requests on which a target works" upstreamRequests,
          ofEach "upstream_connections_kept" "Connections to a target that are kept and not in use" upstreamKept
        ]
    ofEach name help figure =
      metric
        name
        "gauge"
        help
        [("{target=\"" <> target <> "\"}", intDec (figure upstream)) | (target, upstream) <- namedUpstreams]
    namedUpstreams = [(label (upstreamTarget upstream), upstream) | upstream <- upstreams]

-- The value of a label.
label :: String -> ByteString
label = Lazy.toStrict . toLazyByteString . foldMap escaped
  where
    escaped character = case character of
      '\\' -> byteString "\\\\"
      '"' -> byteString "\\\""
      '\n' -> byteString "\\n"
      _ -> charUtf8 character

-- A metric with its samples: the suffix of its name, and the value.
metric :: ByteString -> ByteString -> ByteString -> [(ByteString, Builder)] -> Builder
metric name kind help samples =
  byteString (ByteString.concat ["# HELP millrace_", name, " ", help, "\n# TYPE millrace_", name, " ", kind, "\n"])
    <> foldMap
      (\(suffix, value) -> byteString (ByteString.concat ["millrace_", name, suffix, " "]) <> value <> char7 '\n')
      samples
