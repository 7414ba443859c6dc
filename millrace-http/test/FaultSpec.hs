{-# LANGUAGE OverloadedStrings #-}

-- | Applications that throw, and clients that leave.
module FaultSpec (spec) where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, myThreadId, threadDelay, throwTo, yield)
import Control.Concurrent.Async (async, wait)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically, check)
import Control.Exception
  ( AsyncException (..),
    Exception (..),
    IOException,
    SomeException,
    catch,
    mask_,
    throw,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM_, forever, replicateM_, unless, void, when)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Either (isLeft)
import Data.IORef
import Data.Maybe (isJust)
import GHC.Conc (ThreadStatus (..), threadStatus)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)
import Test.Hspec

data Fault = Fault
  deriving (Eq, Show)

instance Exception Fault

spec :: Spec
spec = do
  describe "applications that throw before anything was sent" $
    forM_ early $ \(what, application) -> do
      it (what ++ ": a 500, one report, and the connection goes on") $ do
        reports <- newIORef []
        withServer
          (setOnException (\request failure -> modifyIORef' reports ((fmap rawPathInfo request, failure) :)))
          application
          $ \port ->
            do
              bytes <-
                exchange
                  port
                  "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
              map (\reply -> (replyStatus reply, replyBody reply)) (parseReplies bytes)
                `shouldBe` replicate 2 (500, "Something went wrong")
              reported <- readIORef reports
              map fst (reverse reported) `shouldBe` [Just "/1", Just "/2"]

  describe "applications that end the connection" $ do
    forM_
      [ ("an asynchronous exception", id, throwIO ThreadKilled),
        ("a response for exceptions that throws itself", setOnExceptionResponse (\_ -> throw Fault), throwIO Fault)
      ]
      $ \(what, change, end) ->
        it ("by " ++ what ++ ": what was answered before arrives") $ do
          let application request respond
                | rawPathInfo request == "/end" = end
                | otherwise = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))
          withServer change application $ \port -> do
            bytes <-
              exchange
                port
                (C8.concat ["GET " <> path <> " HTTP/1.1\r\nHost: a\r\n\r\n" | path <- ["/1", "/2", "/end", "/4"]])
            map replyBody (parseReplies bytes) `shouldBe` ["/1", "/2"]
    it "a response for exceptions that throws itself is reported, to bad requests too" $ do
      reports <- newIORef []
      withServer
        (setOnException (\_ failure -> modifyIORef reports (failure :)) . setOnExceptionResponse (\_ -> throw Fault))
        pong
        $ \port ->
          exchange port "GET / HTTP/1.1\r\n\r\n" `shouldReturn` ""
      map fromException <$> readIORef reports `shouldReturn` [Just Fault, Nothing]

  describe "clients that send more than they should" $ do
    it "9.6: a body that nobody wants is taken off their hands, so that they see the answer" $
      withServer (setMaximumBodySize (Just 10)) pong $ \port -> do
        let size = 20000000 :: Int
            body = C8.replicate size 'x'
        bytes <-
          exchange
            port
            (C8.concat ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C8.pack (show size), "\r\n\r\n", body])
        statusOf bytes `shouldBe` 413
    it "9.6: an empty line behind the last request, come meanwhile, does not reset the connection" $ do
      entered <- newEmptyMVar
      sent <- newEmptyMVar
      let application _ respond = do
            putMVar entered ()
            takeMVar sent
            respond (responseLBS status200 [] "whole")
      withServer id application $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        takeMVar entered
        send client "\r\n"
        putMVar sent ()
        -- Time for a reset to arrive: receiving would fail then.
        threadDelay 200000
        bytes <- receiveAll client
        map replyBody (parseReplies bytes) `shouldBe` ["whole"]
    it "9.6: requests behind the last one that is answered do not take the answer away from a slow reader" $ do
      let answer = C8.replicate 40000 'x'
      withServer id (\_ respond -> respond (responseLBS status200 [("Connection", "close")] (L.fromStrict answer))) $
        \port ->
          withSmallConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            threadDelay 100000
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            threadDelay 100000
            bytes <- receiveAll client
            map (B.length . replyBody) (parseReplies bytes) `shouldBe` [40000]

  describe "applications that throw what is the client's fault" $
    forM_ [(PayloadTooLarge, 413), (RequestHeaderFieldsTooLarge, 431), (BadRequest "what", 400)] $ \(reason, status) ->
      it (show reason ++ ": " ++ show status ++ ", and the connection is closed") $
        withServer id (\_ _ -> throwIO reason) $ \port -> do
          bytes <- exchange port twice
          map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
            `shouldBe` [(status, Just "close")]

  describe "applications that throw an exception with the answer to it" $ do
    let with = FailedWithAnswer (responseLBS (mkStatus 418 "I'm a teapot") [] "a page")
    it "it is sent, the exception is reported, and the connection goes on" $ do
      reports <- newIORef []
      withServer
        (setOnException (\_ failure -> modifyIORef reports (fromException failure :)))
        (\_ _ -> throwIO (with (toException Fault)))
        $ \port ->
          do
            bytes <- exchange port twiceAndEnd
            map (\reply -> (replyStatus reply, replyBody reply)) (parseReplies bytes)
              `shouldBe` replicate 2 (418, "a page")
      readIORef reports `shouldReturn` [Just Fault, Just Fault]
    it "it is sent, and the connection is closed if the exception is the client's fault" $
      withServer id (\_ _ -> throwIO (with (toException PayloadTooLarge))) $ \port -> do
        bytes <- exchange port twice
        map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
          `shouldBe` [(418, Just "close")]
    it "it takes the place of an answer of which nothing was sent" $
      withServer id (streaming (\write _ -> write "some" >> throwIO (with (toException Fault)))) $ \port ->
        exchange port twiceAndEnd >>= (`shouldBe` [418, 418]) . map replyStatus . parseReplies
    it "it does not take the place of one in the middle of the body" $
      withServer id (streaming (\write flush -> write "some" >> flush >> throwIO (with (toException Fault)))) $ \port ->
        exchange port twice >>= (`shouldSatisfy` B.isSuffixOf "00000004\r\nsome\r\n")

  describe "applications that throw after something was sent" $ do
    it "the connection is closed in the middle of the body" $
      withServer id (streaming (\write flush -> write "some" >> flush >> throwIO Fault)) $ \port -> do
        bytes <- exchange port twice
        bytes `shouldSatisfy` B.isSuffixOf "00000004\r\nsome\r\n"
    forM_ [("chunked", []), ("of a known length", [("Content-Length", "40000000")])] $ \(framing, fields) ->
      it ("sending that is interrupted and goes on, " ++ framing ++ ": the connection ends, for a part is missing") $ do
        interrupted <- newEmptyMVar
        let piece = byteString (C8.replicate 20000000 'x')
            impatient write _ = do
              outcome <- timeout 300000 (write piece)
              putMVar interrupted outcome
              mapM_ (const (write piece)) outcome
              void (try (write (byteString "rest")) :: IO (Either SomeException ()))
        withServer id (\_ respond -> respond (responseStream status200 fields impatient)) $ \port ->
          withSmallConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
            within "the interruption" (takeMVar interrupted) `shouldReturn` Nothing
            bytes <- receiveAll client
            parseReply bytes `shouldBe` Nothing
            bytes `shouldNotSatisfy` B.isSuffixOf "0\r\n\r\n"
    forM_ [("chunked", []), ("of a known length", [("Content-Length", "2000000")])] $ \(framing, fields) ->
      it
        ( "a body that is lazy, "
            ++ framing
            ++ ", with a bottom far behind: it ends in the middle, is reported once, and nothing follows"
        )
        $ do
          reports <- newIORef []
          let body = L.fromChunks (replicate 10 (C8.replicate 100000 'x')) <> error "body"
          withServer
            (setOnException (\request _ -> modifyIORef' reports (fmap rawPathInfo request :)))
            (\_ respond -> respond (responseLBS status200 fields body))
            $ \port ->
              do
                bytes <- exchange port twice
                parseReply bytes `shouldBe` Nothing
                B.length bytes `shouldSatisfy` (> 500000)
                snd (B.breakSubstring "HTTP/1.1" (B.drop 1 bytes)) `shouldBe` ""
                readIORef reports `shouldReturn` [Just "/"]
    it "a streaming echo that throws gets no second response into its body" $ do
      let application request respond = respond . responseStream status200 [] $ \write flush -> do
            bytes <- getRequestBodyChunk request
            write (byteString bytes)
            flush
            more <- getRequestBodyChunk request
            write (byteString more)
            throwIO Fault
      withServer id application $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        (begun, _) <- receiveUntilThere "hello" 1 200000 client
        begun `shouldSatisfy` B.isInfixOf "hello"
        send client "5\r\nworld\r\n0\r\n\r\n"
        rest <- receiveAll client
        rest `shouldNotSatisfy` B.isInfixOf "HTTP/1.1"
    it "after it has responded: the response arrives, and the connection is closed" $
      withServer id (\request respond -> pong request respond >> throwIO Fault) $ \port -> do
        bytes <- exchange port twice
        map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
    it "with what it returns, which is lazy: the response arrives, and its request is reported" $ do
      reports <- newIORef []
      withServer
        (setOnException (\request failure -> modifyIORef' reports ((rawPathInfo <$> request, fromException failure) :)))
        (\request respond -> throw Fault <$ pong request respond)
        $ \port ->
          do
            bytes <- exchange port twice
            map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
            readIORef reports `shouldReturn` [(Just "/", Just Fault)]

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
        late `shouldThrow` (== UsedTooLate)

  describe "exceptions of the server" $ do
    it "setOnExceptionResponse chooses the response, to bad requests too" $
      withServer (setOnExceptionResponse (const (responseLBS status503 [] "custom"))) (\_ _ -> throwIO Fault) $ \port ->
        do
          bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
          map replyBody (parseReplies bytes) `shouldBe` ["custom"]
          refused <- exchange port "nonsense\r\n\r\n"
          map replyBody (parseReplies refused) `shouldBe` ["custom"]
    it "bad requests are reported as InvalidRequest, and not displayed by default" $ do
      reports <- newIORef []
      withServer (setOnException (\_ failure -> modifyIORef' reports (failure :))) pong $ \port -> do
        _ <- exchange port "GET / HTTP/1.1\r\nHost : a\r\n\r\n"
        failures <- readIORef reports
        map (\failure -> isJust (fromException failure :: Maybe InvalidRequest)) failures `shouldBe` [True]
        map defaultShouldDisplayException failures `shouldBe` [False]

    forM_ [("417", "Expect: x\r\n"), ("413", "Content-Length: 99\r\n"), ("400", "Host: b\r\n")] $ \(status, field) ->
      it ("RFC 9110, 9.3.2: a HEAD that is refused with " ++ status ++ " gets no content") $
        withServer (setMaximumBodySize (Just 10)) pong $ \port -> do
          bytes <- exchange port (B.concat ["HEAD / HTTP/1.1\r\nHost: a\r\n", field, "\r\n"])
          bytes `shouldSatisfy` B.isPrefixOf (C8.pack ("HTTP/1.1 " ++ status))
          snd (B.breakSubstring "\r\n\r\n" bytes) `shouldBe` "\r\n\r\n"

    it "that end a connection from outside are reported, ThreadKilled too where it is not the server's end" $ do
      reports <- newIORef []
      closed <- newEmptyMVar
      let settings =
            setOnException (\request failure -> modifyIORef' reports ((isJust request, fromException failure) :))
              . setOnClose (\_ -> putMVar closed ())
      withServer settings (\_ _ -> throwIO ThreadKilled) $ \port -> do
        exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n" `shouldReturn` ""
        within "the end of the connection" (takeMVar closed)
        awaitReport reports
      readIORef reports `shouldReturn` [(False, Just ThreadKilled)]

  describe "an asynchronous exception that is bottom" $
    forM_
      [ ("in setOnOpen", setOnOpen (\_ -> throwIO bottom), pong),
        ("in an application", id, \_ _ -> throwIO bottom),
        ("in setOnClose", setOnClose (\_ -> throwIO bottom), pong)
      ]
      $ \(place, change, application) ->
        it (place ++ ": the connection is closed, and counted no longer") $ do
          let silently = setFork (\serve -> void (forkIOWithUnmask (\unmask -> serve unmask `catch` unsaid)))
          (state, settings) <- makeServerState (change (silently defaultSettings))
          withApplicationSettings settings (return application) $ \port -> within "the end of the connection" $ do
            void
              ( try (exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") ::
                  IO (Either IOException B.ByteString)
              )
            atomically (currentOpenConnectionsSTM state >>= check . (== 0))

  describe "clients that leave" $ do
    it "end only their own connection" $
      withServer id (streaming (\write flush -> forever (write (byteString (C8.replicate 10000 'x')) >> flush))) $
        \port ->
          forM_ [1 .. 20 :: Int] $ \_ -> withConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            bytes <- receive client
            bytes `shouldSatisfy` B.isPrefixOf "HTTP/1.1 200"
    it "make the application's sending fail, which is not displayed by default" $ do
      failed <- newEmptyMVar
      reports <- newIORef []
      let writing write flush =
            forever (write (byteString (C8.replicate 10000 'x')) >> flush) `catch` \failure ->
              putMVar failed () >> throwIO (failure :: IOException)
          onException _ failure = modifyIORef' reports (defaultShouldDisplayException failure :)
      leaving (setOnException onException) (streaming writing)
      within "the application's failure" (takeMVar failed)
      readIORef reports `shouldReturn` [False]
    forM_
      [ ("a large file", large),
        ("a large body", \_ respond -> respond (responseLBS status200 [] (L.replicate 50000000 0x78)))
      ]
      $ \(what, application) ->
        it ("while " ++ what ++ " is sent end their connection, without any time limit") (leaving id application)
    it "onOpen may refuse a connection, and onClose sees every end" $ do
      opened <- newIORef (0 :: Int)
      closed <- newIORef (0 :: Int)
      let wanted _ = atomicModifyIORef' opened (\count -> (count + 1, even count))
          counting _ = atomicModifyIORef' closed (\count -> (count + 1, ()))
      withServer (setOnOpen wanted . setOnClose counting) pong $ \port -> do
        answers <- mapM (const (try (exchange port "GET / HTTP/1.0\r\n\r\n"))) [1 .. 6 :: Int]
        map (either nothing (B.take 12)) answers
          `shouldBe` ["HTTP/1.1 200", "", "HTTP/1.1 200", "", "HTTP/1.1 200", ""]
      readIORef closed `shouldReturn` 6
    it "onOpen that throws is reported and ends the connection, and onClose is not for it" $ do
      reports <- newIORef []
      closed <- newIORef (0 :: Int)
      let settings =
            setOnOpen (\_ -> throwIO Fault)
              . setOnClose (\_ -> modifyIORef closed (+ 1))
              . setOnException (\_ failure -> modifyIORef reports (fromException failure :))
      withServer settings pong $ \port -> do
        answer <- try (exchange port "GET / HTTP/1.0\r\n\r\n")
        either nothing id answer `shouldBe` ""
      readIORef reports `shouldReturn` [Just Fault]
      readIORef closed `shouldReturn` 0
    it "an exception from outside does not come between what onOpen does and its end: what it has begun, onClose ends" $
      do
        reports <- newIORef []
        opened <- newIORef (0 :: Int)
        closed <- newEmptyMVar
        let opening _ = do
              thread <- myThreadId
              modifyIORef opened (+ 1)
              thrower <- forkIO (throwTo thread Fault)
              True <$ awaitThrown thrower
            settings =
              setOnOpen opening
                . setOnClose (\_ -> putMVar closed ())
                . setOnException (\_ failure -> modifyIORef reports (fromException failure :))
        withServer settings pong $ \port -> do
          answer <- try (exchange port "GET / HTTP/1.0\r\n\r\n")
          either nothing id answer `shouldBe` ""
          within "the end of the connection" (takeMVar closed)
          awaitReport reports
        readIORef opened `shouldReturn` 1
        readIORef reports `shouldReturn` [Just Fault]
  where
    awaitReport reports =
      untilQuick
        (fmap (\reported -> if null reported then Nothing else Just ()) (threadDelay 10000 >> readIORef reports))
    -- Between capabilities an exception is a message. A thread takes it up when it next yields.
    awaitThrown thrower =
      threadStatus thrower >>= \status -> yield >> when (status == ThreadRunning) (awaitThrown thrower)
    twice = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    twiceAndEnd = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    -- The second exception waits for the first one's handler.
    twoAtOnce = do
      self <- myThreadId
      mask_ $ do
        replicateM_ 2 (forkIO (killThread self))
        uninterruptibleMask_ (threadDelay 50000)
      threadDelay 1000000000
      throwIO Fault
    -- A sparse file: it takes no space on the disk.
    large _ respond = withFolder $ \folder -> do
      withBinaryFile (folder </> "large") WriteMode (`hSetFileSize` 50000000)
      respond (responseFile status200 [] (folder </> "large") Nothing)
    unsaid :: SomeException -> IO ()
    unsaid _ = return ()
    bottom :: AsyncException
    bottom = error "bottom"
    nothing :: IOError -> B.ByteString
    nothing _ = ""
    -- Does it throw?
    attempt action = isLeft <$> (try (void action) :: IO (Either SomeException ()))
    streaming body _ respond = respond (responseStream status200 [] body)

-- A client leaves when the first bytes are there. Returns when the server, which sets no time limit, has noticed.
leaving :: (Settings -> Settings) -> Application -> IO ()
leaving change application = do
  closed <- newEmptyMVar
  withServer (change . setTimeout 0 . setOnClose (\_ -> putMVar closed ())) application $ \port -> do
    _ <- withSmallConnection port $ \client -> send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveSome client 100
    within "the end of the connection" (takeMVar closed)

early :: [(String, Application)]
early =
  [ ("at once", \_ _ -> throwIO Fault),
    ("in the status", \_ respond -> respond (responseLBS (error "status") [] "")),
    ("in the status code", \_ respond -> respond (responseLBS (Status (error "code") "") [] "")),
    ("in the reason", \_ respond -> respond (responseLBS (Status 200 (error "reason")) [] "")),
    ("in the name of a field", \_ respond -> respond (responseLBS status200 [(error "name", "x")] "")),
    ( "in the list of fields behind the first",
      \_ respond ->
        respond (responseLBS status200 (("X", "y") : error "fields") "")
    ),
    ("in the path of a file", \_ respond -> respond (responseFile status200 [] (error "path") Nothing)),
    ("in the part of a file", \_ respond -> respond (responseFile status200 [] "LICENSE" (Just (error "part")))),
    ("in the list of fields", \_ respond -> respond (responseLBS status200 (error "fields") "")),
    ("in a field", \_ respond -> respond (responseLBS status200 [("X", error "value")] "")),
    ("in the body", \_ respond -> respond (responseLBS status200 [] (error "body"))),
    ("in the response", \_ respond -> respond (error "response")),
    ("at the start of a stream", \_ respond -> respond (responseStream status200 [] (\_ _ -> throwIO Fault))),
    ( "in a stream, before it was flushed",
      \_ respond ->
        respond (responseStream status200 [] (\write _ -> write "some" >> throwIO Fault))
    )
  ]
