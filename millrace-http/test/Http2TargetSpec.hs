{-# LANGUAGE OverloadedStrings #-}

-- | Targets of requests over HTTP/2, and which are refused.
module Http2TargetSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as C8
import Data.Maybe (isJust, listToMaybe, mapMaybe)
import Http2Client
import Network.HTTP.Types (status200)
import Network.Wai
import Support (withServer)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  -- HTTP/3 gives the same answers: its suite runs these examples, too.
  describe "targets" . forM_ targets $ \(rule, verdict, fields) ->
    it rule $
      verdictOn fields
        >>= (`shouldSatisfy` (`elem` (if verdict == Refused then [Answered 400, Malformed] else [verdict])))

-- | What comes of a request.
data Verdict
  = Answered Int
  | -- | Its stream is reset, or the connection ends: the client has violated the protocol.
    Malformed
  | -- | One of both: it depends on the version of libnghttp2.
    Refused
  deriving (Eq, Show)

verdictOn :: Fields -> IO Verdict
verdictOn fields =
  withServer id (\_ respond -> respond (responseLBS status200 [] "")) $ \port -> withHttp2 port $ \http2 -> do
    sendFrame http2 (headersFrame 1 [EndStream, EndHeaders] (literals fields))
    events <- eventsUntil (isJust . verdictOf) http2
    maybe (fail (show events)) return (listToMaybe (mapMaybe verdictOf events))

verdictOf :: Event -> Maybe Verdict
verdictOf event = case event of
  GotHeaders 1 fields _ -> Answered . read . C8.unpack <$> lookup ":status" fields
  GotReset 1 ProtocolError -> Just Malformed
  GotGoAway _ ProtocolError _ -> Just Malformed
  _ -> Nothing

targets :: [(String, Verdict, Fields)]
targets =
  [ ("RFC 9113, 8.3.1: " ++ rule, verdict, requesting method (Just path) (Just "a"))
    | (rule, verdict, method, path) <-
        paths
  ]
    ++ [ ("RFC 9113, 8.3.1: " ++ rule, verdict, requesting "GET" (Just "/") authority)
         | (rule, verdict, authority) <-
             authorities
       ]
    ++ [("RFC 9113, 8.3.1: no :path", Malformed, requesting "GET" Nothing (Just "a"))]
    ++ [ ("RFC 9113, 8.5: CONNECT to " ++ show authority, verdict, [(":method", "CONNECT"), (":authority", authority)])
         | (authority, verdict) <-
             tunnels
       ]
    ++ [ ("RFC 9113, 8.5: CONNECT without :authority", Malformed, [(":method", "CONNECT")]),
         ("RFC 9113, 8.5: CONNECT with :path", Malformed, requesting "CONNECT" (Just "/") (Just "a:1")),
         ("RFC 9113, 8.5: CONNECT with :scheme", Malformed, requesting "CONNECT" Nothing (Just "a:1"))
       ]
  where
    requesting method path authority =
      [(":method", method), (":scheme", "http")]
        ++ [(":authority", value) | Just value <- [authority]]
        ++ [(":path", value) | Just value <- [path]]
    paths =
      [ ("a path", Answered 200, "GET", "/a/b?c=d&e"),
        ("two slashes", Answered 200, "GET", "//a"),
        ("* of OPTIONS", Answered 200, "OPTIONS", "*"),
        ("* of another method", Malformed, "GET", "*"),
        ("an empty path", Malformed, "GET", ""),
        ("an empty path of OPTIONS", Malformed, "OPTIONS", ""),
        ("a query alone", Malformed, "GET", "?a"),
        ("a relative path", Malformed, "GET", "a/b"),
        ("a whole URI", Malformed, "GET", "http://a/"),
        ("a fragment", Answered 400, "GET", "/a#b"),
        ("a fragment alone", Malformed, "GET", "#b"),
        ("a blank", Malformed, "GET", "/a b"),
        ("a blank at the end", Malformed, "GET", "/a "),
        ("a control character", Malformed, "GET", "/a\x01"),
        ("a byte beyond ASCII", Answered 400, "GET", "/\xc3\xa4"),
        ("a quotation mark", Answered 200, "GET", "/a\"b")
      ]
    authorities =
      [ ("a port", Answered 200, Just "a:80"),
        ("an address", Answered 200, Just "[::1]:80"),
        ("no authority", Malformed, Nothing),
        ("an empty authority", Malformed, Just ""),
        ("a user", Refused, Just "u@a"),
        ("a path behind the authority", Malformed, Just "a/b"),
        ("a blank in the authority", Malformed, Just "a b"),
        ("a fragment behind the authority", Malformed, Just "a#b"),
        ("a port that is none", Answered 400, Just "a:b"),
        ("an address that is none", Answered 400, Just "[::1")
      ]
    tunnels =
      [ ("a:1", Answered 200),
        ("[::1]:65535", Answered 200),
        ("a", Answered 400),
        ("a:", Answered 400),
        ("a:0", Answered 400),
        ("a:65536", Answered 400),
        (":1", Answered 400),
        ("u@a:1", Refused),
        ("a:1/", Malformed),
        ("http://a:1", Malformed)
      ]
