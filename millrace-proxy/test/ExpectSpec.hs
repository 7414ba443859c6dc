{-# LANGUAGE OverloadedStrings #-}

-- | Clients that wait for 100 (Continue) before they send a body.
module ExpectSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Frames (speaking)
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (recv, sendAll)
import Network.HTTP.Types
import Network.Wai
import Support
import Test.Hspec

spec :: Spec
spec = do
  forM_ [4, 100000] $ \size -> describe ("with a body of " ++ show size ++ " bytes") $ do
    it "get a final answer before they have sent any of it" $ do
      rest <- newEmptyMVar
      withTarget
        ( \_ peer ->
            receiveHead peer >>= \found ->
              sendAll peer "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!" >> recv peer 10 >>= \more ->
                putMVar rest (found, more)
        )
        $ \target ->
          withFront quiet [target] $ \port -> withClient port $ \client -> do
            sendAll client (expecting size)
            answer <- receiveUntil "no!" client
            answer `shouldSatisfy` ("HTTP/1.1 413 " `ByteString.isPrefixOf`)
            (found, more) <- within 20 "the target's end" (takeMVar rest)
            found `shouldSatisfy` maybe False ("\r\nExpect: 100-continue\r\n" `ByteString.isInfixOf`)
            more `shouldBe` ""
    it "are told to go on when the target says so" $
      withTarget (\_ peer -> receiveHead peer >> sendAll peer "HTTP/1.1 100 Continue\r\n\r\n" >> taking size peer) $
        \target ->
          withFront quiet [target] $ \port -> continued port size
    it "are told to go on by the proxy if the target says nothing" $
      withTarget (\_ peer -> receiveHead peer >> taking size peer) $ \target ->
        withFront quiet [target] $ \port -> continued port size
    it "may send at once" $
      withTarget
        ( \_ peer ->
            receiveHead peer
              >>= maybe
                (return ())
                ( \found ->
                    unless
                      ("\r\n\r\n" `ByteString.isSuffixOf` found)
                      (sendAll peer "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
                )
                >> taking size peer
        )
        $ \target ->
          withFront quiet [target] $ \port -> withClient port $ \client -> do
            sendAll client (expecting size <> ByteString.replicate size 120)
            receiveUntil "took it" client >>= (`shouldSatisfy` ("HTTP/1.1 200 OK\r\n" `ByteString.isInfixOf`))
    it "get a final answer of a target that speaks HTTP/2, too" $
      withApplicationBehind refusing $ \target ->
        withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
          sendAll client (expecting size)
          receiveUntil "no!" client >>= (`shouldSatisfy` ("HTTP/1.1 413 " `ByteString.isPrefixOf`))
    it "are told to go on by a target that speaks HTTP/2, too" $
      withApplicationBehind accepting $ \target -> withFront quiet [speaking target] $ \port -> continued port size
  it "of HTTP/1.0 do not wait, and no target is told so" $ do
    seen <- newEmptyMVar
    withTarget (\_ peer -> receiveHead peer >>= putMVar seen >> answerWith peer "done") $ \target ->
      withFront quiet [target] $ \port -> do
        _ <- ask port "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody"
        takeMVar seen
          >>= ( `shouldSatisfy`
                  maybe
                    False
                    (\found -> not ("Expect" `ByteString.isInfixOf` found) && "body" `ByteString.isSuffixOf` found)
              )
  where
    continued port size = withClient port $ \client -> do
      sendAll client (expecting size)
      receiveUntil "\r\n\r\n" client `shouldReturn` "HTTP/1.1 100 Continue\r\n\r\n"
      sendAll client (ByteString.replicate size 120)
      receiveUntil "took it" client >>= (`shouldSatisfy` ("HTTP/1.1 200 OK\r\n" `ByteString.isPrefixOf`))
    refusing _ respond = respond (responseLBS status413 [] "no!")

expecting :: Int -> ByteString
expecting size = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " <> number size <> "\r\n\r\n"
  where
    number 4 = "4"
    number _ = "100000"

taking :: Int -> Socket -> IO ()
taking size peer =
  receiveCount peer size >>= \body -> when (body == ByteString.replicate size 120) (answerWith peer "took it")

accepting :: Application
accepting request respond = do
  body <- strictRequestBody request
  respond (responseLBS status200 [] (if Lazy.all (== 120) body then "took it" else "other"))
