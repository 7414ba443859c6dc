{-# LANGUAGE OverloadedStrings #-}

-- | Fields over HTTP/2: trailers, cookies, and the limits of heads.
module Http2FieldSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad (forM_, replicateM, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Maybe (fromMaybe)
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import Support hiding (exchange)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  overSocketsAndMemory $ \medium -> do
    let serving application use = withServerOver medium id application (`withHttp2` use)
    it "carries trailers both ways" $ do
      let application request respond = do
            body <- consume request
            trailers <- getRequestTrailers request
            setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = counting 0 trailers})
            respond (responseLBS status200 [] (L.fromStrict body))
          counting sofar _ (Just bytes) = return (NextTrailersMaker (counting (sofar + B.length bytes) []))
          counting sofar _ Nothing = return (Trailers [("X-Count", C8.pack (show (sofar :: Int)))])
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t")])
        answer <- awaitAnswer http2 stream
        (answerBody answer, answerTrailers answer) `shouldBe` ("12345", [("x-count", "5")])
    it "sends no trailers by default, and pushes nothing" $ do
      let application request respond = do
            setHTTP2Data request (Just defaultHTTP2Data {http2dataPushPromise = [promise]})
            respond (responseStream status200 [] (\write flush -> write "1" >> flush >> write "2"))
          promise = defaultPushPromise {promisedPath = "/style.css", promisedFile = "style.css"}
      serving application $ \http2 -> do
        answer <- ask http2 (get "/" []) ""
        (answerBody answer, answerTrailers answer, answerEnd answer) `shouldBe` ("12", [], Complete)
    it "drops trailers that must be in a head, of both sides" $ do
      let application request respond = do
            _ <- consume request
            seen <- getRequestTrailers request
            setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = saying seen})
            respond (responseLBS status200 [] "x")
          saying seen (Just _) = return (NextTrailersMaker (saying seen))
          saying seen Nothing =
            return (Trailers (seen ++ [("Content-Length", "9"), ("Set-Cookie", "a=b"), ("X-Own", "1")]))
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t"), ("host", "b"), ("authorization", "forged")])
        (answerTrailers <$> awaitAnswer http2 stream) `shouldReturn` [("x-trailer", "t"), ("x-own", "1")]
    it "drops a length in trailers" $ do
      let application request respond =
            consume request >> getRequestTrailers request
              >>= respond . responseLBS status200 [] . L.fromStrict . C8.pack . show
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t"), ("content-length", "5")])
        (answerBody <$> awaitAnswer http2 stream) `shouldReturn` "[(\"x-trailer\",\"t\")]"
    it "lets an application see the client's trailers" $ do
      let application request respond =
            consume request >> getRequestTrailers request
              >>= respond . responseLBS status200 [] . L.fromStrict . C8.pack . show
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t")])
        (answerBody <$> awaitAnswer http2 stream) `shouldReturn` "[(\"x-trailer\",\"t\")]"
    it "joins the parts of a cookie" $
      serving
        ( \request respond ->
            respond (responseLBS status200 [] (L.fromStrict (fromMaybe "" (lookup "Cookie" (requestHeaders request)))))
        )
        $ \http2 ->
          (answerBody <$> ask http2 (get "/" [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d")]) "")
            `shouldReturn` "a=b; c=d"
    it "counts the parts of a cookie as one field, and their bytes as HTTP/1 does" $
      serving
        ( \request respond ->
            respond (responseLBS status200 [] (maybe "" L.fromStrict (lookup "Cookie" (requestHeaders request))))
        )
        $ \http2 -> do
          let crumbs count size = replicate count ("cookie", B.replicate size 97)
          answer <- ask http2 (get "/" (crumbs 400 100)) ""
          (answerStatus answer, answerBody answer)
            `shouldBe` (Just 200, B.intercalate "; " (replicate 400 (B.replicate 100 97)))
          (answerStatus <$> ask http2 (get "/" (crumbs 502 100)) "") `shouldReturn` Just 431
          (answerStatus <$> ask http2 (get "/" (crumbs 10 100 ++ [("x", "y") | _ <- [1 .. 128 :: Int]])) "")
            `shouldReturn` Just 431
    it "refuses a name that is longer than those of HTTP/1 can be, whatever the limit of heads is" $
      withServer (setMaxTotalHeaderLength 1000000) pong $ \port -> withHttp2 port $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" [(B.replicate 65535 97, "x")]) "") `shouldReturn` Just 200
        (answerStatus <$> ask http2 (get "/" [(B.replicate 65536 97, "x")]) "") `shouldReturn` Just 431
    it "refuses requests while unfinished heads are too large together, and takes them afterwards" $
      do
        gate <- newEmptyMVar
        let application request respond = when (rawPathInfo request == "/wait") (readMVar gate) >> pong request respond
            heavy = get "/wait" [("x", B.replicate 15000 97)]
        serving application $ \http2 -> do
          streams <- replicateM 70 (openStream http2 [EndStream] heavy)
          events <- eventsUntil (\event -> any (`isReset` event) streams) http2
          [code | GotReset _ code <- events] `shouldBe` [RefusedStream]
          putMVar gate ()
          ends <- mapM (awaitAnswer http2) streams
          length [() | answer <- ends, answerStatus answer == Just 200]
            `shouldSatisfy` (\count -> count >= 40 && count < 70)
          [code | ResetWith code <- map answerEnd ends] `shouldSatisfy` all (== RefusedStream)
          (answerStatus <$> ask http2 heavy "") `shouldReturn` Just 200
    it "counts small fields of unfinished requests for what they take, and trailers" $ do
      gate <- newEmptyMVar
      let application request respond = when (rawPathInfo request == "/wait") (readMVar gate) >> pong request respond
          codesOf http2 streams =
            (\events -> [code | GotReset _ code <- events])
              <$> eventsUntil (\event -> any (`isReset` event) streams) http2
      serving application $ \http2 -> do
        streams <- replicateM 70 (openStream http2 [EndStream] (get "/wait" [("x", "y") | _ <- [1 .. 120 :: Int]]))
        codesOf http2 streams `shouldReturn` [RefusedStream]
      serving application $ \http2 -> do
        streams <- replicateM 70 (openStream http2 [] (post "/wait" []))
        forM_ streams $ \stream -> sendFrames http2 (block stream [EndStream] [("x", B.replicate 15000 97)])
        codesOf http2 streams `shouldReturn` [EnhanceYourCalm]
        putMVar gate ()
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
