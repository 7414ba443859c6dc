{-# LANGUAGE OverloadedStrings #-}

-- | How an application may respond: in another thread, once, and in time.
module RespondSpec (spec) where

import Control.Concurrent (forkIO, killThread, myThreadId, threadDelay, yield)
import Control.Concurrent.Async (async, wait)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (forM_, forever, replicateM_, unless, void, when)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Either (isLeft)
import Data.IORef
import FaultSupport
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.IO.Unsafe (unsafePerformIO)
import Test.Hspec

spec :: Spec
spec = do
  describe "applications that respond in another thread" $ do
    forM_
      [ ("a body", responseLBS status200 [] "whole"),
        ("a stream", responseStream status200 [] (\write flush -> write "wh" >> flush >> write "ole")),
        ("a file", responseFile status200 [] "LICENSE" Nothing)
      ]
      $ \(what, response) ->
        it ("are served like others: " ++ what) $ do
          let application _ respond = do
                received <- newEmptyMVar
                void (forkIO (respond response >>= putMVar received))
                takeMVar received
          withServer id application $ \port -> do
            replies <-
              parseReplies
                <$> exchange
                  port
                  ( B.append
                      "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                  )
            map replyStatus replies `shouldBe` [200, 200]
            map (B.null . replyBody) replies `shouldBe` [False, False]
    it "may try again in their own when it failed there before anything was sent" $ do
      let application request respond = do
            failed <- newEmptyMVar
            void (forkIO (attempt (respond (responseLBS status200 [] (error "lazy"))) >>= putMVar failed))
            takeMVar failed `shouldReturn` True
            pong request respond
      withServer id application $ \port -> do
        bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
        map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
    forM_
      [ (how, end, what, response)
        | (how, end) <-
            [("throw", throwIO Fault), ("get two exceptions at once", twoAtOnce)],
          (what, response) <-
            [ ("a large body", responseLBS status200 [] (L.replicate 50000000 0x78)),
              ( "an endless stream",
                responseStream
                  status200
                  []
                  (\write _ -> forever (write (byteString (C8.replicate 100000 'x'))))
              )
            ]
      ]
      $ \(how, end, what, response) ->
        it
          ( "and "
              ++ how
              ++ " while that one sends "
              ++ what
              ++ " to a client that does not read: the connection ends, and no other"
          )
          $ do
            (enough, outcome) <- (,) <$> newEmptyMVar <*> newEmptyMVar
            let application request respond
                  | rawPathInfo request == "/pong" = pong request respond
                  | otherwise = do
                    void (forkIO (attempt (respond response) >>= putMVar outcome))
                    takeMVar enough
                    end
            withServer id application $ \port -> do
              withSmallConnection port $ \client -> do
                send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                begun <- receiveSome client 1000
                -- Until the buffers on the way are full.
                threadDelay 200000
                putMVar enough ()
                within "the other thread's end" (takeMVar outcome) `shouldReturn` True
                rest <- receiveAll client
                parseReply (B.append begun rest) `shouldBe` Nothing
              statusOf <$> exchange port "GET /pong HTTP/1.0\r\n\r\n" `shouldReturn` 200

  describe "applications that misuse respond" $ do
    it "a second response is refused, and the first arrives" $ do
      second <- newIORef Nothing
      let application request respond = do
            _ <- pong request respond
            outcome <- try (pong request respond)
            writeIORef second (Just outcome)
            either throwIO return outcome
      withServer id application $ \port -> do
        bytes <- exchange port twice
        map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
        outcome <- readIORef second
        (outcome >>= either Just (const Nothing)) `shouldBe` Just RespondedTwice
    forM_
      [ ( "a stream, nothing of which has been sent",
          \awaiting ->
            responseStream status200 [] (\write _ -> write "first" >> awaiting)
        ),
        ( "a body that is lazy",
          \awaiting ->
            responseLBS status200 [] (L.fromStrict "fir" <> unsafePerformIO ("st" <$ awaiting))
        )
      ]
      $ \(what, response) ->
        it ("so is one of another thread while the first is made: " ++ what) $ do
          (begun, gate, outcome) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
          let application request respond = do
                void (forkIO (takeMVar begun >> try (pong request respond) >>= putMVar outcome))
                respond (response (putMVar begun () >> takeMVar gate))
          withServer id application $ \port -> withConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            second <- within "the second response" (takeMVar outcome)
            either Just (const Nothing) second `shouldBe` Just RespondedTwice
            putMVar gate ()
            map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["first"]
    it "so is one within the first" $ do
      inner <- newEmptyMVar
      let application request respond = respond . responseStream status200 [] $ \write _ -> do
            write "fir"
            try (pong request respond) >>= putMVar inner
            write "st"
      withServer id application $ \port -> do
        bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        map replyBody (parseReplies bytes) `shouldBe` ["first"]
        either Just (const Nothing) <$> takeMVar inner `shouldReturn` Just RespondedTwice
    it "of two threads that respond at once one is served, and the other is refused" $ do
      let size = 100000
          application request respond = do
            start <- newIORef False
            let answering letter = do
                  readIORef start >>= \started -> unless started yield
                  try (respond (responseLBS status200 [] (L.replicate size letter))) ::
                    IO (Either InvalidResponse ResponseReceived)
            other <- async (answering 0x61)
            writeIORef start True
            mine <- answering 0x62
            theirs <- wait other
            case (mine, theirs) of
              (Right received, Left RespondedTwice) -> return received
              (Left RespondedTwice, Right received) -> return received
              _ -> pong request respond
      withServer id application $ \port -> withConnection port $ \client ->
        replicateM_ 1000 $ do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          body <- replyBody <$> receiveResponse client
          map (`C8.count` body) "ab" `shouldSatisfy` (`elem` [[fromIntegral size, 0], [0, fromIntegral size]])
    it "one that is refused does not hold the first back" $ do
      (kept, gate) <- (,) <$> newIORef (return ()) <*> newEmptyMVar
      let application request respond
            | rawPathInfo request == "/keep" = writeIORef kept (void (pong request respond)) >> pong request respond
            | otherwise = do
              received <- pong request respond
              late <- if rawPathInfo request == "/late" then readIORef kept else return (void (pong request respond))
              attempt late `shouldReturn` True
              received <$ takeMVar gate
      withServer id application $ \port -> withConnection port $ \client ->
        forM_ [("/keep", False), ("/late", True), ("/twice", True)] $ \(path, waits) -> do
          send client (C8.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          when waits (putMVar gate ())
    it "another response may replace one that failed before anything was sent" $ do
      let application request respond = do
            outcome <- try (respond (responseLBS status200 [] (error "lazy")))
            case outcome :: Either SomeException ResponseReceived of
              Right received -> return received
              Left _ -> pong request respond
      withServer id application $ \port -> do
        bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
        map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
    it "responding when the request is over is refused" $ do
      kept <- newIORef (return ())
      let application request respond = do
            writeIORef kept (void (pong request respond))
            pong request respond
      withServer id application $ \port -> do
        _ <- exchange port "GET / HTTP/1.0\r\n\r\n"
        late <- readIORef kept
        whenOver (== Left RespondedTwice) late `shouldReturn` Left UsedTooLate
  where
    -- The second exception waits for the first one's handler.
    twoAtOnce = do
      self <- myThreadId
      mask_ $ do
        replicateM_ 2 (forkIO (killThread self))
        uninterruptibleMask_ (threadDelay 50000)
      threadDelay 1000000000
      throwIO Fault
    -- Does it throw?
    attempt action = isLeft <$> (try (void action) :: IO (Either SomeException ()))
