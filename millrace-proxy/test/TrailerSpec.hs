{-# LANGUAGE OverloadedStrings #-}

-- | Which trailers are passed on.
module TrailerSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Maybe (fromMaybe)
import Frames
import Millrace.Proxy
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (recv, sendAll)
import Network.HTTP.Types (ResponseHeaders)
import Network.Wai.Handler.Millrace
  ( HTTP2Data (..),
    NextTrailersMaker (..),
    defaultHTTP2Data,
    getHTTP2Data,
    withApplication,
  )
import Support
import Test.Hspec

spec :: Spec
spec = do
  it "of a request are passed on without what must be in a head, and what the proxy says itself" $ do
    seen <- newEmptyMVar
    withTarget (\_ peer -> receiveChunks peer >>= putMVar seen >> answerWith peer "done") $ \target ->
      withFront quiet [target] $ \port -> withClient port $ \client -> do
        let fields = ByteString.concat . map literal
        sendAll client $
          ByteString.concat
            [ clientOpening,
              frame 1 4 1 (fields [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]),
              frame 0 0 1 "abc",
              frame
                1
                5
                1
                ( fields
                    ( ("x-good", "1") :
                        [ (name, value)
                          | (name, value) <-
                              forbidden,
                            name
                              `notElem` ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"]
                        ]
                    )
                )
            ]
        within 20 "the request" (takeMVar seen)
          >>= (`shouldSatisfy` ("\r\n0\r\nx-good: 1\r\n\r\n" `ByteString.isSuffixOf`))
  it "of a response over HTTP/1.1 are passed on in the same way, and without what Connection names" $
    trailersFrom
      ( \peer ->
          sendAll
            peer
            ( ByteString.concat
                ( "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" :
                  [name <> ": " <> value <> "\r\n" | (name, value) <- ("X-Good", "1") : ("X-Hop", "1") : forbidden]
                    ++ ["\r\n"]
                )
            )
      )
      id
      `shouldReturn` [("x-good", "1")]
  it "of a response over HTTP/2, too" $
    trailersFrom
      ( \peer ->
          sendAll
            peer
            ( frame 1 4 1 "\x88"
                <> frame 0 0 1 "abc"
                <> frame 1 5 1 (ByteString.concat (map literal (("x-good", "1") : allowedByHttp2)))
            )
      )
      speaking
      `shouldReturn` [("x-good", "1")]
  where
    allowedByHttp2 =
      [ (name, value)
        | (name, value) <-
            forbidden,
          name
            `notElem` [ "connection",
                        "keep-alive",
                        "transfer-encoding",
                        "upgrade",
                        "proxy-connection",
                        "te",
                        "host",
                        "content-length"
                      ]
      ]

-- A request until the end of its chunks and trailers.
receiveChunks :: Socket -> IO ByteString
receiveChunks peer = go ""
  where
    go earlier
      | "\r\n0\r\n" `ByteString.isInfixOf` earlier && "\r\n\r\n" `ByteString.isSuffixOf` earlier = return earlier
      | otherwise = recv peer 4096 >>= \bytes -> if ByteString.null bytes then return earlier else go (earlier <> bytes)

-- The trailers that the proxy gives its server, for a target that answers so.
trailersFrom :: (Socket -> IO ()) -> (Target -> Target) -> IO ResponseHeaders
trailersFrom answer change = do
  given <- newEmptyMVar
  let target peer = answer peer >> void (recv peer 100)
      begun _ peer =
        if targetScheme (change (Target Http (AtPath ""))) == H2c
          then opening peer >> requestOn peer >> target peer
          else receiveHead peer >> target peer
  withTarget begun $ \found -> withProxy quiet [change found] $ \proxy -> do
    let watched request respond = do
          received <- proxy request respond
          said <- fromMaybe defaultHTTP2Data <$> getHTTP2Data request
          http2dataTrailers said Nothing >>= \next ->
            putMVar given (case next of Trailers fields -> fields; NextTrailersMaker _ -> [("none", "")])
          return received
    withApplication (return watched) $ \port -> withClient port $ \client -> do
      sendAll
        client
        ( clientOpening
            <> frame
              1
              5
              1
              ( ByteString.concat
                  (map literal [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")])
              )
        )
      within 20 "the trailers" (takeMVar given)

-- What must not be a trailer, or what the proxy writes or drops.
forbidden :: [(ByteString, ByteString)]
forbidden =
  [ ("host", "b"),
    ("te", "trailers"),
    ("content-length", "3"),
    ("transfer-encoding", "chunked"),
    ("connection", "close"),
    ("keep-alive", "5"),
    ("upgrade", "websocket"),
    ("proxy-connection", "close"),
    ("trailer", "x"),
    ("expect", "100-continue"),
    ("authorization", "Basic eDp5"),
    ("proxy-authorization", "Basic eDp5"),
    ("proxy-authenticate", "Basic"),
    ("cookie", "a=b"),
    ("set-cookie", "a=b"),
    ("cache-control", "no-store"),
    ("range", "bytes=0-1"),
    ("content-type", "text/html"),
    ("content-encoding", "gzip"),
    ("location", "/"),
    ("forwarded", "for=1.2.3.4"),
    ("x-forwarded-for", "1.2.3.4"),
    ("x-forwarded-port", "1"),
    ("x_forwarded_for", "1.2.3.4"),
    ("x-real-ip", "1.2.3.4"),
    ("x-request-id", "forged"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("via", "1.1 other")
  ]
