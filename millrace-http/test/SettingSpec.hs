{-# LANGUAGE OverloadedStrings #-}

-- | The settings that Warp has too.
module SettingSpec (spec) where

import Control.Concurrent (forkIOWithUnmask, threadDelay)
import Control.Concurrent.Async (AsyncCancelled (..), async, cancel, forConcurrently)
import Control.Concurrent.MVar
import Control.Exception
  ( AsyncException (..),
    ErrorCall (..),
    IOException,
    SomeException,
    bracket,
    evaluate,
    finally,
    fromException,
    throwIO,
    toException,
    try,
  )
import Control.Monad (forM_, replicateM, replicateM_, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import Data.ByteString.Builder.Internal (ensureFree)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isJust, isNothing)
import InterfaceSupport
import Millrace.Deadline (deadlineAfter)
import qualified Millrace.Socket as Millrace
import Millrace.Socket.ByteString (recvBefore)
import Network.HTTP.Types
import Network.Socket hiding (close)
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Environment (getProgName)
import System.Timeout (timeout)
import Test.Hspec
import TestSupport.Folder (standardErrorOf)

spec :: Spec
spec = do
  describe "settings" $ do
    it "setBacklog bounds the queue of connections that nobody has accepted: Linux holds one more" $
      withListeners (setBacklog 2) $ \port _ -> do
        let connecting client =
              isJust
                <$> timeout
                  300000
                  (connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))))
        bracket (replicateM 5 (socket AF_INET Stream defaultProtocol)) (mapM_ close) (mapM connecting)
          `shouldReturn` [True, True, True, False, False]
    it "setReusePort gives every capability a socket of its own, on the same port" $ do
      port <- bracket openFreePort (close . snd) (return . fst)
      let settings = setReusePort True (setPort port (setHost "127.0.0.1" (quiet defaultSettings)))
      background (runSettings settings pong) . background (runSettings settings pong) $ do
        _ <- eventually (exchange port get)
        answers <- forConcurrently [1 .. 40 :: Int] (const (exchange port get))
        map statusOf answers `shouldBe` replicate 40 200
    it "setLogger is told of every response: its status, and the bytes of its body" $ do
      logged <- newIORef []
      let logger request status size = noteIn logged (rawPathInfo request, statusCode status, size)
      withServerToItsEnd (setLogger logger) various $ \port ->
        void . exchange port $
          B.concat (map request' ["/lazy", "/stream", "/none", "/throw", "/file", "/missing"])
            <> "HEAD /lazy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      -- In any order: over HTTP/2 several requests are answered at a time, and logged when their threads run on.
      told <- readIORef logged
      told
        `shouldMatchList` [ ("/lazy", 200, Just 5),
                            ("/stream", 201, Just 100000),
                            ("/none", 204, Nothing),
                            ("/throw", 500, Just 20),
                            ("/file", 200, Just 11),
                            ("/missing", 404, Just 14),
                            ("/lazy", 200, Nothing)
                          ]
    it "a logger that throws is reported, and harms nobody" $ do
      reports <- newIORef []
      let reporting _ failure = noteIn reports (fromException failure)
      withServerToItsEnd (setOnException reporting . setLogger (\_ _ _ -> throwIO (ErrorCall "log"))) pong $ \port ->
        map replyBody . parseReplies <$> exchange port (request' "/" <> get) `shouldReturn` ["Pong", "Pong"]
      readIORef reports `shouldReturn` replicate 2 (Just (ErrorCall "log"))
    it "setNoParsePath keeps scheme and authority" $ do
      let absolute = "GET http://example.com/a/b?c HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
          paths request respond =
            respond
              ( responseLBS
                  status200
                  []
                  ( L.fromStrict
                      ( B.concat
                          [rawPathInfo request, " ", rawQueryString request, " ", C8.pack (show (pathInfo request))]
                      )
                  )
              )
      withServer id paths $ \port ->
        map replyBody . parseReplies <$> exchange port absolute `shouldReturn` ["/a/b ?c [\"a\",\"b\"]"]
      withServer (setNoParsePath True) paths $ \port -> do
        map replyBody . parseReplies
          <$> exchange port absolute `shouldReturn` ["http://example.com/a/b ?c [\"a\",\"b\"]"]
        map replyBody . parseReplies
          <$> exchange port (request' "/x?y" <> get) `shouldReturn` ["/x ?y [\"x\"]", "/  []"]
    it "setAltSvc adds its field" $
      withServer (setAltSvc "h3=\":443\"") pong $ \port ->
        map (headerOf "alt-svc") . parseReplies <$> exchange port get `shouldReturn` [Just "h3=\":443\""]
    it "setFork starts the threads of connections" $ do
      count <- newIORef (0 :: Int)
      withServer
        (setFork (\serve -> atomicModifyIORef' count (\n -> (n + 1, ())) >> void (forkIOWithUnmask serve)))
        pong
        $ \port ->
          do
            replicateM_ 3 (exchange port get)
            readIORef count `shouldReturn` 3
    it "setFork that throws is reported, and ends that connection only" $ do
      reports <- newIORef []
      count <- newIORef (0 :: Int)
      let refusing = do
            number <- atomicModifyIORef' count (\n -> (n + 1, n))
            when (number == 0) (throwIO (ErrorCall "no thread"))
          reporting request failure = modifyIORef reports ((isNothing request, fromException failure) :)
      withServer (setFork (\serve -> refusing >> void (forkIOWithUnmask serve)) . setOnException reporting) pong $
        \port ->
          do
            exchange port "" `shouldReturn` ""
            statusOf <$> exchange port get `shouldReturn` 200
      readIORef reports `shouldReturn` [(True, Just (ErrorCall "no thread"))]
    it "setAccept takes the connections, and the server still ends" $ do
      count <- newIORef (0 :: Int)
      stopper <- newEmptyMVar
      ended <- newEmptyMVar
      (port, listener) <- openFreePort
      let accepting from = accept from <* atomicModifyIORef' count (\n -> (n + 1, ()))
          settings = setAccept accepting (setInstallShutdownHandler (putMVar stopper) (quiet defaultSettings))
      server <- async (runSettingsSocket settings listener pong `finally` putMVar ended ())
      stop <- takeMVar stopper
      answers <- replicateM 3 (exchange port get)
      map statusOf answers `shouldBe` [200, 200, 200]
      readIORef count `shouldReturn` 3
      stop
      within "the end" (takeMVar ended)
      cancel server
    it "setAccept that throws something else than an IOError ends the server, which throws it" $
      do
        (_, listener) <- openFreePort
        reports <- newIORef []
        let settings =
              setAccept
                (\_ -> throwIO (ErrorCall "no more"))
                (setOnException (\_ failure -> modifyIORef reports (fromException failure :)) defaultSettings)
        within "the end" (runSettingsSocket settings listener pong) `shouldThrow` (== ErrorCall "no more")
        reported <- readIORef reports
        reported `shouldSatisfy` \told -> not (null told) && all (== Just (ErrorCall "no more")) told
    it "setMaxBuilderResponseBufferSize bounds what a builder may ask for" $ do
      let asking size = ensureFree size <> Builder.byteString "xy"
          application _ respond = respond (responseBuilder status200 [] (asking 3000000))
      withServer id application $ \port -> map replyBody . parseReplies <$> exchange port get `shouldReturn` ["xy"]
      withServer (setMaxBuilderResponseBufferSize 1000000) application $ \port -> do
        bytes <- exchange port get
        B.isInfixOf "xy" bytes `shouldBe` False
    it "and what it was given may be more than a megabyte, in one chunk" $ do
      let pieces = replicate 512 (B.replicate 4096 0x78)
          application _ respond =
            respond (responseBuilder status200 [] (ensureFree (2 * 1048576) <> foldMap Builder.byteString pieces))
      withServer id application $ \port ->
        map (B.length . replyBody) . parseReplies <$> exchange port get `shouldReturn` [2 * 1048576]
    it "setGracefulCloseTimeout1 waits for the client's end of the connection" $ do
      closed <- newEmptyMVar
      withServer (setGracefulCloseTimeout1 30000 . setOnClose (\_ -> putMVar closed ())) pong $ \port ->
        withConnection port $ \client -> do
          send client get
          _ <- receiveAll client
          threadDelay 200000
          tryTakeMVar closed >>= (`shouldSatisfy` isNothing)
          sendEnd client
          within "the close" (takeMVar closed)
    it "setters without effect take their arguments" $
      withServer (setManager (error "looked at") . setHTTP2Disabled . setServerPushLogger (\_ _ _ -> return ())) pong $
        \port ->
          statusOf <$> exchange port get `shouldReturn` 200
    forM_ [("the reason", "the reason"), ("gr\246\223e in \8364", "gr\195\182\195\159e in \226\130\172")] $
      \(reason, bytes) ->
        it
          ( "setOnExceptionResponse exceptionResponseForDebug shows the exception in UTF-8, as it says: "
              ++ show reason
          )
          $ withServer (setOnExceptionResponse exceptionResponseForDebug) (\_ _ -> throwIO (ErrorCall reason)) $
            \port ->
              map (\reply -> (replyStatus reply, headerOf "content-type" reply, replyBody reply)) . parseReplies
                <$> exchange port get
                `shouldReturn` [(500, Just "text/plain; charset=utf-8", "Exception: " <> bytes)]
    it "defaultOnExceptionResponse throws what came from outside" $
      evaluate (defaultOnExceptionResponse (toException ThreadKilled)) `shouldThrow` (== ThreadKilled)
    it "defaultOnException displays applications' exceptions, and not clients'" $ do
      displayed <-
        standardErrorOf $
          mapM_
            (defaultOnException Nothing)
            [toException (ErrorCall "the reason"), toException IncompleteHeaders, toException ThreadKilled]
      name <- getProgName
      displayed `shouldBe` name ++ ": the reason\n"
    it "defaultOnException names the request and the client, without what could move a cursor or has no end" $ do
      let request =
            defaultRequest
              { requestMethod = "GET",
                rawPathInfo = "/a\ESC[2J\n\255" <> B.replicate 1000 0x78,
                rawQueryString = "?secret",
                remoteHost = SockAddrInet 7 (tupleToHostAddress (127, 0, 0, 1))
              }
      name <- getProgName
      displayed <- standardErrorOf (defaultOnException (Just request) (toException (ErrorCall "the\nreason\ESC")))
      displayed
        `shouldBe` name
        ++ ": GET /a\\x1b[2J\\x0a\\xff"
        ++ replicate 192 'x'
        ++ "... from 127.0.0.1:7: the reason\\x1b\n"
    it "defaultOnException displays what a thrown exception says, without a backtrace" $ do
      thrown <- try (throwIO (ErrorCall "the reason"))
      displayed <- standardErrorOf (either (defaultOnException Nothing) return thrown)
      name <- getProgName
      displayed `shouldBe` name ++ ": the reason\n"
    it "defaultOnException displays a time limit of the application's own, and what came from outside but meant it" $ do
      expired <-
        try
          ( bracket
              (Millrace.socketPair AF_UNIX Stream defaultProtocol)
              (\(one, other) -> mapM_ Millrace.close [one, other])
              $ \(one, _) ->
                do
                  deadlineAfter (seconds 0) >>= \now -> recvBefore now one 1
          )
      let upstream = either (toException :: IOException -> SomeException) (error . show) expired
      displayed <-
        standardErrorOf $
          mapM_ (defaultOnException Nothing) [upstream, toException StackOverflow, toException AsyncCancelled]
      map (not . null) (lines displayed) `shouldBe` [True, True, True]
      displayed `shouldSatisfy` isInfixOf "stack overflow"
    it "defaultShouldDisplayException says no of a client that was too slow" $ do
      seen <- newEmptyMVar
      let large _ respond = respond (responseLBS status200 [] (L.replicate 20000000 0x78))
      withServer (setOnException (const (putMVar seen)) . setSendTimeout (seconds 1)) large $ \port ->
        withSmallConnection port $ \client -> do
          send client get
          defaultShouldDisplayException <$> within "the end" (takeMVar seen) `shouldReturn` False
    it "getters get the actions that setters set" $ do
      told <- newIORef []
      let tell what = modifyIORef told (what :)
          changed =
            setOnOpen
              (\_ -> False <$ tell "open")
              (setOnClose (\_ -> tell "close") (setOnException (\_ _ -> tell "exception") defaultSettings))
          peer = SockAddrUnix "peer"
      getOnOpen defaultSettings peer `shouldReturn` True
      getOnOpen changed peer `shouldReturn` False
      getOnClose changed peer
      getOnException changed Nothing (toException ThreadKilled)
      readIORef told `shouldReturn` ["exception", "close", "open" :: String]
    it "getters get what setters set, and the defaults are Warp's" $ do
      (getPort defaultSettings, getHost defaultSettings, getGracefulShutdownTimeout defaultSettings)
        `shouldBe` (3000, "*4", Nothing)
      (getGracefulCloseTimeout1 defaultSettings, getGracefulCloseTimeout2 defaultSettings) `shouldBe` (0, 2000)
      let changed =
            setPort
              1
              ( setHost
                  "!6"
                  ( setGracefulShutdownTimeout
                      (Just 2)
                      (setGracefulCloseTimeout1 3 (setGracefulCloseTimeout2 4 defaultSettings))
                  )
              )
      (getPort changed, getHost changed, getGracefulShutdownTimeout changed) `shouldBe` (1, "!6", Just 2)
      (getGracefulCloseTimeout1 changed, getGracefulCloseTimeout2 changed) `shouldBe` (3, 4)

-- | Several threads may note at the same time.
noteIn :: IORef [a] -> a -> IO ()
noteIn notes one = atomicModifyIORef' notes (\old -> (one : old, ()))

various :: Application
various request respond = case rawPathInfo request of
  "/lazy" -> respond (responseLBS status200 [] "hello")
  "/stream" ->
    respond
      ( responseStream
          status201
          []
          (\write _ -> mapM_ (const (write (Builder.byteString (C8.replicate 1000 'x')))) [1 .. 100 :: Int])
      )
  "/none" -> respond (responseLBS status204 [] "")
  "/file" -> respond (responseFile status200 [] "LICENSE" (Just (FilePart 0 11 100)))
  "/missing" -> respond (responseFile status200 [] "/nonexistent" Nothing)
  _ -> throwIO (ErrorCall "fault")
