{-# LANGUAGE OverloadedStrings #-}

-- | What HTTP/1 refuses is refused over HTTP/2: the application never sees such a request, and the next one on the same
-- connection is answered as if nothing had been, unless the connection had to end.
module Http2RefusalSpec (spec) where

import Control.Exception (SomeException, try)
import Control.Monad (forM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Http2Client
import Network.HTTP.Types (status200)
import Network.Wai
import Support (withServer)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  describe "requests that are refused" . forM_ refused $ \(rule, fields) ->
    it rule $ isRefused [headersFrame 1 [EndStream, EndHeaders] (literals fields)]

  describe "bodies and trailers that are refused" . forM_ (belied ++ badTrailers) $ \(rule, frames) ->
    it rule $ do
      ends <- newIORef []
      -- The application may have begun; what it reads must fail.
      let application request respond = do
            outcome <- try (strictRequestBody request)
            modifyIORef ends (either (const "failed") (const "ended") (outcome :: Either SomeException L.ByteString) :)
            respond (responseLBS status200 [] "")
      withServer id application $ \port -> withHttp2 port $ \http2 -> do
        sendFrames http2 frames
        events <- eventsUntil isRefusal http2
        events `shouldSatisfy` any isRefusal
      readIORef ends >>= (`shouldSatisfy` notElem ("ended" :: String))

  describe "requests that are served" . forM_ served $ \(rule, fields, frames, expected) ->
    it rule $
      withServer id tellRequest $ \port -> withHttp2 port $ \http2 -> do
        sendFrames http2 (headersFrame 1 (EndHeaders : [EndStream | null frames]) (literals fields) : frames)
        answer <- awaitAnswer http2 1
        (answerStatus answer, answerBody answer) `shouldBe` (Just 200, expected)

  describe "frames behind an answer that are refused" $ do
    it "RFC 9113, 6.9: a window that grows by 0" $
      withServer id tellRequest $ \port -> withHttp2 port $ \http2 -> do
        answer <- ask http2 (get "/") ""
        answerStatus answer `shouldBe` Just 200
        sendFrame http2 (windowUpdate 1 0)
        eventsUntil isRefusal http2 >>= (`shouldSatisfy` any isRefusal)
    it "RFC 9113, 5.1: DATA behind RST_STREAM, also if the server has reset the stream before" $
      withServer id (\_ respond -> respond (responseLBS status200 [] "")) $ \port -> withHttp2 port $ \http2 -> do
        stream <- openStream http2 [] (post "/" ++ [("content-length", "10000000")])
        void (eventsUntil (== GotReset stream NoError) http2)
        sendFrame http2 (dataFrame stream [] "crosses the server's reset")
        roundTrip http2 >>= (`shouldSatisfy` not . any isRefusal)
        sendFrames http2 [resetFrame stream Cancel, dataFrame stream [] "does not"]
        eventsUntil isRefusal http2 >>= (`shouldSatisfy` any isRefusal)

-- Refused: a 4xx or 5xx, a reset of the stream, or the end of the connection with a protocol error.
isRefusal :: Event -> Bool
isRefusal event = case event of
  GotHeaders 1 fields _ -> maybe False (\status -> B.take 1 status `elem` ["4", "5"]) (lookup ":status" fields)
  GotReset 1 code -> code `elem` [ProtocolError, RefusedStream, StreamClosed]
  GotGoAway _ code _ -> code `elem` [ProtocolError, StreamClosed, CompressionError]
  _ -> False

isRefused :: [Frame] -> Expectation
isRefused frames = do
  calls <- newIORef []
  let application request respond = do
        modifyIORef calls (rawPathInfo request :)
        body <- strictRequestBody request
        respond (responseLBS status200 [] body)
  withServer id application $ \port -> withHttp2 port $ \http2 -> do
    _ <- roundTrip http2
    sendFrames http2 frames
    events <- eventsUntil isRefusal http2
    events `shouldSatisfy` any isRefusal
    -- No part of it may become part of the next request.
    let over = [() | GotGoAway {} <- events]
    sendFrame http2 (headersFrame 3 [EndStream, EndHeaders] (literals (get "/next")))
    answer <- awaitAnswer http2 3
    when (null over) $ (answerStatus answer, answerEnd answer) `shouldBe` (Just 200, Complete)
    seen <- readIORef calls
    filter (/= "/next") seen `shouldBe` []

refused :: [(String, Fields)]
refused =
  [ ("RFC 9113, 8.2.1: CR in a value", get "/" ++ [("x", "a\rb")]),
    ("RFC 9113, 8.2.1: LF in a value", get "/" ++ [("x", "a\nb")]),
    ("RFC 9113, 8.2.1: a whole request in a value", get "/" ++ [("x", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a")]),
    ("RFC 9113, 8.2.1: NUL in a value", get "/" ++ [("x", "a\0b")]),
    ("RFC 9110, 5.5: another control character in a value", get "/" ++ [("x", "a\x07")]),
    ("RFC 9110, 5.5: DEL in a value", get "/" ++ [("x", "1234567890\x7f")]),
    ("RFC 9113, 8.2.1: CR in a name", get "/" ++ [("x\r", "y")]),
    ("RFC 9113, 8.2.1: LF in a name", get "/" ++ [("x\ny", "z")]),
    ("RFC 9113, 8.2.1: NUL in a name", get "/" ++ [("x\0", "y")]),
    ("RFC 9113, 8.2.1: blank in a name", get "/" ++ [("x y", "z")]),
    ("RFC 9113, 8.2.1: colon in a name", get "/" ++ [("x:y", "z")]),
    ("RFC 9113, 8.2.1: byte beyond ASCII in a name", get "/" ++ [("x\xff", "y")]),
    ("RFC 9113, 8.2.1: empty name", get "/" ++ [("", "y")]),
    ("RFC 9110, 5.1: separator in a name", get "/" ++ [("x(y)", "z")]),
    ("RFC 9113, 8.2: upper case in a name", get "/" ++ [("X-Y", "z")]),
    ("RFC 9113, 8.2: upper case in a pseudo-field's name", replaced ":path" [] (get "/") ++ [(":Path", "/")]),
    ("RFC 9113, 8.2.2: Connection", get "/" ++ [("connection", "close")]),
    ("RFC 9113, 8.2.2: Keep-Alive", get "/" ++ [("keep-alive", "timeout=5")]),
    ("RFC 9113, 8.2.2: Proxy-Connection", get "/" ++ [("proxy-connection", "close")]),
    ("RFC 9113, 8.2.2: Transfer-Encoding", post "/" ++ [("transfer-encoding", "chunked")]),
    ("RFC 9113, 8.2.2: Transfer-Encoding: identity", post "/" ++ [("transfer-encoding", "identity")]),
    ("RFC 9113, 8.2.2: Upgrade", get "/" ++ [("upgrade", "websocket")]),
    ("RFC 9113, 8.2.2: TE other than trailers", get "/" ++ [("te", "gzip")]),
    ("RFC 9113, 8.2.2: TE with trailers among others", get "/" ++ [("te", "trailers, gzip")]),
    ("RFC 9113, 8.3.1: no :method", replaced ":method" [] (get "/")),
    ("RFC 9113, 8.3.1: no :scheme", replaced ":scheme" [] (get "/")),
    ("RFC 9113, 8.3.1: no :path", replaced ":path" [] (get "/")),
    ("RFC 9113, 8.3.1: empty :path", get ""),
    ("RFC 9113, 8.3.1: :path that begins with no slash", get "index"),
    ("RFC 9113, 8.3.1: :path that is a whole URI", get "http://a/"),
    ("RFC 9113, 8.3.1: * with another method than OPTIONS", get "*"),
    ("RFC 9112, 3.2: blank in :path", get "/a b"),
    ("RFC 9112, 3.2: request line in :path", get "/ HTTP/1.1\r\nHost: b\r\n\r\n"),
    ("RFC 9112, 3.2: control character in :path", get "/a\x01"),
    ("RFC 9113, 8.3: unknown pseudo-field", (":unknown", "x") : get "/"),
    ("RFC 9113, 8.3: pseudo-field of responses", (":status", "200") : get "/"),
    ("RFC 9113, 8.3: pseudo-field after a regular one", replaced ":path" [] (get "/") ++ [("x", "y"), (":path", "/")]),
    ( "RFC 9113, 8.3: :authority after a regular one",
      replaced ":authority" [] (get "/")
        ++ [("x", "y"), (":authority", "a")]
    ),
    ("RFC 9113, 8.3: :method twice", (":method", "GET") : get "/"),
    ("RFC 9113, 8.3: :path twice", get "/" ++ [(":path", "/b")]),
    ("RFC 9113, 8.3: :scheme twice", (":scheme", "http") : get "/"),
    ("RFC 9113, 8.3: :authority twice", (":authority", "b") : get "/"),
    ("RFC 9113, 8.3.1: another scheme", replaced ":scheme" [(":scheme", "ftp")] (get "/")),
    ("RFC 9113, 8.3.1: malformed scheme", replaced ":scheme" [(":scheme", "http ")] (get "/")),
    ("RFC 9110, 9.1: blank in the method", replaced ":method" [(":method", "GET /smuggled")] (get "/")),
    ("RFC 9110, 9.1: empty method", replaced ":method" [(":method", "")] (get "/")),
    ("RFC 9110, 9.1: CR LF in the method", replaced ":method" [(":method", "GET / HTTP/1.1\r\nx: y")] (get "/")),
    ("RFC 9113, 8.3.1: userinfo in :authority", replaced ":authority" [(":authority", "u@a")] (get "/")),
    ("RFC 9113, 8.3.1: path in :authority", replaced ":authority" [(":authority", "a/b")] (get "/")),
    ("RFC 9113, 8.3.1: CR LF in :authority", replaced ":authority" [(":authority", "a\r\nx: y")] (get "/")),
    ("RFC 9113, 8.3.1: Host that differs from :authority", get "/" ++ [("host", "b")]),
    ("RFC 9110, 7.2: Host twice", replaced ":authority" [] (get "/") ++ [("host", "a"), ("host", "b")]),
    ("RFC 9110, 7.2: invalid Host", replaced ":authority" [] (get "/") ++ [("host", "a b")]),
    ("RFC 9113, 8.3.1: neither :authority nor Host", replaced ":authority" [] (get "/")),
    ( "RFC 9113, 8.5: CONNECT with :path",
      (":method", "CONNECT") :
      [(":scheme", "http"), (":authority", "a:1"), (":path", "/")]
    ),
    ("RFC 9113, 8.5: CONNECT with :scheme", [(":method", "CONNECT"), (":scheme", "http"), (":authority", "a:1")]),
    ("RFC 9113, 8.5: CONNECT without :authority", [(":method", "CONNECT")]),
    ("RFC 9113, 8.5: CONNECT to something without a port", [(":method", "CONNECT"), (":authority", "a")]),
    ("RFC 8441, 4: :protocol with another method", (":protocol", "websocket") : get "/"),
    ( "RFC 8441, 4: extended CONNECT without :path",
      [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a")]
    ),
    ( "RFC 8441, 4: extended CONNECT without :scheme",
      [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/"), (":authority", "a")]
    ),
    ("RFC 9110, 8.6: Content-Length no number", post "/" ++ [("content-length", "abc")]),
    ("RFC 9110, 8.6: negative Content-Length", post "/" ++ [("content-length", "-5")]),
    ("RFC 9110, 8.6: Content-Length with a sign", post "/" ++ [("content-length", "+5")]),
    ("RFC 9110, 8.6: empty Content-Length", post "/" ++ [("content-length", "")]),
    ("RFC 9110, 8.6: list of lengths", post "/" ++ [("content-length", "0, 0")]),
    ("RFC 9110, 8.6: Content-Length with a tail", post "/" ++ [("content-length", "0x")]),
    ("RFC 9110, 8.6: Content-Length of 2^63", post "/" ++ [("content-length", "9223372036854775808")]),
    ("RFC 9110, 8.6: Content-Length of 2^64", post "/" ++ [("content-length", "18446744073709551616")]),
    ("RFC 9110, 8.6: two different lengths", post "/" ++ [("content-length", "0"), ("content-length", "1")]),
    ("RFC 9110, 8.6: two equal lengths", post "/" ++ [("content-length", "0"), ("content-length", "0")]),
    ("RFC 9113, 8.1.1: Content-Length, and no body", post "/" ++ [("content-length", "5")]),
    ("RFC 9110, 10.1.1: unknown expectation", post "/" ++ [("expect", "200-ok")]),
    ("RFC 6585, 5: too many fields", get "/" ++ replicate 300 ("x", "y"))
  ]
  where
    replaced name with fields = concat [if key == name then with else [(key, value)] | (key, value) <- fields]

belied :: [(String, [Frame])]
belied =
  [ ( "RFC 9113, 8.1.1: less than Content-Length says",
      [headersFrame 1 [EndHeaders] (sized "5"), dataFrame 1 [EndStream] "1234"]
    ),
    ( "RFC 9113, 8.1.1: more than Content-Length says",
      [headersFrame 1 [EndHeaders] (sized "5"), dataFrame 1 [EndStream] "123456"]
    ),
    ("RFC 9113, 8.1.1: nothing", [headersFrame 1 [EndHeaders] (sized "5"), dataFrame 1 [EndStream] ""])
  ]
  where
    sized size = literals (post "/" ++ [("content-length", size)])

badTrailers :: [(String, [Frame])]
badTrailers =
  [ ( rule,
      [ headersFrame 1 [EndHeaders] (literals (post "/")),
        dataFrame 1 [] "body",
        headersFrame
          1
          (EndHeaders : flags)
          (literals fields)
      ]
    )
    | (rule, flags, fields) <-
        [ ("RFC 9113, 8.1: a pseudo-field in trailers", [EndStream], [(":path", "/")]),
          ("RFC 9113, 8.1: a pseudo-field of responses in trailers", [EndStream], [(":status", "200")]),
          ("RFC 9113, 8.1: trailers that do not end the stream", [], [("x", "y")]),
          ("RFC 9113, 8.2: upper case in a name of trailers", [EndStream], [("X", "y")]),
          ("RFC 9113, 8.2.1: CR LF in a value of trailers", [EndStream], [("x", "y\r\nz: a")]),
          ("RFC 9113, 8.2.1: NUL in a value of trailers", [EndStream], [("x", "y\0")]),
          ("RFC 9113, 8.2.1: an empty name in trailers", [EndStream], [("", "y")]),
          ("RFC 9113, 8.2.2: Transfer-Encoding in trailers", [EndStream], [("transfer-encoding", "chunked")]),
          ("RFC 9113, 8.2.2: Connection in trailers", [EndStream], [("connection", "close")])
        ]
  ]

served :: [(String, Fields, [Frame], ByteString)]
served =
  [ ("RFC 9113, 8.2.2: TE: trailers", get "/" ++ [("te", "trailers")], [], "GET / Just \"a\" \"\""),
    ( "RFC 9113, 8.3.1: Host instead of :authority",
      filter ((/= ":authority") . fst) (get "/")
        ++ [("host", "b")],
      [],
      "GET / Just \"b\" \"\""
    ),
    ("RFC 9113, 8.3.1: Host that is the same as :authority", get "/" ++ [("host", "a")], [], "GET / Just \"a\" \"\""),
    ("RFC 9113, 8.3.1: OPTIONS *", (":method", "OPTIONS") : drop 1 (get "*"), [], "OPTIONS * Just \"a\" \"\""),
    ( "RFC 9113, 8.1: trailers",
      post "/"
        ++ [("content-length", "5")],
      [dataFrame 1 [] "hello", headersFrame 1 [EndHeaders, EndStream] (literals [("x", "y")])],
      "POST / Just \"a\" \"hello\""
    ),
    ( "a body in several frames, some of them empty",
      post "/",
      [dataFrame 1 [] "he", dataFrame 1 [] "", dataFrame 1 [] "llo", dataFrame 1 [EndStream] ""],
      "POST / Just \"a\" \"hello\""
    ),
    ( "a padded body",
      post "/"
        ++ [("content-length", "5")],
      [dataFrame 1 [Padded, EndStream] "\4hello\0\0\0\0"],
      "POST / Just \"a\" \"hello\""
    ),
    ("a method that nobody knows", (":method", "X-Y!") : drop 1 (get "/"), [], "X-Y! / Just \"a\" \"\"")
  ]

tellRequest :: Application
tellRequest request respond = do
  body <- strictRequestBody request
  respond . responseLBS status200 [] . L.fromStrict . C8.pack . unwords $
    [ C8.unpack (requestMethod request),
      C8.unpack (rawPathInfo request),
      show (requestHeaderHost request),
      show
        (L.toStrict body)
    ]
