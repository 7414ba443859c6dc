{-# LANGUAGE OverloadedStrings #-}

-- | What is passed on and back, and when.
module ReverseProxySpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Millrace.Proxy
import Millrace.Socket.ByteString (recv, sendAll)
import Network.HTTP.Types
import Network.Wai
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "a request" $ do
    it "loses what concerns the connection, and gets what the proxy says" $
      headSeen
        quiet
        "GET /a%20b?c=d HTTP/1.1\r\nHost: front.test\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: \
        \trailers\r\nProxy-Authorization: x\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nExpect: \
        \100-continue\r\nX-End: 2\r\n\r\n"
        `shouldReturn` "GET /a%20b?c=d HTTP/1.1\r\nHost: front.test\r\nX-End: 2\r\nVia: 1.1 millrace\r\n\r\n"
    it "says who the client is, and does not believe what the client says" $ do
      seen <-
        headSeen
          quiet {forwarding = ReplaceForwarded}
          "GET / HTTP/1.1\r\nHost: front.test:80\r\nConnection: close\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: \
          \for=1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\n\r\n"
      seen
        `shouldBe` "GET / HTTP/1.1\r\nHost: front.test:80\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: \
                   \http\r\nX-Forwarded-Host: front.test:80\r\nForwarded: \
                   \for=127.0.0.1;proto=http;host=\"front.test:80\"\r\nVia: 1.1 millrace\r\n\r\n"
    it "adds to what a trusted client says" $ do
      seen <-
        headSeen
          quiet {forwarding = AppendForwarded}
          "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: \
          \https\r\nForwarded: for=1.2.3.4\r\nVia: 1.0 other\r\n\r\n"
      forM_
        [ "X-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n",
          "X-Forwarded-Proto: https\r\n",
          "Forwarded: for=1.2.3.4, for=127.0.0.1;proto=http;host=a\r\n",
          "Via: 1.0 other, 1.1 millrace\r\n"
        ]
        $ \part ->
          seen `shouldSatisfy` (part `ByteString.isInfixOf`)
    it "names the target, or always the same host" $ do
      fixed <- headSeen quiet {hostField = FixedHost "fixed.test"} closingRequest
      fixed `shouldSatisfy` ("\r\nHost: fixed.test\r\n" `ByteString.isInfixOf`)
      own <- headSeen quiet {hostField = TargetHost} closingRequest
      own `shouldSatisfy` ("\r\nHost: 127.0.0.1:" `ByteString.isInfixOf`)
    it "gets identifiers, and keeps valid ones" $ do
      made <- headSeen quiet {tracing = MakeIdentifiers} closingRequest
      other <- headSeen quiet {tracing = MakeIdentifiers} closingRequest
      fmap ByteString.length (valueOf "X-Request-Id" made) `shouldBe` Just 32
      fmap (map ByteString.length . Char8.split '-') (valueOf "traceparent" made) `shouldBe` Just [2, 32, 16, 2]
      valueOf "X-Request-Id" made `shouldNotBe` valueOf "X-Request-Id" other
      let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
      kept <-
        headSeen
          quiet {tracing = MakeIdentifiers}
          ( "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Request-Id: mine\r\ntraceparent: "
              <> trace
              <> "\r\n\r\n"
          )
      (valueOf "X-Request-Id" kept, valueOf "traceparent" kept) `shouldBe` (Just "mine", Just trace)
      refused <-
        headSeen
          quiet {tracing = MakeIdentifiers}
          "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\ntraceparent: \
          \00-00000000000000000000000000000000-00f067aa0ba902b7-01\r\n\r\n"
      valueOf "traceparent" refused `shouldSatisfy` maybe False (not . ("00-0000000000000000" `ByteString.isPrefixOf`))
    forM_ [0, 10, 16384, 16385, 3000000] $ \size ->
      it ("passes a body of " ++ show size ++ " bytes, counted and chunked") $
        withApplicationBehind echo $ \target -> withFront defaultSettings [target] $ \port -> do
          let body = ByteString.take size (ByteString.concat (replicate (size `div` 10 + 1) "0123456789"))
          counted <-
            ask
              port
              ( "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                  <> decimal size
                  <> "\r\n\r\n"
                  <> body
              )
          counted `shouldSatisfy` (("\r\nContent-Length: " <> decimal size <> "\r\n") `ByteString.isInfixOf`)
          (statusOf counted, bodyOf counted == body) `shouldBe` ("200", True)
          chunked <-
            ask
              port
              ( "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                  <> chunksOf body
                  <> "0\r\n\r\n"
              )
          (statusOf chunked, bodyOf chunked == body) `shouldBe` ("200", True)
    it "is answered before all of it was sent" $
      withTarget
        ( \_ peer ->
            receiveHead peer
              >> sendAll peer "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!"
        )
        $ \target ->
          withFront quiet [target] $ \port -> withClient port $ \client -> do
            sendAll client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbeginning"
            answer <- receiveUntil "no!" client
            statusOf answer `shouldBe` "413"
    it "ends when the client leaves" $ do
      ended <- newEmptyMVar
      come <- newEmptyMVar
      withTarget (\_ peer -> receiveHead peer >> putMVar come () >> recv peer 10 >>= putMVar ended) $ \target -> do
        problems <- newMVar []
        withFront quiet {onProblem = \_ reason -> modifyMVar_ problems (return . (problemCause reason :))} [target] $
          \port ->
            do
              withClient port $ \client -> sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> takeMVar come
              within 20 "the end" (takeMVar ended) `shouldReturn` ""
              eventually "the problem" ((== [ClientLeft]) <$> readMVar problems)
    it "ends when the client leaves in the middle of the body" $ do
      ended <- newEmptyMVar
      withTarget (\_ peer -> receiveHead peer >> receiveCount peer maxBound >> putMVar ended ()) $ \target ->
        withFront quiet [target] $ \port -> do
          withClient port $ \client ->
            sendAll client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbeginning"
          within 20 "the end" (takeMVar ended)
    it "ends when the client leaves between two parts of the response" $ do
      ended <- newEmptyMVar
      withTarget
        ( \_ peer ->
            receiveHead peer >> sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf" >> recv peer 10
              >>= putMVar ended
        )
        $ \target ->
          withFront quiet [target] $ \port -> do
            withClient port $ \client ->
              sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> void (receiveUntil "half" client)
            within 20 "the end" (takeMVar ended) `shouldReturn` ""
  describe "a response" $ do
    it "is streamed: each part comes before the next one is made" $ do
      next <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write flush ->
            forM_ ["one\n", "two\n", "three\n"] $ \part -> takeMVar next >> write (byteString part) >> flush
      withApplicationBehind application $ \target -> withFront quiet [target] $ \port -> withClient port $ \client -> do
        sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        forM_ ["one\n", "two\n", "three\n"] $ \part ->
          putMVar next () >> receiveUntil part client >>= (`shouldSatisfy` (part `ByteString.isInfixOf`))
    it "may have no body" $
      withApplicationBehind bodiless $ \target -> withFront quiet [target] $ \port -> withClient port $ \client ->
        -- On one connection: a body where there must be none would be the answer to the next request.
        forM_ [("HEAD", "/", "200"), ("GET", "/204", "204"), ("GET", "/304", "304"), ("HEAD", "/", "200")] $
          \(method, path, code) ->
            do
              sendAll client (method <> " " <> path <> " HTTP/1.1\r\nHost: a\r\n\r\n")
              answer <- receiveUntil "\r\n\r\n" client
              (statusOf answer, bodyOf answer) `shouldBe` (code, "")
    it "may end with the connection, or be chunked with trailers" $ do
      let parts =
            [ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHel",
              "lo\r\n1 ; a=\"b\"\r\n!\r\n000;c\r\nX-T: 1\r\n",
              "\r\n"
            ]
      withTarget (\_ peer -> receiveHead peer >> mapM_ (sendAll peer) parts) $ \target ->
        withFront quiet [target] $ \port ->
          ask port closingRequest >>= \answer -> unchunked (bodyOf answer) `shouldBe` "Hello!"
      withTarget (\_ peer -> receiveHead peer >> sendAll peer "HTTP/1.0 200 OK\r\n\r\nHello!") $ \target ->
        withFront quiet [target] $ \port ->
          ask port "GET / HTTP/1.0\r\n\r\n" >>= \answer -> bodyOf answer `shouldBe` "Hello!"
    it "comes behind other interim responses, which are passed on" $
      withTarget
        ( \_ peer ->
            receiveHead peer
              >> sendAll
                peer
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: \
                \</a>\r\n\r\nHTTP/1.1 199 What\r\nX: y\r\n\r\n"
              >> answerWith peer "done"
        )
        $ \target ->
          withFront quiet [target] $ \port -> do
            answer <- ask port closingRequest
            answer
              `shouldSatisfy` ( "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: \
                                \</a>\r\n\r\nHTTP/1.1 199 What\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n"
                                  `ByteString.isPrefixOf`
                              )
    it "says which protocols are required (426)" $
      withTarget
        ( \_ peer ->
            receiveHead peer
              >> sendAll
                peer
                "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: \
                \websocket\r\nUpgrade: IRC/6.9\r\nContent-Length: 0\r\n\r\n"
        )
        $ \target ->
          withFront quiet [target] $ \port -> do
            answer <- ask port closingRequest
            forM_ ["\r\nConnection: Upgrade\r\n", "\r\nUpgrade: websocket, IRC/6.9\r\n"] $ \line ->
              answer `shouldSatisfy` (line `ByteString.isInfixOf`)
            answer `shouldSatisfy` not . ("X-Hop" `ByteString.isInfixOf`)
    it "says what the target is if that says it, and nothing otherwise" $
      forM_ [("", Nothing), ("Server: own\r\n", Just "own")] $ \(line, expected) ->
        withTarget
          (\_ peer -> receiveHead peer >> sendAll peer ("HTTP/1.1 200 OK\r\n" <> line <> "Content-Length: 0\r\n\r\n"))
          $ \target ->
            withFront quiet [target] $ \port -> valueOf "Server" <$> ask port closingRequest `shouldReturn` expected
  where
    -- The server may cut chunks as it likes.
    unchunked = ByteString.filter (`ByteString.elem` "Helo!")

-- In chunks of 7 and more bytes.
chunksOf :: ByteString -> ByteString
chunksOf body = ByteString.concat (go (7 :: Int) body)
  where
    go size rest
      | ByteString.null rest = []
      | otherwise =
        let (part, others) = ByteString.splitAt size rest
         in [Char8.pack (hex (ByteString.length part)), "\r\n", part, "\r\n"]
              ++ go (min 60000 (2 * size)) others
    hex 0 = "0"
    hex value = reverse (digits value)
    digits 0 = ""
    digits value = let (high, low) = value `divMod` 16 in ("0123456789abcdef" !! low) : digits high

-- What the target receives.
headSeen :: Settings -> ByteString -> IO ByteString
headSeen settings request = do
  seen <- newEmptyMVar
  withTarget (\_ peer -> receiveHead peer >>= mapM_ (putMVar seen) >> answerWith peer "") $ \target ->
    withFront settings [target] $ \port -> ask port request >> unnamed <$> takeMVar seen
  where
    -- What follows the proxy's name is new each time.
    unnamed bytes =
      let (start, found) = ByteString.breakSubstring "millrace-" bytes
       in start
            <> (if ByteString.null found then "" else "millrace" <> ByteString.drop 25 found)

valueOf :: ByteString -> ByteString -> Maybe ByteString
valueOf name bytes = case ByteString.breakSubstring ("\r\n" <> name <> ": ") bytes of
  (_, found)
    | ByteString.null found -> Nothing
    | otherwise -> Just (Char8.takeWhile (/= '\r') (ByteString.drop (ByteString.length name + 4) found))

-- Answers with the body, after all of it has come.
echo :: Application
echo request respond = do
  body <- strictRequestBody request
  respond (responseLBS status200 [(hContentLength, decimal (fromIntegral (Lazy.length body)))] body)

bodiless :: Application
bodiless request respond = respond $ case rawPathInfo request of
  "/204" -> responseLBS status204 [] ""
  "/304" -> responseLBS status304 [] ""
  _ -> responseLBS status200 [] "a body"
