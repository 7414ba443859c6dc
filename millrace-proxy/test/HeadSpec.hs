{-# LANGUAGE OverloadedStrings #-}

-- | Heads of responses, and targets: what is taken and what is refused.
module HeadSpec (spec) where

import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.CaseInsensitive (original)
import Data.Either (isLeft)
import Millrace.Proxy
import Millrace.Proxy.RequestHead
import Millrace.Proxy.ResponseHead
import Millrace.Socket (SockAddr (..), tupleToHostAddress, tupleToHostAddress6)
import Network.HTTP.Types (mkStatus)
import Network.Wai (Request (..), defaultRequest)
import Test.Hspec

spec :: Spec
spec = do
  describe "the head of a response" $ do
    it "is parsed" $
      parseResponseHead whole
        `shouldBe` Parsed
          ResponseHead
            { headStatus = mkStatus 200 "Very OK",
              headFields = [("Content-Length", "5"), ("X-One", "a b")],
              headFraming = Counted 5,
              headKeeping = MayStay,
              headOptions = [],
              headUpgrade = []
            }
          (ByteString.length whole - 5)
    it "is incomplete wherever it is cut" $
      forM_ [0 .. ByteString.length whole - 6] $ \count ->
        parseResponseHead (ByteString.take count whole) `shouldBe` Incomplete
    it "says how the connection goes on" $ do
      fmap headKeeping (parsed "HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n") `shouldBe` Just MustClose
      fmap headKeeping (parsed "HTTP/1.0 200 OK\r\n\r\n") `shouldBe` Just MustClose
      fmap headKeeping (parsed "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n") `shouldBe` Just MayStay
    it "loses what concerns the connection" $
      fmap
        headFields
        ( parsed
            "HTTP/1.1 200 OK\r\nConnection: X-Secret\r\nKeep-Alive: 5\r\nX-Secret: 1\r\nProxy-Authenticate: \
            \x\r\nTrailer: a\r\nTransfer-Encoding: chunked\r\nX-Other: 2\r\n\r\n"
        )
        `shouldBe` Just [("X-Other", "2")]
    it "has a status without a reason" $
      fmap headStatus (parsed "HTTP/1.1 204\r\n\r\n") `shouldBe` Just (mkStatus 204 "")
    forM_ malformed $ \bytes -> it ("is refused: " ++ show bytes) $ parseResponseHead bytes `shouldSatisfy` isMalformed
  describe "the head of a request" $ do
    it "has no field in which a client speaks as a proxy would, unless it is trusted" $ do
      let claims = ["X-Forwarded-Port", "X-Forwarded-Prefix", "X-Real-IP", "X-Client-IP", "True-Client-IP", "X_Real_IP"]
          request = plain {requestHeaders = [(name, "forged") | name <- claims]}
          named policy =
            either
              (const [])
              (\bytes -> filter ((`ByteString.isInfixOf` bytes) . original) claims)
              (composeHead outgoing {outgoingForwarding = policy} request)
      named ReplaceForwarded `shouldBe` []
      named AppendForwarded `shouldBe` init claims
    describe "names the client" $
      forM_
        [ ( SockAddrInet6 80 0 (tupleToHostAddress6 (0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)) 0,
            "2001:db8::1",
            "\"[2001:db8::1]\""
          ),
          ( SockAddrInet6
              80
              0
              (tupleToHostAddress6 (0x2001, 0xdb8, 0, 1, 1, 1, 0, 0xA))
              3,
            "2001:db8:0:1:1:1:0:a",
            "\"[2001:db8:0:1:1:1:0:a]\""
          ),
          (SockAddrInet6 80 0 (tupleToHostAddress6 (0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201)) 0, "192.0.2.1", "192.0.2.1"),
          (SockAddrInet 80 (tupleToHostAddress (192, 0, 2, 1)), "192.0.2.1", "192.0.2.1"),
          (SockAddrUnix "/run/a", "unknown", "unknown")
        ]
        $ \(address, plainly, inForwarded) -> it (show address) $ do
          found <-
            either
              fail
              return
              (composeHead outgoing {outgoingForwarding = ReplaceForwarded} plain {remoteHost = address})
          found `shouldSatisfy` (("\r\nX-Forwarded-For: " <> plainly <> "\r\n") `ByteString.isInfixOf`)
          found
            `shouldSatisfy` (("\r\nForwarded: for=" <> inForwarded <> ";proto=http;host=a\r\n") `ByteString.isInfixOf`)
    it "has tracestate with a valid traceparent only" $
      forM_
        [ ([valid], [valid, "tracestate: a=b"]),
          ( ["01" <> ByteString.drop 2 valid <> "-more"],
            ["01" <> ByteString.drop 2 valid <> "-more", "tracestate: a=b"]
          ),
          ([valid <> "-more"], ["made"]),
          (["ff" <> ByteString.drop 2 valid], ["made"]),
          ([valid, valid], ["made"]),
          ([], ["made"])
        ]
        $ \(given, wanted) -> do
          let request = plain {requestHeaders = [("traceparent", value) | value <- given] ++ [("tracestate", "a=b")]}
          found <- either fail return (composeHead outgoing {outgoingIdentifiers = Just ("id", "made")} request)
          filter
            (`ByteString.isInfixOf` found)
            [valid, "01" <> ByteString.drop 2 valid <> "-more", "made", "tracestate: a=b"]
            `shouldBe` wanted
    forM_ unsafe $ \(what, request) ->
      it ("is refused with " ++ what) $ composeHead outgoing request `shouldSatisfy` isLeft
  describe "a target" $ do
    forM_
      [ ("https://example.org", Target Https (AtHost "example.org" 443)),
        ("http://[::1]:8080/", Target Http (AtHost "::1" 8080)),
        ("3000", Target Http (AtHost "127.0.0.1" 3000)),
        ("localhost:80", Target Http (AtHost "localhost" 80)),
        ("unix:/run/a b", Target Http (AtPath "/run/a b"))
      ]
      $ \(text, target) -> it ("is " ++ text) $ parseTarget text `shouldBe` Right target
    forM_
      ["", "http://", "http://a/b", "http://a:0", "a:65536", "a", "unix:", "http://a b", "http://[::1", "ftp://a:1"]
      $ \text ->
        it ("is none: " ++ show text) $ parseTarget text `shouldSatisfy` isLeft
  where
    whole = "HTTP/1.1 200 Very OK\r\nContent-Length: 5\r\nX-One: \ta b \r\n\r\nHello"
    outgoing = Outgoing "1.1 millrace" KeepHost PassForwarded "target" Nothing NoBody SendsAtOnce Nothing
    valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    plain = defaultRequest {rawPathInfo = "/", requestHeaderHost = Just "a"}
    unsafe =
      [ ("a line feed in the path", plain {rawPathInfo = "/a\nb"}),
        ("a blank in the path", plain {rawPathInfo = "/a b"}),
        ("nothing in the path", plain {rawPathInfo = ""}),
        ("a line feed in the query", plain {rawQueryString = "?\r\n"}),
        ("a blank in the method", plain {requestMethod = "GET /"}),
        ("a line feed in a value", plain {requestHeaders = [("X", "a\r\nY: b")]}),
        ("a NUL in a value", plain {requestHeaders = [("X", "a\0b")]}),
        ("a colon in a name", plain {requestHeaders = [("X: y", "a")]}),
        ( "more options of the connection than anybody needs",
          plain
            { requestHeaders =
                [("Connection", many), ("Connection", many)]
            }
        ),
        ("a line feed in the host", plain {requestHeaderHost = Just "a\r\nX: b"})
      ]
    many = ByteString.intercalate "," (replicate 65 "a")

parsed :: ByteString -> Maybe ResponseHead
parsed bytes = case parseResponseHead bytes of
  Parsed found _ -> Just found
  _ -> Nothing

isMalformed :: Parsed -> Bool
isMalformed (Malformed _) = True
isMalformed _ = False

malformed :: [ByteString]
malformed =
  [ "\21\3\1\0\2\2\70",
    "HTTP/2",
    "HTTP/1.1 200 OK\rX",
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.2 200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 OK\r\n\r\n",
    "HTTP/1.1  200 OK\r\n\r\n",
    " HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 O\rK\r\n\r\n",
    "HTTP/1.1 200 OK\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-One : a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-One: a\r\n b\r\n\r\n",
    "HTTP/1.1 200 OK\r\n X-One: a\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-One\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-One: a\rb\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-One: a\0b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX(One: a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close" <> ByteString.replicate 128 44 <> "\r\n\r\n"
  ]
