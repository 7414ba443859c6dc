-- | The examples of millrace-http's tests that hold for every carrier, over HTTP\/3.
module Main (main) where

import Carrier (withGateway)
import Data.List (isInfixOf)
import Examples (LeftOut (..), runExamples)
import qualified Http2BodySpec
import qualified Http2ConnectSpec
import qualified Http2ConnectionSpec
import qualified Http2FieldSpec
import qualified Http2LimitSpec
import qualified Http2PrioritySpec
import qualified Http2RefusalSpec
import qualified Http2Spec
import qualified Http2TargetSpec
import qualified MultiplexedExamples
import SpeakingHttp2 (speakingHttp2)
import Support (Speech (..), speaking)
import System.Directory (findExecutable)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Hspec (Spec, around_, describe)

main :: IO ()
main = do
  able <- hasAioquic
  if able
    then withGateway (runExamples notOverHttp3 specs)
    else putStrLn "nothing was tested: aioquic is missing"

notOverHttp3 :: [LeftOut]
notOverHttp3 =
  [ LeftOut (const True) leftOut,
    LeftOut isOfHttp2 ofFrames,
    LeftOut (not . isOfHttp2) MultiplexedExamples.leftOut
  ]
  where
    isOfHttp2 = any ("HTTP/2" `isInfixOf`)

hasAioquic :: IO Bool
hasAioquic =
  findExecutable "python3"
    >>= maybe
      (return False)
      (\python -> (\(code, _, _) -> code == ExitSuccess) <$> readProcessWithExitCode python ["-c", "import aioquic"] "")

-- Examples that do not hold over HTTP/3, by a part of their names.
leftOut :: [String]
leftOut =
  [ "over memory", -- they use no connection
    "has the reason phrase that was sent", -- one of them is for a connection without protection
    -- They start other servers.
    "an asynchronous exception that is bottom",
    -- One thread serves all connections. Who throws to it ends the server.
    "does not come between what onOpen does and its end",
    -- Connections do not give way: clients that are too many come by TCP.
    "setMaximumConnections"
  ]

-- The examples of HTTP/2 that speak of its frames, or of what HTTP/3 does otherwise, by a part of their names.
ofFrames :: [String]
ofFrames =
  [ "is what a connection speaks that begins with its preface",
    "is not what a connection speaks that begins like the preface",
    "must be recognised within the time of a head",
    "alone refuses HTTP/1",
    "closes without an answer of HTTP/1",
    -- Windows: heads count for them in HTTP/3, and a client that is answered early is asked to stop. The tests in
    -- memory have both, and priorities.
    "what its window permits",
    "while its client sends more than that",
    "has filled the stream's window",
    "waits for nothing: with trailers",
    "ends an empty answer while the client's window is closed",
    "time to read the answer, before the stream is reset",
    "takes some two megabytes", -- eight over HTTP/3
    "sends what is more urgent first",
    "sends what is as urgent one after the other",
    "sends in another order",
    -- The end of a connection, or of one side of it. HTTP/3 has its own, and it has no sides.
    "setMaximumRequests",
    "has ended its side",
    "its client sends something all the time",
    "has ended a handler's thread",
    "in an orderly way",
    -- What makes work and brings nothing: packets count, not frames.
    "frames without use",
    "useless-frames",
    "tell of each connection that they end",
    "a window that grows by 0",
    "DATA behind RST_STREAM",
    "may be followed by what was on its way to be sent",
    -- QUIC itself keeps a client within the number of streams.
    "are not those that a client forgets",
    "are refused beyond the limit",
    "trailers that do not end the stream",
    "a padded body",
    -- libnghttp3 refuses these.
    "drops a length in trailers",
    "a name that is longer than those of HTTP/1 can be"
  ]

specs :: Spec
specs = do
  around_ (speaking (Speech speakingHttp2)) MultiplexedExamples.examples
  -- This client speaks HTTP/2 by itself.
  describe "many requests at a time" $ do
    Http2Spec.spec
    Http2BodySpec.spec
    Http2FieldSpec.spec
    Http2ConnectSpec.spec
    Http2PrioritySpec.spec
    Http2ConnectionSpec.spec
  describe "limits" Http2LimitSpec.spec
  Http2RefusalSpec.spec
  Http2TargetSpec.spec
