{-# LANGUAGE OverloadedStrings #-}

-- | Hostile clients of HTTP/2: requests and heads. One test for each published attack.
module Http2AttackSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_, when)
import qualified Data.ByteString as B
import Data.Word (Word32)
import Http2Attack
import Http2Client
import Test.Hspec

spec :: Spec
spec = describe "hostile clients of HTTP/2" . aroundAll withServers $ do
  describe "requests that are not wanted" $ do
    it "rapid reset (CVE-2023-44487)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrames http2 [requestOf number "/slow" [EndStream], resetFrame (streamOf number) Cancel]
    it "rapid reset of requests with bodies (CVE-2023-44487)" . survives . costing 0.15 . attack $ \http2 number ->
      sendFrames
        http2
        [requestOf number "/read" [], dataFrame (streamOf number) [] "x", resetFrame (streamOf number) Cancel]
    forM_ madeResets $ \(how, provoke) ->
      it ("resets that the server is made to send (CVE-2025-8671): " ++ how) . survives . costing 0.2 . attack $
        \http2 number ->
          sendFrames http2 (requestOf number "/slow" [EndStream] : provoke (streamOf number))
    it "malformed requests, each of which is reset (CVE-2019-9514)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrame
        http2
        (headersFrame (streamOf number) [EndHeaders, EndStream] (literals (get "/" ++ [("Upper", "case")])))
    it "more streams than are allowed, each of which is refused" . survives . costing 0.15 . attack $ \http2 number ->
      sendFrame http2 (requestOf number "/read" [])
    it "streams that are opened and never used" . survives . costing 4.5 $
      (attack (\_ _ -> threadDelay 100000))
        { attackConnections = 20,
          attackSeconds = 3.5,
          attackBegin = \http2 -> sendFrames http2 [requestOf number "/read" [] | number <- [0 .. 99]]
        }

  describe "header blocks" $ do
    it "CONTINUATION without end (CVE-2024-27316)" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrame http2 (continuationFrame 1 [] (literals (replicate 100 ("x", "y"))))))
        { attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "empty CONTINUATION without end (CVE-2024-28182)" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 10 (continuationFrame 1 [] ""))))
        { attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "CONTINUATION of a stream that was never opened" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrame http2 (continuationFrame 1 [] (literals [("x", "y")]))
    it "a header bomb by references (CVE-2016-6581)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 15000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame
                http2
                (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", B.replicate 4000 0x79)))
        }
    it "a header bomb by references to nearly empty fields (CVE-2026-49975)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 16000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", "")))
        }
    it "such bombs below the limit on many streams, with a window of nothing" . survives . costing 0.4 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/big") <> B.concat (replicate 100 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", ""))),
          attackSettings = [(InitialWindowSize, 0)]
        }
    it "cookie crumbs (CVE-2026-47774)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 16000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("cookie", "")))
        }
    it "large cookie crumbs between other fields, on streams that wait" . survives . costing 0.2 $
      ( attack $ \http2 number ->
          when (number < 100) . sendFrame http2 . headersFrame (streamOf (number + 1)) [EndHeaders, EndStream] $
            literals (get "/slow")
              <> B.concat (replicate 40 (indexed 63 <> indexed 62))
              <> B.concat (replicate 9 (indexed 63))
      )
        { attackBegin =
            \http2 ->
              sendFrame
                http2
                ( headersFrame
                    1
                    [EndHeaders, EndStream]
                    (literals (get "/") <> remembered ("cookie", B.replicate 900 0x79) <> remembered ("x", ""))
                ),
          attackFate = MayGoOn
        }
    it "fields without names (CVE-2019-9516)" . survives . costing 0.25 . attack $ \http2 number ->
      sendFrame
        http2
        ( headersFrame
            (streamOf number)
            [EndHeaders, EndStream]
            (literals (get "/") <> B.concat (replicate 100 "\0\0\0"))
        )
    it "sizes of the dynamic table that change all the time" . survives . costing 2.5 $
      ( attack $ \http2 number ->
          sendFrame
            http2
            ( headersFrame
                (streamOf number)
                [EndHeaders, EndStream]
                (B.concat (replicate 8000 (tableSize 0)) <> literals (get "/"))
            )
      )
        { attackFate = MayGoOn
        }
    it "an integer without end" . survives . costing 0.2 . attack $ \http2 number ->
      sendFrame http2 (headersFrame (streamOf number) [EndHeaders, EndStream] (B.cons 0xff (B.replicate 100 0xff)))

-- Makes a server reset a stream whose request is complete.
madeResets :: [(String, Word32 -> [Frame])]
madeResets =
  [ ("a window that grows by nothing", \stream -> [windowUpdate stream 0]),
    ("a window beyond 2^31", \stream -> [windowUpdate stream 0x7fffffff]),
    ("DATA after the end", \stream -> [dataFrame stream [] "x"]),
    ("HEADERS after the end", \stream -> [headersFrame stream [EndHeaders, EndStream] (literals [("x", "y")])]),
    ("a stream that depends on itself", \stream -> [priorityFrame stream stream 7]),
    ("PRIORITY of a wrong size", \stream -> [(priorityFrame stream 0 7) {framePayload = "1234"}])
  ]
