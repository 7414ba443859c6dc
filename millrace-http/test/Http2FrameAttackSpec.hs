{-# LANGUAGE OverloadedStrings #-}

-- | Hostile clients of HTTP/2: frames of no use, windows, and slowness. One test for each published attack.
module Http2FrameAttackSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Monad (forM_, forever, replicateM)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Http2Attack
import Http2Client
import ServerProcess
import Test.Hspec

spec :: Spec
spec = describe "hostile clients of HTTP/2" . aroundAll withServers $ do
  describe "frames of no use" $ do
    it "PING (CVE-2019-9512)" . survives . costing 0.15 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (pingFrame "12345678"))
    it "PING, and nothing is read (CVE-2019-9512)" . survives . costing 0.02 $
      deaf (\http2 _ -> sendFrames http2 (replicate 50 (pingFrame "12345678")))
    it "SETTINGS (CVE-2019-9515)" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (settingsFrame []))
    it "SETTINGS, and nothing is read (CVE-2019-9515)" . survives . costing 0.02 $
      deaf (\http2 _ -> sendFrames http2 (replicate 50 (settingsFrame [(InitialWindowSize, 1000)])))
    it "one large SETTINGS frame after the other (CVE-2020-11080)" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrame http2 (settingsFrame (replicate 2400 (HeaderTableSize, 4096)))
    it "acknowledgements of settings and pings that nobody sent" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (pingAck "12345678") ++ replicate 50 settingsAck)
    it "empty DATA (CVE-2019-9518)" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [] ""))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/read" [])
        }
    it "DATA of nothing but padding (CVE-2019-9518)" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [Padded] "\3\0\0\0"))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/read" [])
        }
    it "DATA byte by byte" . survives . costing 0.25 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [] "x"))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/read" []),
          attackFate = MayGoOn
        }
    it "priorities in a circle (CVE-2019-9513)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrames
        http2
        [priorityFrame (streamOf (number + index)) (streamOf (number + index + 1)) 7 | index <- [0 .. 49]]
    it "PRIORITY_UPDATE" . survives . costing 0.3 . attack $ \http2 number ->
      sendFrames http2 [priorityUpdate (streamOf (number + index)) "u=1" | index <- [0 .. 49]]
    it "WINDOW_UPDATE" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (windowUpdate 1 1))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/read" [])
        }
    it "resets of streams that are closed" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (resetFrame 1 Cancel))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/" [EndStream])
        }
    it "frames that nobody knows" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (Frame (OtherType 0xbe) 0 0 "")))) {attackFate = MayGoOn}

  describe "windows" $ do
    it "large answers, a byte at a time (CVE-2019-9511)" . survives . costing 0.25 $
      ( attack $ \http2 number ->
          sendFrames http2 [windowUpdate (streamOf ((number + index) `mod` 50)) 1 | index <- [0 .. 9]]
            >> sendFrame http2 (windowUpdate 0 10)
      )
        { attackSettings = [(InitialWindowSize, 0)],
          attackBegin = \http2 -> sendFrames http2 [requestOf number "/big" [EndStream] | number <- [0 .. 49]]
        }
    it "a window that is open, and nothing is read (CVE-2019-9517)" . survives . costing 2 $
      (deaf (\_ _ -> threadDelay 100000))
        { attackSettings = [(InitialWindowSize, 0x7fffffff)],
          attackSeconds = 3.5,
          attackBegin =
            \http2 ->
              sendFrames
                http2
                (windowUpdate 0 0x7fff0000 : [requestOf number "/stream" [EndStream] | number <- [0 .. 49]])
        }
    it "windows of nothing, held open" . survives . costing 3 $
      (attack (\_ _ -> threadDelay 100000))
        { attackConnections = 5,
          attackSettings = [(InitialWindowSize, 0)],
          attackSeconds = 3.5,
          attackBegin = \http2 -> sendFrames http2 [requestOf number "/stream" [EndStream] | number <- [0 .. 49]]
        }
    it "windows of nothing, held open with a PING now and then" . survives . costing 5 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (pingFrame "12345678")))
        { attackConnections = 5,
          attackSettings = [(InitialWindowSize, 0)],
          attackSeconds = 5,
          attackBegin = \http2 -> sendFrames http2 [requestOf number "/stream" [EndStream] | number <- [0 .. 49]],
          -- The server resets the streams one by one; the connection need not end.
          attackFate = MayGoOn
        }
    it "the same with answers that are complete: their streams are reset" $ \(Servers server _) ->
      withHttp2As silent [(InitialWindowSize, 0)] (serverPort server) $ \http2 -> do
        streams <- replicateM 50 (openStream http2 [EndStream] (get "/"))
        withAsync (forever (threadDelay 200000 >> sendFrame http2 (pingFrame "12345678"))) $ \_ ->
          forM_ streams $ \stream -> (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith Cancel
    -- Several at once, so that also a busy machine sends more of them than are allowed.
    it "an initial window that changes all the time" . survives . costing 1 $
      (attack (\http2 _ -> sendFrames http2 [settingsFrame [(InitialWindowSize, size)] | size <- [0, 1, 0, 1]]))
        { attackBegin = \http2 -> sendFrames http2 [requestOf number "/stream" [EndStream] | number <- [0 .. 49]]
        }
    it "windows that grow beyond 2^31" . survives . costing 0.3 . attack $ \http2 number ->
      sendFrames
        http2
        [ requestOf number "/slow" [EndStream],
          windowUpdate (streamOf number) 0x7fffffff,
          windowUpdate
            (streamOf number)
            0x7fffffff
        ]
    it "a body that is larger than the window" . survives . costing 0.15 $
      (attack (\http2 _ -> sendFrame http2 (dataFrame 1 [] (B.replicate 16384 0x78))))
        { attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/slow" []),
          -- The server resets the stream, and drops what still arrives for it.
          attackFate = MayGoOn
        }

  describe "slow clients" $ do
    it "a slow preface" . survives . costing 1 $ slowly (C8.pack "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    it "a preface without settings" . survives . costing 1 $ (slowly "") {attackBegin = (`sendBytes` preface)}
    it "a slow HEADERS frame" . survives . costing 2 $
      ( slowly
          ( B.drop
              2
              ( encodeFrame
                  (headersFrame 1 [EndHeaders, EndStream] (literals (get "/" ++ [("x", B.replicate 1000 0x79)])))
              )
          )
      )
        { attackBegin =
            \http2 ->
              sendBytes
                http2
                ( B.take
                    2
                    ( encodeFrame
                        (headersFrame 1 [EndHeaders, EndStream] (literals (get "/" ++ [("x", B.replicate 1000 0x79)])))
                    )
                )
        }
    it "slow CONTINUATION" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (continuationFrame 1 [] (literals [("x", "y")]))))
        { attackSeconds = 5,
          attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "nothing at all after the settings" . survives . costing 0.1 $
      (attack (\_ _ -> threadDelay 100000)) {attackConnections = 100, attackSeconds = 3.5}
    it "nothing but PING" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (pingFrame "12345678"))) {attackSeconds = 5}
    it "a slow body" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 100000 >> sendFrame http2 (dataFrame 1 [] "x")))
        { attackSeconds = 5,
          attackBegin = \http2 -> sendFrame http2 (requestOf 0 "/read" []),
          -- The server answers and resets the stream; the connection need not end.
          attackFate = MayGoOn
        }
  where
    deaf step = (attack step) {attackEars = IsDeaf}
    slowly bytes =
      ( attack
          ( \http2 number ->
              threadDelay 100000
                >> sendBytes http2 (B.take 1 (B.drop (fromIntegral number) (bytes <> B.replicate 1000 0)))
          )
      )
        { attackSeconds = 5
        }
