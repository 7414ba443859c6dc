{-# LANGUAGE CPP #-}
#if MIN_VERSION_wai(3,2,5)
{-# LANGUAGE OverloadedStrings #-}
#endif

-- | The function that WAI itself has for early hints since 3.2.5.
module EarlyHintsSpec (spec) where

import Test.Hspec
#if MIN_VERSION_wai(3,2,5)
import Http2Client hiding (get, post)
import qualified Http2Client as Http2
import Network.Wai (Application, requestSendEarlyHints)
import Support

spec :: Spec
spec = describe "requestSendEarlyHints (RFC 8297)" $ do
  it "sends a 103 before the response" $
    withServer id hinting $ \port -> do
      bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      map replyStatus (parseReplies bytes) `shouldBe` [103, 200]
      map (headerOf "link") (parseReplies bytes) `shouldBe` [Just "</a>", Nothing]
  it "sends one over HTTP/2" $
    withServer id hinting $ \port -> withHttp2 port $ \http2 -> do
      answer <- ask http2 (Http2.get "/") ""
      map (lookup ":status") (answerInterim answer) `shouldBe` [Just "103"]

hinting :: Application
hinting request respond = requestSendEarlyHints request [("Link", "</a>")] >> pong request respond
#else

spec :: Spec
spec = return ()
#endif
