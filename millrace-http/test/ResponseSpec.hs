{-# LANGUAGE OverloadedStrings #-}

-- | What responses look like on the wire: framing, fields, HEAD.
module ResponseSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Maybe (isJust)
import Data.Time (UTCTime, defaultTimeLocale, diffUTCTime, getCurrentTime, parseTimeM)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import ResponseSupport
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "framing (RFC 9112, 6)" $ do
    forM_ [0, 1, 5, 4000, 16000, 16384, 40000, 200000] $ \size -> do
      it ("a builder of " ++ show size ++ " bytes arrives whole, on HTTP/1.1 and on HTTP/1.0") $ do
        let body = C8.replicate size 'b'
        eleven <- get11 (responseBuilder status200 [] (foldMap byteString (pieces 1000 body)))
        replyBody eleven `shouldBe` body
        ten <- get10 (responseBuilder status200 [] (foldMap byteString (pieces 1000 body)))
        replyBody ten `shouldBe` body
    it "a body that fits has a Content-Length" $ do
      reply <- get11 (responseBuilder status200 [] (byteString (C8.replicate 10000 'x')))
      headerOf "content-length" reply `shouldBe` Just "10000"
    it "so has one large strict piece" $ do
      reply <- get11 (responseLBS status200 [] (L.fromStrict (C8.replicate 300000 'x')))
      headerOf "content-length" reply `shouldBe` Just "300000"
    it "a longer one is chunked on HTTP/1.1" $ do
      reply <- get11 (responseBuilder status200 [] (foldMap byteString (replicate 300 (C8.replicate 100 'x'))))
      headerOf "transfer-encoding" reply `shouldBe` Just "chunked"
    it "and ends with the connection on HTTP/1.0, kept or not" $ do
      reply <-
        oneReply
          (const (responseBuilder status200 [] (foldMap byteString (replicate 300 (C8.replicate 100 'x')))))
          "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
      (headerOf "transfer-encoding" reply, headerOf "content-length" reply, headerOf "connection" reply)
        `shouldBe` (Nothing, Nothing, Just "close")
    it "the application's Content-Length is used for long bodies" $ do
      reply <-
        get11
          ( responseBuilder
              status200
              [("Content-Length", "30000")]
              (foldMap byteString (replicate 300 (C8.replicate 100 'x')))
          )
      (headerOf "content-length" reply, headerOf "transfer-encoding" reply, B.length (replyBody reply))
        `shouldBe` (Just "30000", Nothing, 30000)
    forM_ [("too short", "4"), ("too long", "6"), ("no number", "x")] $ \(what, value) ->
      it ("a Content-Length that is " ++ what ++ " is a 500") $ do
        reply <- get11 (responseLBS status200 [("Content-Length", value)] "12345")
        replyStatus reply `shouldBe` 500
    it "RFC 9110, 8.6: two equal Content-Lengths become one" $ do
      reply <- get11 (responseLBS status200 [("Content-Length", "5"), ("Content-Length", "5")] "12345")
      [value | ("content-length", value) <- replyFields reply] `shouldBe` ["5"]
    it "a Transfer-Encoding of the application's is ours to give" $ do
      reply <- get11 (responseLBS status200 [("Transfer-Encoding", "chunked")] "12345")
      (replyStatus reply, replyBody reply) `shouldBe` (200, "12345")
      refused <- get11 (responseLBS status200 [("Transfer-Encoding", "gzip")] "12345")
      replyStatus refused `shouldBe` 500

  describe "responses without a body" $ do
    forM_ [status204, status304] $ \status ->
      it (show (statusCode status) ++ " has neither body nor framing, and the next response follows") $
        withServer id (\_ respond -> respond (responseLBS status [] "never")) $ \port -> do
          bytes <-
            exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          let replies = parseReplies bytes
          map replyStatus replies `shouldBe` [statusCode status, statusCode status]
          map (headerOf "content-length") replies `shouldBe` [Nothing, Nothing]
    forM_ [(status204, Nothing), (status304, Just "5")] $ \(status, expected) ->
      it
        ( "RFC 9110, 8.6: a Content-Length of the application's for "
            ++ show (statusCode status)
            ++ " is "
            ++ maybe "dropped" (const "kept") expected
        )
        $ do
          reply <- get11 (responseLBS status [("Content-Length", "5")] "12345")
          (headerOf "content-length" reply, replyBody reply) `shouldBe` (expected, "")
    it "RFC 9110, 15.3.6: 205 has an empty one" $ do
      reply <- get11 (responseLBS status205 [] "never")
      (replyBody reply, headerOf "content-length" reply) `shouldBe` ("", Just "0")
    it "RFC 9110, 9.3.2: and HEAD tells that length of it" $
      withServer id (\_ respond -> respond (responseLBS status205 [("Content-Length", "5")] "never")) $ \port -> do
        bytes <- exchange port "HEAD / HTTP/1.0\r\n\r\n"
        map (headerOf "content-length") (parseReplies bytes) `shouldBe` [Just "0"]
    it "RFC 9110, 9.3.2: HEAD has none, of no kind, and does not run it" $ do
      ran <- newIORef False
      let application request respond = case pathInfo request of
            ["stream"] -> respond (responseStream status200 [] (\_ _ -> writeIORef ran True))
            ["length"] -> respond (responseLBS status200 [("Content-Length", "7")] (error "evaluated"))
            _ -> respond (responseLBS status200 [] (error "evaluated"))
      withServer id application $ \port -> withConnection port $ \client -> do
        send
          client
          ( B.concat
              [B.concat ["HEAD /", name, " HTTP/1.1\r\nHost: a\r\n\r\n"] | name <- ["stream", "length", "builder"]]
          )
        (bytes, closed) <- receiveUntilThere "HTTP/1.1" 3 300000 client
        closed `shouldBe` False
        let heads = filter (not . B.null) (splitHeads bytes)
        length heads `shouldBe` 3
        map (B.isInfixOf "Content-Length: 7") heads `shouldBe` [False, True, False]
        readIORef ran `shouldReturn` False
    it "RFC 9110, 9.3.6: 2xx to CONNECT has no framing" $ do
      reply <- oneReply (const (responseLBS status200 [] "x")) "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"
      (headerOf "content-length" reply, replyBody reply) `shouldBe` (Nothing, "")

  describe "fields" $ do
    it "RFC 9110, 6.6.1: Date is now" $ do
      now <- getCurrentTime
      reply <- get11 (responseLBS status200 [] "x")
      let date =
            headerOf "date" reply >>= parseTimeM True defaultTimeLocale "%a, %d %b %Y %H:%M:%S GMT" . C8.unpack ::
              Maybe UTCTime
      fmap (\at -> abs (diffUTCTime at now) < 20) date `shouldBe` Just True
    it "the application's Date and Server are kept, and not repeated" $ do
      reply <- get11 (responseLBS status200 [("Date", "then"), ("Server", "mine")] "x")
      [field | field@(name, _) <- replyFields reply, name `elem` ["date", "server"]]
        `shouldBe` [("date", "then"), ("server", "mine")]
    it "Server is ours otherwise" $ do
      reply <- get11 (responseLBS status200 [] "x")
      headerOf "server" reply `shouldBe` Just (C8.pack ("Millrace/" ++ millraceVersion))
    it "Server can be named, and removed" $ do
      named <- oneReplyWith (setServerName "other") (const (responseLBS status200 [] "x")) get
      headerOf "server" named `shouldBe` Just "other"
      removed <- oneReplyWith (setServerName "") (const (responseLBS status200 [("Server", "mine")] "x")) get
      headerOf "server" removed `shouldBe` Nothing
    it "status and reason are the application's" $ do
      reply <- get11 (responseLBS (Status 299 "Quite OK") [] "x")
      (replyStatus reply, replyReason reply) `shouldBe` (299, "Quite OK")
    forM_ [0, 99, 100, 101, 103, 199, 1000, -1] $ \code ->
      it ("RFC 9110, 15: status " ++ show code ++ ", which is no final one, is a 500") $ do
        reply <- get11 (responseLBS (Status code "") [] "x")
        replyStatus reply `shouldBe` 500
    it "RFC 9110, 5.5: a value cannot end its line" $ do
      reply <- get11 (responseLBS status200 [("X-A", "b\r\nX-Injected: c\n\r\0d")] "x")
      headerOf "x-a" reply `shouldBe` Just "b  X-Injected: c   d"
      headerOf "x-injected" reply `shouldBe` Nothing
    it "nor can a reason phrase" $ do
      reply <- get11 (responseLBS (Status 200 "OK\r\nX-Injected: c") [] "x")
      headerOf "x-injected" reply `shouldBe` Nothing
    forM_ ["X-A: b\r\nX-Injected", "X A", "", "X\0"] $ \name ->
      it ("RFC 9110, 5.1: the name " ++ show name ++ " is refused") $ do
        let header = (fromBytes name, "v")
        reply <- get11 (responseLBS status200 [header] "x")
        (replyStatus reply, isJust (headerOf "x-injected" reply)) `shouldBe` (500, False)
    it "many and long ones arrive" $ do
      let fields = [(fromBytes (C8.pack ("X-" ++ show number)), C8.replicate 500 'v') | number <- [1 .. 200 :: Int]]
      reply <- get11 (responseLBS status200 fields "x")
      length [value | (_, value) <- replyFields reply, value == C8.replicate 500 'v'] `shouldBe` 200
    it "too many are a 500" $ do
      reply <- get11 (responseLBS status200 (replicate 3000 ("X", C8.replicate 500 'v')) "x")
      replyStatus reply `shouldBe` 500

fromBytes :: ByteString -> HeaderName
fromBytes = CI.mk

pieces :: Int -> ByteString -> [ByteString]
pieces size bytes
  | B.null bytes = []
  | otherwise = B.take size bytes : pieces size (B.drop size bytes)

splitHeads :: ByteString -> [ByteString]
splitHeads bytes = case B.breakSubstring "\r\n\r\n" bytes of
  (headBytes, rest)
    | B.null rest -> [headBytes]
    | otherwise -> headBytes : splitHeads (B.drop 4 rest)
