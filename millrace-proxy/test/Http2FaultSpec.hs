{-# LANGUAGE OverloadedStrings #-}

-- | Targets of HTTP\/2 that refuse, reset, break rules, say nothing or die.
module Http2FaultSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (finally)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Frames
import Millrace.Deadline (milliseconds)
import Millrace.Proxy
import Millrace.Socket.ByteString (recv, sendAll)
import Network.Wai.Handler.Millrace (withApplication)
import Support
import Test.Hspec
import TestSupport.Process (descriptorCount)

spec :: Spec
spec = do
  it "sends a request again that was refused unseen" $ do
    let refusing _ peer =
          opening peer
            >> forM_
              [1 ..]
              ( \number ->
                  requestOn peer >>= \stream ->
                    if number == (1 :: Int)
                      then sendAll peer (frame 3 0 stream "\0\0\0\7")
                      else sendAll peer (plainAnswer stream "second")
              )
    withTarget refusing $ \target -> withFront quiet [speaking target] $ \port -> do
      answer <- ask port "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
      bodyOf answer `shouldBe` "second"
  it "sends a request again that is above the last stream of a GOAWAY, on another connection" $ do
    let leaving count peer = do
          opening peer
          stream <- requestOn peer
          if count == 1
            then sendAll peer (frame 7 0 0 "\0\0\0\0\0\0\0\0")
            else sendAll peer (plainAnswer stream "elsewhere")
          void (recv peer 100)
    withTarget leaving $ \target -> withFront quiet [speaking target] $ \port ->
      (bodyOf <$> ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") `shouldReturn` "elsewhere"
  it "answers a reset with 502" $
    withTarget
      (\_ peer -> opening peer >> forever (requestOn peer >>= \stream -> sendAll peer (frame 3 0 stream "\0\0\0\2")))
      $ \target ->
        withFront quiet [speaking target] $ \port ->
          (statusOf <$> ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") `shouldReturn` "502"
  it "answers 502 for a target that does not speak HTTP/2" $
    withTarget (answering (\_ _ -> "one")) $ \target -> withFront quiet [speaking target] $ \port ->
      (statusOf <$> ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") `shouldReturn` "502"
  it "answers 504 for a target that says nothing, and cancels" $ do
    cancelled <- newEmptyMVar
    withTarget
      (\_ peer -> opening peer >> requestOn peer >>= \stream -> awaitReset stream peer >> putMVar cancelled ())
      $ \target ->
        withFront quiet {limits = defaultLimits {firstByteLimit = milliseconds 200}} [speaking target] $ \port -> do
          (statusOf <$> ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") `shouldReturn` "504"
          within 20 "the reset" (takeMVar cancelled)
  it "cancels when the client leaves" $ do
    cancelled <- newEmptyMVar
    withTarget
      (\_ peer -> opening peer >> requestOn peer >>= \stream -> awaitReset stream peer >> putMVar cancelled ())
      $ \target ->
        withFront quiet [speaking target] $ \port -> do
          withClient port (\client -> sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> threadDelayBriefly)
          within 20 "the reset" (takeMVar cancelled)
  forM_ malformed $ \(what, frames) ->
    it ("refuses " ++ what) $
      withTarget (\_ peer -> opening peer >> forever (requestOn peer >>= \stream -> sendAll peer (frames stream))) $
        \target ->
          withFront quiet [speaking target] $ \port -> do
            answer <- ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            -- If the head was good, the client may have it before the proxy knows of the rest. The body is missing
            -- then.
            (statusOf answer, bodyOf answer) `shouldSatisfy` \(status, body) -> status == "502" || body == ""
  it "never takes a response for whole that is not, wherever the target dies" $ do
    let whole = plainAnswer 1 "all of it"
    forM_ [0 .. ByteString.length whole] $ \cut ->
      withTarget (\_ peer -> opening peer >> requestOn peer >> sendAll peer (ByteString.take cut whole)) $ \target ->
        withFront quiet [speaking target] $ \port -> do
          answer <- ask port "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
          if cut == ByteString.length whole
            then bodyOf answer `shouldBe` "all of it"
            else
              (cut, statusOf answer, "\r\n0\r\n\r\n" `ByteString.isSuffixOf` answer)
                `shouldSatisfy` \(_, status, ends) ->
                  status == "502" || not ends
  it "gives every descriptor back, and ends every exchange, however clients and targets leave" $ do
    -- Each connection of the target ends in its own way: after some requests, by a GOAWAY, or in the middle of a frame.
    let moody count peer = do
          opening peer
          forM_ [1 .. count `mod` 4] $ \_ -> requestOn peer >>= \stream -> sendAll peer (plainAnswer stream "fine")
          stream <- requestOn peer
          sendAll peer $ case count `mod` 3 of
            0 -> frame 7 0 0 "\0\0\0\0\0\0\0\0"
            1 -> ByteString.take 12 (plainAnswer stream "cut off")
            _ -> frame 3 0 stream "\0\0\0\7"
    -- The first round opens what the loops keep.
    former <- oneRound moody >> descriptorCount
    oneRound moody
    eventually "as many descriptors as before" ((<= former) <$> descriptorCount)
  where
    oneRound moody =
      withTarget moody $ \target ->
        withWatchedProxy quiet {limits = defaultLimits {failuresMax = 1000000}} [speaking target] $ \proxy states ->
          withApplication (return proxy) $ \port -> do
            done <- newEmptyMVar
            forM_ [1 .. 60 :: Int] $ \number -> forkIO . (`finally` putMVar done ()) . withClient port $ \client -> do
              sendAll
                client
                ( if even number
                    then "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                    else "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\nhalf"
                )
              when (even number) (void (receiveCount client maxBound))
            within 60 "the clients" (replicateM_ 60 (takeMVar done))
            eventually "the end of all exchanges" (all ((== 0) . stateRequests) <$> states)
    threadDelayBriefly = within 20 "waiting" (eventually' 0)
    eventually' :: Int -> IO ()
    eventually' count = if count > 20 then return () else eventually "a moment" (return True) >> eventually' (count + 1)

-- | What a target must not send.
malformed :: [(String, Int -> ByteString)]
malformed =
  [ ( "a length that the body exceeds",
      \stream ->
        frame 1 4 stream ("\x88" <> literal ("content-length", "2")) <> frame 0 1 stream "three"
    ),
    ( "two lengths",
      \stream ->
        frame 1 4 stream ("\x88" <> literal ("content-length", "2") <> literal ("content-length", "3"))
          <> frame 0 1 stream "ab"
    ),
    ( "a field of the connection",
      \stream ->
        frame 1 4 stream ("\x88" <> literal ("transfer-encoding", "chunked")) <> frame 0 1 stream "ab"
    ),
    ("a line end in a value", \stream -> frame 1 4 stream ("\x88" <> literal ("x", "a\r\nb")) <> frame 0 1 stream "ab"),
    ("a name in capitals", \stream -> frame 1 4 stream ("\x88" <> literal ("X", "a")) <> frame 0 1 stream "ab"),
    ("a head without a status", \stream -> frame 1 4 stream (literal ("x", "a")) <> frame 0 1 stream "ab"),
    ("a body before the head", \stream -> frame 0 1 stream "ab"),
    ("a status of HTTP/1.1", \stream -> frame 1 5 stream (literal (":status", "101"))),
    ("a push", \stream -> frame 5 4 stream ("\0\0\0\2" <> "\x82\x84\x86"))
  ]
