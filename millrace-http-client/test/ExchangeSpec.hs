{-# LANGUAGE OverloadedStrings #-}

-- | Requests and responses over plain connections, mostly with millrace-http as server.
module ExchangeSpec (spec) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Millrace.Deadline
import Millrace.Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Timer (finishBefore, threadDelay)
import Network.HTTP.Client hiding (path, port, withResponse)
import qualified Network.HTTP.Client as Client
import Network.HTTP.Client.Internal (connectionRead, connectionWrite)
import Network.HTTP.Client.Millrace
import Network.HTTP.Client.TLS (setGlobalManager)
import qualified Network.HTTP.Simple as Simple
import Network.HTTP.Types (status200)
import Network.Wai (Application, rawPathInfo, responseLBS, responseStream, strictRequestBody)
import qualified Network.Wai.Handler.Millrace as Server
import Support
import Test.Hspec
import TestSupport.Time (within)

spec :: Spec
spec = do
  it "brings bodies there and back" $
    Server.testWithApplication (return echo) $ \port -> do
      manager <- managerWith defaultSettings
      request <- parseRequest ("http://127.0.0.1:" ++ show port ++ "/echo")
      forM_ [0, 1, 1000, 1000000] $ \size -> do
        let body = Lazy.fromStrict (Char8.replicate size 'x')
        response <- httpLbs request {method = "POST", requestBody = RequestBodyLBS body} manager
        (size, responseBody response == body) `shouldBe` (size, True)
      -- In chunks, which are made while they are sent.
      pieces <- newIORef (replicate 1000 (ByteString.replicate 1000 65))
      let next = atomicModifyIORef' pieces (\left -> (drop 1 left, ByteString.concat (take 1 left)))
      response <- httpLbs request {method = "POST", requestBody = RequestBodyStreamChunked (\use -> use next)} manager
      Lazy.length (responseBody response) `shouldBe` 1000000
  it "streams a response" $
    Server.testWithApplication (return echo) $ \port -> do
      manager <- managerWith defaultSettings
      request <- parseRequest ("http://127.0.0.1:" ++ show port ++ "/stream")
      size <- Client.withResponse request manager $ \response ->
        let count total =
              brRead (responseBody response) >>= \bytes ->
                if ByteString.null bytes then return total else count (total + ByteString.length bytes)
         in count (0 :: Int)
      size `shouldBe` 2000000
  it "ends a request at the deadline of the request that is served" $ do
    let slow _ respond = threadDelay 20000000 >> respond (responseLBS status200 [] "")
        front manager target request respond = do
          deadline <- Server.requestDeadline request
          outcome <- nothingIfLate (finishBefore deadline (httpLbs target manager))
          respond (responseLBS status200 [] (maybe "late" responseBody outcome))
    Server.testWithApplication (return slow) $ \behind -> do
      manager <- managerWith defaultSettings
      target <- parseRequest ("http://127.0.0.1:" ++ show behind ++ "/")
      Server.testWithApplication (return (Server.limitTime (seconds 1) (front manager target))) $ \port ->
        within 10 "the answer" (get manager ("http://127.0.0.1:" ++ show port ++ "/")) `shouldReturn` "late"
  it "serves many threads, with few connections" $ do
    connections <- newIORef (0 :: Int)
    withServer
      ( \_ peer ->
          atomicModifyIORef' connections (\n -> (n + 1, ()))
            >> serveRequests (plainWire peer) (return . Char8.takeWhile (/= '\r'))
      )
      $ \port ->
        do
          -- http-client closes connections that are more than this many.
          settings <- newMillraceManagerSettings defaultSettings
          manager <- newManager settings {managerConnCount = 50}
          dones <- forM [1 .. 50 :: Int] $ \thread -> do
            done <- newEmptyMVar
            _ <- forkIO . (putMVar done <=< try) $
              forM_ [1 .. 20 :: Int] $ \number -> do
                let path = "/" ++ show thread ++ "/" ++ show number
                answer <- get manager ("http://127.0.0.1:" ++ show port ++ path)
                answer `shouldBe` Char8.pack ("GET " ++ path ++ " HTTP/1.1")
            return done
          forM_ dones $ takeMVar >=> either (\problem -> throwIO (problem :: SomeException)) return
          readIORef connections >>= (`shouldSatisfy` (<= 50))
  it "goes on with http-conduit's global manager" $
    Server.testWithApplication (return echo) $ \port -> do
      newManager millraceManagerSettings >>= setGlobalManager
      request <- Simple.parseRequest ("POST http://127.0.0.1:" ++ show port ++ "/echo")
      response <- Simple.httpBS (Simple.setRequestBodyLBS "conduit" request)
      Simple.getResponseBody response `shouldBe` "conduit"
  it "gives a raw connection to a caller that wants one" $
    withServer (\_ peer -> Plain.recv peer 100 >>= Plain.sendAll peer . ("you said " <>)) $ \port -> do
      manager <- managerWith defaultSettings
      request <- parseRequest ("http://127.0.0.1:" ++ show port)
      answer <- Client.withConnection request manager $ \connection ->
        connectionWrite connection "hello" >> connectionRead connection
      answer `shouldBe` "you said hello"
  describe "on a kept connection" $ do
    it "that the server has closed, a request is sent to nobody else first" $ do
      -- The first connection is closed behind its answer. A request that came on it later would be lost.
      late <- newEmptyMVar
      lost <- newEmptyMVar
      withServer (closing late lost) $ \port -> do
        manager <- managerWith defaultSettings
        let url = "http://127.0.0.1:" ++ show port
        get manager url `shouldReturn` "connection 1"
        takeMVar late -- it has ended its side
        get manager url `shouldReturn` "connection 2"
        within 10 "the end of the first connection" (takeMVar lost) `shouldReturn` ""
    forM_ [("together with the answer", False), ("behind it", True)] $ \(when', isLater) ->
      it ("on which something came unasked " ++ when' ++ ", no request is sent, and that is nobody's response") $ do
        sent <- newEmptyMVar
        withServer (unasked isLater sent) $ \port -> do
          manager <- managerWith defaultSettings
          let url = "http://127.0.0.1:" ++ show port
          get manager url `shouldReturn` "connection 1"
          takeMVar sent
          get manager url `shouldReturn` "connection 2"
    it "a body follows 100 (Continue), whatever comes next" $
      withServer continuing $ \port -> do
        manager <- managerWith defaultSettings
        request <- parseRequest ("http://127.0.0.1:" ++ show port)
        let posting =
              request
                { method =
                    "POST",
                  requestBody = RequestBodyBS "body",
                  requestHeaders = [("Expect", "100-continue")]
                }
        replicateM 2 (responseBody <$> httpLbs posting manager) `shouldReturn` ["early", "early"]
    it "that breaks during a request, the request is sent again" $
      withServer breaking $ \port -> do
        manager <- managerWith defaultSettings
        let url = "http://127.0.0.1:" ++ show port
        get manager url `shouldReturn` "connection 1"
        get manager url `shouldReturn` "connection 2"
    it "a request is not sent again after a deadline" $ do
      requests <- newIORef (0 :: Int)
      withServer (silentLater requests) $ \port -> do
        manager <- managerWith defaultSettings {limits = defaultLimits {receiveLimit = milliseconds 300}}
        let url = "http://127.0.0.1:" ++ show port
        get manager url `shouldReturn` "first"
        outcome <- try (get manager url)
        networkProblemOf outcome `shouldSatisfy` maybe False isDeadlineError
        readIORef requests `shouldReturn` 2
  describe "the end of waiting" $ do
    it "is http-client's response timeout, which closes the connection" $ do
      closed <- newEmptyMVar
      withServer (\_ peer -> receiveHead (plainWire peer) >> Plain.recv peer 100 >>= putMVar closed) $ \port -> do
        manager <- managerWith defaultSettings
        request <- parseRequest ("http://127.0.0.1:" ++ show port)
        outcome <-
          try (within 20 "the timeout" (httpLbs request {responseTimeout = responseTimeoutMicro 200000} manager))
        case contentOf outcome of
          Just ResponseTimeout -> return ()
          _ -> expectationFailure (either show (const "it was answered") outcome)
        within 10 "the server's end" (takeMVar closed) `shouldReturn` ""
    it "is the limit, within a body" $
      withServer
        ( \_ peer ->
            receiveHead (plainWire peer)
              >> Plain.sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"
              >> void (Plain.recv peer 100)
        )
        $ \port ->
          do
            manager <- managerWith defaultSettings {limits = defaultLimits {receiveLimit = milliseconds 200}}
            outcome <- try (get manager ("http://127.0.0.1:" ++ show port))
            networkProblemOf outcome `shouldSatisfy` maybe False isDeadlineError
    it "is the limit, for a server that does not receive" $
      withServer (\_ _ -> newEmptyMVar >>= takeMVar) $ \port -> do
        manager <- managerWith defaultSettings {limits = defaultLimits {sendLimit = milliseconds 200}}
        request <- parseRequest ("http://127.0.0.1:" ++ show port)
        outcome <-
          try
            ( within
                20
                "the limit"
                (httpLbs request {method = "POST", requestBody = RequestBodyLBS (Lazy.replicate 50000000 65)} manager)
            )
        networkProblemOf outcome `shouldSatisfy` maybe False isDeadlineError
    it "is an exception from another thread, which closes the connection" $ do
      asked <- newEmptyMVar
      closed <- newEmptyMVar
      withServer
        (\_ peer -> receiveHead (plainWire peer) >> putMVar asked () >> Plain.recv peer 100 >>= putMVar closed)
        $ \port ->
          do
            manager <- managerWith defaultSettings
            runner <- forkIO (void (get manager ("http://127.0.0.1:" ++ show port)) `catch` ignore)
            takeMVar asked
            killThread runner
            within 10 "the server's end" (takeMVar closed) `shouldReturn` ""

ignore :: SomeException -> IO ()
ignore _ = return ()

echo :: Application
echo request respond
  | rawPathInfo request == "/stream" = respond . responseStream status200 [] $ \write _ ->
    replicateM_ 200 (write (Builder.byteString (ByteString.replicate 10000 65)))
  | otherwise = strictRequestBody request >>= respond . responseLBS status200 []

closing :: MVar () -> MVar ByteString.ByteString -> Int -> Socket -> IO ()
closing late lost number peer = do
  _ <- receiveHead wire
  answerWith wire ("connection " <> Char8.pack (show number))
  if number > 1
    then void (receiveHead wire)
    else do
      shutdown peer ShutdownSend
      putMVar late ()
      Plain.recv peer 1000 >>= putMVar lost
  where
    wire = plainWire peer

-- Sends a response that nobody has asked for on the first connection.
unasked :: Bool -> MVar () -> Int -> Socket -> IO ()
unasked isLater sent number peer = do
  _ <- receiveHead wire
  let answer = answerOf ("connection " <> Char8.pack (show number))
  if number > 1
    then Plain.sendAll peer answer
    else do
      if isLater
        then Plain.sendAll peer answer >> Plain.sendAll peer (answerOf "forged")
        else Plain.sendAll peer (answer <> answerOf "forged")
      putMVar sent ()
  void (receiveHead wire)
  where
    wire = plainWire peer

-- Says 100 (Continue) and the answer at once.
continuing :: Int -> Socket -> IO ()
continuing _ peer = void (receiveHead wire) >> go
  where
    wire = plainWire peer
    go = do
      Plain.sendAll peer ("HTTP/1.1 100 Continue\r\n\r\n" <> answerOf "early")
      more <- receiveHead wire -- the body and the next head
      mapM_ (const go) more

answerOf :: ByteString.ByteString -> ByteString.ByteString
answerOf body =
  "HTTP/1.1 200 OK\r\nContent-Length: " <> Char8.pack (show (ByteString.length body)) <> "\r\n\r\n" <> body

-- Answers one request on each connection, and breaks when the next one has come.
breaking :: Int -> Socket -> IO ()
breaking number peer = do
  _ <- receiveHead wire
  answerWith wire ("connection " <> Char8.pack (show number))
  void (receiveHead wire)
  where
    wire = plainWire peer

silentLater :: IORef Int -> Int -> Socket -> IO ()
silentLater requests _ peer = do
  count wire
  answerWith wire "first"
  count wire
  void (Plain.recv peer 100)
  where
    wire = plainWire peer
    count from = receiveHead from >>= mapM_ (\_ -> atomicModifyIORef' requests (\n -> (n + 1, ())))
