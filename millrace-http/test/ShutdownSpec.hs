{-# LANGUAGE OverloadedStrings #-}

-- | Starting and stopping.
module ShutdownSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.Async (async, cancel, wait)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (..), IOException, catch, fromException, throwIO, try, uninterruptibleMask_)
import Control.Monad (forM_, forever, join, replicateM, void)
import qualified Data.ByteString as B
import Data.Either (isLeft)
import Data.IORef
import Data.Maybe (catMaybes)
import GHC.Clock (getMonotonicTime)
import Http2Frame
import Network.HTTP.Types (status200)
import Network.Socket hiding (close, shutdown)
import Network.Wai (Application, responseStream)
import Network.Wai.Handler.Millrace
import Support
import System.Mem (performMajorGC)
import Test.Hspec
import TestSupport.Folder (freePort)

spec :: Spec
spec = do
  describe "runSettings" $ do
    it "binds the port it is told, and frees it at the end" $ do
      port <- freePort
      stopping port id pong $ \stop ended -> do
        exchange port "GET / HTTP/1.0\r\n\r\n" >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
        stop
        within "the end" (takeMVar ended)
        refused <- try (exchange port "") :: IO (Either IOException B.ByteString)
        refused `shouldSatisfy` isLeft
      stopping port id pong $ \stop ended -> stop >> within "the end" (takeMVar ended)
    it "fails if the port is taken" $ do
      listener <- socket AF_INET Stream defaultProtocol
      bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
      listen listener 1
      port <- socketPort listener
      run' (fromIntegral port) `shouldThrow` (const True :: IOException -> Bool)
      close listener
    it "listens on IPv6 when told so" $ do
      port <- freePort
      stopping port (setHost "::1") pong $ \stop ended -> do
        client <- socket AF_INET6 Stream defaultProtocol
        connect client (SockAddrInet6 (fromIntegral port) 0 (0, 0, 0, 1) 0)
        close client
        stop
        within "the end" (takeMVar ended)

  describe "a shutdown" $ do
    it "ends idle connections at once" $ do
      port <- freePort
      stopping port id pong $ \stop ended -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        _ <- receiveResponse client
        start <- getMonotonicTime
        stop
        receiveAll client `shouldReturn` ""
        within "the end" (takeMVar ended)
        end <- getMonotonicTime
        end - start `shouldSatisfy` (< 20) -- idle ones would stay for 30
    it "answers a request that follows the last response closely, and one on a new connection" $
      untilQuick (requestsAfterStop pong) `shouldReturn` replicate 3 [("Pong", Just "close")]
    it "waits a second for the rest of heads, and ends them without an answer, and what comes slowly after five" $ do
      port <- freePort
      reported <- newIORef []
      let noting _ failure = modifyIORef reported (show failure :)
          get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          lasting use = withConnection port $ \client -> do
            begun <- use client
            start <- getMonotonicTime
            received <- begun
            end <- getMonotonicTime
            return (received, end - start)
          silently beginning client = send client beginning >> return (receiveAll client)
          afterRequest client = do
            send client get
            _ <- receiveResponse client
            silently "GET / HTT" client
          completing client = do
            send client "GET / HTT"
            return (threadDelay 300000 >> send client "P/1.1\r\nHost: a\r\n\r\n" >> receiveAll client)
          slowly client = do
            send client "GET / HTTP/1.1\r\na: "
            sender <- async (void (try (forever (threadDelay 200000 >> send client "a")) :: IO (Either IOException ())))
            -- A byte that comes after the end is answered with a reset.
            return ((receiveAll client `catch` \failure -> "" <$ return (failure :: IOException)) <* cancel sender)
          http2 frames = preface <> B.concat (map encodeFrame (settingsFrame [] : frames))
          block = literals [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")]
      stopping port (setProxyProtocolOptional . setOnException noting) pong $ \stop ended -> do
        ready <- newEmptyMVar
        stopped <- newEmptyMVar
        clients <-
          mapM
            (\use -> async (lasting (\client -> use client <* putMVar ready () <* readMVar stopped)))
            [ silently "GET /some",
              silently "GET / HTTP/1.1\r\nHost: a\r\n",
              silently "\r\n\r\n\r\n",
              silently "PROXY TCP4 1.2",
              silently "PRI * HT",
              silently (B.take 20 preface),
              silently (http2 [headersFrame 1 [] (B.take 5 block)]),
              silently (B.take (B.length preface + 9 + 12) (http2 [headersFrame 1 [EndHeaders, EndStream] block])),
              afterRequest,
              completing,
              slowly
            ]
        forM_ clients (const (takeMVar ready))
        threadDelay 200000
        stop
        putMVar stopped ()
        outcomes <- mapM (within "an end" . wait) clients
        within "the end" (takeMVar ended)
        let isHttp1 = [0, 1, 2, 3, 4, 8, 10]
        [fst (outcomes !! number) | number <- isHttp1] `shouldBe` map (const "") isHttp1
        answersOf (Right (fst (outcomes !! 9))) `shouldBe` [("Pong", Just "close")]
        -- Empty lines are no part of a head: their client has the time of a new connection.
        let lasts = [2, 10]
        [snd (outcomes !! number) | number <- [0 .. 9], number `notElem` lasts] `shouldSatisfy` all (< 4)
        [snd (outcomes !! number) | number <- lasts] `shouldSatisfy` all (< 15)
        -- A client of empty lines has left without a request, as far as the server knows.
        filter (/= "ConnectionClosedByPeer") <$> readIORef reported `shouldReturn` []
    it "waits longer for the first request of a new connection than for the next one of a kept connection" $
      untilQuick firstRequestAfterIdleEnds `shouldReturn` ("", [("Pong", Just "close")])
    it "does not say that it has cut off connections without a request" $ do
      port <- freePort
      reported <- newIORef []
      let noting _ failure = modifyIORef reported (fromException failure :)
      opened <- newEmptyMVar
      let announcing = setOnOpen (\_ -> True <$ putMVar opened ())
      stopping port (setGracefulShutdownTimeout (Just 1) . announcing . setOnException noting) pong $ \stop ended ->
        withConnection port $ \client -> do
          takeMVar opened
          stop
          within "the end" (takeMVar ended)
          receiveAll client `shouldReturn` ""
      catMaybes <$> readIORef reported `shouldReturn` ([] :: [ConnectionsCutOff])
    it "answers what the queue of the listening socket holds" $ do
      port <- freePort
      started <- newEmptyMVar
      finish <- newEmptyMVar
      let application request respond = putMVar started () >> readMVar finish >> pong request respond
          get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      -- The listening socket's queue holds only these two: the connection that the server has capacity for, and the one
      -- that waits for capacity.
      forM_ [False, True] $ \share ->
        stopping port (setReusePort share . setMaximumConnections (Just 1)) application $ \stop ended -> do
          first <- async (exchange port get)
          takeMVar started
          withMany 20 port $ \others -> do
            mapM_ (`send` get) others
            stop
            replicateM 20 (within "a request" (takeMVar started)) >>= (`shouldBe` replicate 20 ())
            putMVar finish ()
            answers <- (:) <$> wait first <*> mapM receiveAll others
            takeMVar finish
            (share, map statusOf answers) `shouldBe` (share, replicate 21 200)
          within "the end" (takeMVar ended)
    it "lets busy ones finish their response, which says that it is the last" $ do
      port <- freePort
      started <- newEmptyMVar
      stopped <- newEmptyMVar
      let application request respond = putMVar started () >> readMVar stopped >> pong request respond
      stopping port id application $ \stop ended -> do
        clients <- replicateM 10 . async $ exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        replicateM 10 (takeMVar started) >>= (`shouldBe` replicate 10 ())
        stop
        putMVar stopped ()
        answers <- mapM wait clients
        map (map (\reply -> (replyBody reply, headerOf "connection" reply)) . parseReplies) answers
          `shouldBe` replicate 10 [("Pong", Just "close")]
        within "the end" (takeMVar ended)
    it "cuts off what takes longer than its limit" $ do
      port <- freePort
      started <- newEmptyMVar
      reported <- newIORef []
      let application request respond = putMVar started () >> threadDelay 60000000 >> pong request respond
          noting _ failure = modifyIORef reported (fromException failure :)
      stopping port (setGracefulShutdownTimeout (Just 1) . setOnException noting) application $ \stop ended ->
        withConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          takeMVar started
          start <- getMonotonicTime
          stop
          within "the end" (takeMVar ended)
          end <- getMonotonicTime
          end - start `shouldSatisfy` \elapsed -> elapsed > 0.9 && elapsed < 20
          receiveAll client `shouldReturn` ""
          readIORef reported >>= (`shouldSatisfy` elem (Just (ConnectionsCutOff 1)))
    it "does not say that it has cut off what was answered, and waits for its client's end" $ do
      port <- freePort
      reported <- newIORef []
      (started, finish, application) <- waiting
      let noting _ failure = modifyIORef reported (fromException failure :)
      stopping port (setGracefulShutdownTimeout (Just 3) . setOnException noting) application $ \stop ended ->
        withConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          takeMVar started
          stop
          putMVar finish ()
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          within "the end" (takeMVar ended)
          readIORef reported >>= (`shouldSatisfy` notElem (Just (ConnectionsCutOff 1)))
    it "ends the handlers that take longer" $ do
      port <- freePort
      (started, outcome, application) <- endless
      stopping port (setGracefulShutdownTimeout (Just 0)) application $ \stop ended ->
        withConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          takeMVar started
          stop
          within "the end" (takeMVar ended)
          tryReadMVar outcome `shouldReturn` Just (Just ThreadKilled)

  describe "an exception thrown to the server" $ do
    it "ends its handlers, tells nobody of that, and closes and counts as ever" $ do
      (started, outcome, application) <- endless
      (state, settings) <- makeServerState defaultSettings
      told <- newIORef (0 :: Int)
      closed <- newEmptyMVar
      let closing =
            setOnClose
              (\_ -> threadDelay 10000 >> putMVar closed ())
              (setOnException (\_ _ -> modifyIORef told (+ 1)) settings)
      withApplicationSettings closing (return application) $ \port ->
        forkIO (void (exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n")) >> takeMVar started
      tryReadMVar outcome `shouldReturn` Just (Just ThreadKilled)
      tryTakeMVar closed `shouldReturn` Just ()
      currentOpenConnections state `shouldReturn` 0
      readIORef told `shouldReturn` 0
    it "is what a handler sees that is sending, not that its client has gone" $
      forM_ [1 .. 50 :: Int] . const $ do
        (started, outcome, application) <- endless
        told <- newIORef (0 :: Int)
        withApplicationSettings (setOnException (\_ _ -> modifyIORef told (+ 1)) defaultSettings) (return application) $
          \port ->
            forkIO (void (exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n")) >> takeMVar started
        tryReadMVar outcome `shouldReturn` Just (Just ThreadKilled)
        readIORef told `shouldReturn` 0
    it "ends a connection that was just being accepted before it is over itself" $ do
      taken <- newEmptyMVar
      opened <- newIORef (0 :: Int)
      (state, settings) <- makeServerState defaultSettings
      let slowly listener = accept listener <* putMVar taken () <* threadDelay 20000
          counting = setOnOpen (\_ -> True <$ modifyIORef opened (+ 1)) settings
      withApplicationSettings (setAccept slowly counting) (return pong) $ \port ->
        withConnection port (const (takeMVar taken))
      readIORef opened `shouldReturn` 1
      currentOpenConnections state `shouldReturn` 0
    it "does not wait for a handler that no exception reaches" $ do
      started <- newEmptyMVar
      finish <- newEmptyMVar
      let application request respond =
            uninterruptibleMask_ (putMVar started () >> readMVar finish) >> pong request respond
      (_, elapsed) <- timed . withApplication (return application) $ \port ->
        forkIO (void (exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n")) >> takeMVar started
      putMVar finish ()
      elapsed `shouldSatisfy` (< 20)

  describe "closing the socket that runSettingsSocket serves" $ do
    it "ends the server, in an orderly way" $ do
      (started, finish, application) <- waiting
      (port, listener) <- openFreePort
      server <- async (runSettingsSocket (quiet defaultSettings) listener application)
      answer <- async (exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      takeMVar started
      socketPort listener `shouldReturn` fromIntegral port
      close listener
      within "the end of listening" (untilRefused port)
      putMVar finish ()
      map (headerOf "connection") . parseReplies <$> wait answer `shouldReturn` [Just "close"]
      within "the end" (wait server)
    it "is done when the server is told to end, and when it has ended" $ do
      (port, listener) <- openFreePort
      stopper <- newEmptyMVar
      (started, finish, application) <- waiting
      server <-
        async
          (runSettingsSocket (setInstallShutdownHandler (putMVar stopper) (quiet defaultSettings)) listener application)
      answer <- async (exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      takeMVar started
      join (takeMVar stopper)
      within "the end of listening" (untilRefused port)
      putMVar finish ()
      statusOf <$> wait answer `shouldReturn` 200
      within "the end" (wait server)
      socketPort listener `shouldThrow` (const True :: IOException -> Bool)

  describe "a handler" $
    it "that waits for what nobody will give is told so" . withServer id (\_ _ -> newEmptyMVar >>= takeMVar) $ \port ->
      do
        answer <- async (exchange port "GET / HTTP/1.0\r\n\r\n")
        collector <- async (forever (threadDelay 50000 >> performMajorGC))
        statusOf <$> wait answer `shouldReturn` 500
        cancel collector
  where
    run' port = runSettings (setPort port (setHost "127.0.0.1" (quiet defaultSettings))) pong

-- Sends requests on a kept connection and on two new ones right after the shutdown began. Returns their answers, unless
-- they came so late that the server need not have expected them.
requestsAfterStop :: Application -> IO (Maybe [[(B.ByteString, Maybe B.ByteString)]])
requestsAfterStop application = do
  port <- freePort
  stopping port id application $ \stop ended -> do
    start <- getMonotonicTime
    withConnection port $ \kept -> withConnection port $ \new -> do
      send kept get
      _ <- receiveResponse kept
      withConnection port $ \another -> do
        stop
        forM_ [kept, new, another] (try' . (`send` get))
        end <- getMonotonicTime
        answers <- mapM (try' . receiveAll) [kept, new, another]
        within "the end" (takeMVar ended)
        return
          (if end - start > 0.1 then Nothing else Just (map answersOf answers))
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    try' = try :: IO a -> IO (Either IOException a)

-- The body of each response that came, and what it says about the connection.
answersOf :: Either IOException B.ByteString -> [(B.ByteString, Maybe B.ByteString)]
answersOf = either (const []) (map (\reply -> (replyBody reply, headerOf "connection" reply)) . parseReplies)

-- Sends the first request on a new connection when the server has ended an idle one. Returns what came on both, unless
-- the request was so late that the server need not have waited for it.
firstRequestAfterIdleEnds :: IO (Maybe (B.ByteString, [(B.ByteString, Maybe B.ByteString)]))
firstRequestAfterIdleEnds = do
  port <- freePort
  stopping port id pong $ \stop ended -> do
    start <- getMonotonicTime
    withConnection port $ \new -> withConnection port $ \kept -> do
      send kept get
      _ <- receiveResponse kept
      stop
      rest <- receiveAll kept
      outcome <- try (send new get >> receiveAll new)
      end <- getMonotonicTime
      within "the end" (takeMVar ended)
      return (if end - start > 4 then Nothing else Just (rest, answersOf outcome))
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

-- Signals that it has begun, and responds when it gets a signal.
waiting :: IO (MVar (), MVar (), Application)
waiting = do
  started <- newEmptyMVar
  finish <- newEmptyMVar
  return (started, finish, \request respond -> putMVar started () >> takeMVar finish >> pong request respond)

-- Streams until an exception ends it. Reports the exception, and when it has begun.
endless :: IO (MVar (), MVar (Maybe AsyncException), Application)
endless = do
  started <- newEmptyMVar
  outcome <- newEmptyMVar
  let stream write flush = putMVar started () >> forever (write "x" >> flush >> threadDelay 1000)
      application _ respond =
        respond (responseStream status200 [] stream) `catch` \failure ->
          putMVar outcome (fromException failure) >> throwIO failure
  return (started, outcome, application)

stopping :: Int -> (Settings -> Settings) -> Application -> (IO () -> MVar () -> IO a) -> IO a
stopping port change application use = do
  ready <- newEmptyMVar
  ended <- newEmptyMVar
  stopper <- newEmptyMVar
  let settings =
        change . setPort port . setInstallShutdownHandler (putMVar stopper) $
          setBeforeMainLoop (putMVar ready ()) (setHost "127.0.0.1" (quiet defaultSettings))
  void (forkIO (runSettings settings application >> putMVar ended ()))
  within "the start" (takeMVar ready)
  stop <- takeMVar stopper
  use stop ended
