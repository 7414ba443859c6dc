{-# LANGUAGE OverloadedStrings #-}

-- | The ways to start a server, and the settings that Warp has too.
module InterfaceSpec (spec) where

import Control.Concurrent (forkIOWithUnmask, getNumCapabilities, myThreadId, setNumCapabilities, threadDelay, throwTo)
import Control.Concurrent.Async (AsyncCancelled (..), async, cancel, forConcurrently, wait, withAsync)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically, check)
import Control.Exception
  ( AsyncException (..),
    ErrorCall (..),
    IOException,
    MaskingState (..),
    SomeException,
    bracket,
    bracket_,
    evaluate,
    finally,
    fromException,
    getMaskingState,
    mask_,
    onException,
    throwIO,
    toException,
    try,
  )
import Control.Monad (forM_, join, replicateM, replicateM_, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import Data.ByteString.Builder.Internal (ensureFree)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Either (isLeft)
import Data.Function (fix)
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isJust, isNothing)
import GHC.IO.Handle (hDuplicate, hDuplicateTo)
import Millrace.Deadline (deadlineAfter)
import Millrace.Http.Server.Listener (openUnixListener, whileFolderIsLocked)
import qualified Millrace.Socket as Millrace
import Millrace.Socket.ByteString (recvBefore)
import Network.HTTP.Types
import Network.Socket hiding (close)
import qualified Network.Socket.ByteString as Socket
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Directory (doesPathExist, renamePath)
import System.Environment (setEnv, unsetEnv)
import System.FilePath ((</>))
import System.IO (IOMode (..), hClose, hFlush, stderr, withFile)
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "entry points" $ do
    it "withApplication serves as long as its action runs" $ do
      port <- withApplication (return pong) $ \port -> do
        map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
        return port
      (try (exchange port get) :: IO (Either IOException B.ByteString)) >>= (`shouldSatisfy` isLeft)
    it "withApplicationSettings honours its settings" $
      withApplicationSettings (setServerName "mine" defaultSettings) (return pong) $ \port ->
        map (headerOf "server") . parseReplies <$> exchange port get `shouldReturn` [Just "mine"]
    it "testWithApplication throws what the application throws" $
      testWithApplicationSettings
        (quiet defaultSettings)
        (return (\_ _ -> throwIO (ErrorCall "fault")))
        (\port -> exchange port get >> threadDelay 2000000)
        `shouldThrow` (== ErrorCall "fault")
    it "testWithApplication does not throw what clients cause" $
      testWithApplication (return (\request respond -> strictRequestBody request >> pong request respond)) $ \port -> do
        _ <- withConnection port $ \client -> send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"
        map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
    it "testWithApplication throws it where the action cannot catch it" $
      testWithApplicationSettings
        (quiet defaultSettings)
        (return (\_ _ -> throwIO (ErrorCall "fault")))
        (\port -> void (anyhow (exchange port get >> threadDelay 2000000)))
        `shouldThrow` (== ErrorCall "fault")
    it "withApplication throws what ends the server, before it has begun or later, and ends its action" $ do
      begun <- newIORef False
      withApplicationSettings
        (setBeforeMainLoop (throwIO (ErrorCall "hook")) defaultSettings)
        (return pong)
        (\_ -> writeIORef begun True)
        `shouldThrow` (== ErrorCall "hook")
      readIORef begun `shouldReturn` False
      server <- newEmptyMVar
      interrupted <- newEmptyMVar
      let hook = myThreadId >>= putMVar server
      within
        "the end"
        ( withApplicationSettings (setBeforeMainLoop hook defaultSettings) (return pong) $ \_ -> do
            (takeMVar server >>= (`throwTo` ErrorCall "end") >> threadDelay 60000000)
              `onException` putMVar
                interrupted
                ()
        )
        `shouldThrow` (== ErrorCall "end")
      tryTakeMVar interrupted `shouldReturn` Just ()
    it "withApplication throws, as Warp does, when the server just ends" $ do
      stopper <- newEmptyMVar
      let settings = setInstallShutdownHandler (putMVar stopper) defaultSettings
      within
        "the end"
        (withApplicationSettings settings (return pong) $ \_ -> join (takeMVar stopper) >> threadDelay 60000000)
        `shouldThrow` (\(ErrorCall text) -> "the server has ended" `isInfixOf` text)
    it "withApplication's action begins after setBeforeMainLoop's" $ do
      order <- newIORef []
      let tell what = modifyIORef order (what :)
      withApplicationSettings
        (setBeforeMainLoop (threadDelay 20000 >> tell "hook") defaultSettings)
        (return pong)
        (\_ -> tell "action")
      reverse <$> readIORef order `shouldReturn` ["hook", "action" :: String]
    it "withApplication's action is masked as its caller is" $
      forM_ [(id, Unmasked), (mask_, MaskedInterruptible)] $ \(masked, state) ->
        masked (withApplication (return pong) (const getMaskingState)) `shouldReturn` state
    it "a port that there is not is refused, and not another one opened" $ do
      forM_ [65536, 99999, -1] $ \port ->
        openListeners (setPort port defaultSettings) `shouldThrowAnd` (`shouldSatisfy` isInfixOf (show port))
      forM_ ["99999", "-1", "18446744073709551696"] $ \text ->
        bracket_
          (setEnv "PORT" text)
          (unsetEnv "PORT")
          (runEnv 1 pong `shouldThrowAnd` (`shouldSatisfy` isInfixOf text))
    it "who cannot have any address is told why not the preferred one" $
      bracket (socket AF_INET Stream defaultProtocol) close $ \taken -> do
        bind taken (SockAddrInet 0 0)
        listen taken 1
        port <- socketPort taken
        openListeners (setPort (fromIntegral port) defaultSettings)
          `shouldThrowAnd` (`shouldSatisfy` isInfixOf ("0.0.0.0:" ++ show port))
    it "runEnv takes the port from PORT, and fails for what is none" $ do
      port <- bracket openFreePort (close . snd) (return . fst)
      bracket_ (setEnv "PORT" (show port)) (unsetEnv "PORT") . background (runEnv 1 pong) $
        eventually (exchange port get) >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
      bracket_
        (setEnv "PORT" "no number")
        (unsetEnv "PORT")
        (runEnv 1 pong `shouldThrow` (const True :: IOException -> Bool))
    forM_
      [ ("is bound only", Stream, "the socket does not listen"),
        ("is for datagrams", Datagram, "the socket is no stream socket")
      ]
      $ \(what, kind, text) ->
        it ("a socket that " ++ what ++ " is refused: it would end the server without a word, or never") $ do
          let bound = do
                opened <- socket AF_INET kind defaultProtocol
                opened <$ bind opened (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
          theirs <- bound
          runSettingsSocket (quiet defaultSettings) theirs pong `shouldThrowAnd` (`shouldSatisfy` isInfixOf text)
          ours <- bound >>= Millrace.fromNetworkSocket
          runSettingsListener (quiet defaultSettings) ours pong `shouldThrowAnd` (`shouldSatisfy` isInfixOf text)
    it "openFreePort's socket listens" $
      bracket openFreePort (close . snd) $ \(port, listener) -> do
        withConnection port (const (return ()))
        socketPort listener `shouldReturn` fromIntegral port
    it "runSettingsUnix serves at a path, replaces what is left of a dead server, and cleans up" . withFolder $
      \folder ->
        do
          let path = folder </> "socket"
          bracket (socket AF_UNIX Stream defaultProtocol) close $ \dead -> bind dead (SockAddrUnix path)
          background (runSettingsUnix (quiet defaultSettings) path pong) $ do
            eventually (exchangeUnix path) >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
            runSettingsUnix defaultSettings path pong `shouldThrow` (const True :: IOException -> Bool)
            exchangeUnix path >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
          doesPathExist path `shouldReturn` False
    it "runSettingsUnix leaves the path to the next server, which may begin while the last one finishes" . withFolder $
      \folder ->
        do
          let path = folder </> "socket"
              untilFree = doesPathExist path >>= \taken -> when taken (threadDelay 5000 >> untilFree)
          (stopper, started, finish) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
          let waiting request respond = putMVar started () >> takeMVar finish >> pong request respond
          lastOne <-
            async (runSettingsUnix (setInstallShutdownHandler (putMVar stopper) (quiet defaultSettings)) path waiting)
          answer <- async (eventually (exchangeUnix path))
          within "the request" (takeMVar started)
          join (takeMVar stopper)
          within "the path" untilFree
          background (runSettingsUnix (quiet defaultSettings) path pong) $ do
            eventually (exchangeUnix path) >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
            putMVar finish ()
            wait answer >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
            within "the end" (wait lastOne)
            exchangeUnix path >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")
    it "a server does not take the socket of one that begins at the same time for that of a dead one" . withFolder $
      \folder ->
        do
          let path = folder </> "socket"
          bracket (socket AF_UNIX Stream defaultProtocol) close $ \begun -> do
            -- It has a path, and does not listen yet.
            other <- whileFolderIsLocked path $ do
              bind begun (SockAddrUnix path)
              other <- async (try' (openUnixListener defaultSettings path))
              threadDelay 100000
              other <$ listen begun 1
            wait other >>= either (const (return ())) (const (expectationFailure "it has begun as well"))
            bracket (socket AF_UNIX Stream defaultProtocol) close (`connect` SockAddrUnix path)
    it "a server leaves a socket alone that has come in place of its own" . withFolder $ \folder -> do
      let path = folder </> "socket"
      bracket (socket AF_UNIX Stream defaultProtocol) close $ \next -> do
        background (runSettingsUnix (quiet defaultSettings) path pong) $ do
          _ <- eventually (exchangeUnix path)
          bind next (SockAddrUnix (folder </> "next")) >> listen next 1
          renamePath (folder </> "next") path
        doesPathExist path `shouldReturn` True
    it "runSettingsUnix does not take another file for what is left of a dead server" . withFolder $ \folder -> do
      let path = folder </> "file"
      writeFile path "precious"
      within "the refusal" (runSettingsUnix (quiet defaultSettings) path pong)
        `shouldThrow` (const True :: IOException -> Bool)
      readFile path `shouldReturn` "precious"
    it "runSettingsInherited without inherited sockets is runSettings" $ do
      port <- bracket openFreePort (close . snd) (return . fst)
      background (runSettingsInherited (setPort port (setHost "127.0.0.1" defaultSettings)) pong) $
        eventually (exchange port get) >>= (`shouldSatisfy` B.isPrefixOf "HTTP/1.1 200")

    it "openListeners opens what runSettingsListeners and runSettingsListener serve" $
      forM_
        [ runSettingsListeners,
          \settings listeners application ->
            forM_ (take 1 listeners) $ \one -> runSettingsListener settings (listenerSocket one) application
        ]
        $ \serve ->
          withListeners id $ \port listeners ->
            background (serve (quiet defaultSettings) listeners pong) $
              map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]

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
      let logger request status size = modifyIORef logged ((rawPathInfo request, statusCode status, size) :)
      withServer (setLogger logger) various $ \port ->
        void . exchange port $
          B.concat (map request' ["/lazy", "/stream", "/none", "/throw", "/file", "/missing"])
            <> "HEAD /lazy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      reverse <$> readIORef logged
        `shouldReturn` [ ("/lazy", 200, Just 5),
                         ("/stream", 201, Just 100000),
                         ("/none", 204, Nothing),
                         ("/throw", 500, Just 20),
                         ("/file", 200, Just 11),
                         ("/missing", 404, Just 14),
                         ("/lazy", 200, Nothing)
                       ]
    it "a logger that throws is reported, and harms nobody" $ do
      reports <- newIORef (0 :: Int)
      withServer
        (setOnException (\_ _ -> modifyIORef reports (+ 1)) . setLogger (\_ _ _ -> throwIO (ErrorCall "log")))
        pong
        $ \port ->
          do
            map replyBody . parseReplies <$> exchange port (request' "/" <> get) `shouldReturn` ["Pong", "Pong"]
            readIORef reports `shouldReturn` 2
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
    it "setAccept that throws something else than an IOError ends the server, which throws it, and not as if it had been told to" $
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
          $ withServer (setOnExceptionResponse exceptionResponseForDebug) (\_ _ -> throwIO (ErrorCall reason)) $ \port ->
            map (\reply -> (replyStatus reply, headerOf "content-type" reply, replyBody reply)) . parseReplies
              <$> exchange port get
              `shouldReturn` [(500, Just "text/plain; charset=utf-8", "Exception: " <> bytes)]
    it "defaultOnExceptionResponse throws what came from outside" $
      evaluate (defaultOnExceptionResponse (toException ThreadKilled)) `shouldThrow` (== ThreadKilled)
    it "defaultOnException displays applications' exceptions, and not clients'" $ do
      displayed <-
        stderrOf $
          mapM_
            (defaultOnException Nothing)
            [toException (ErrorCall "the reason"), toException IncompleteHeaders, toException ThreadKilled]
      displayed `shouldBe` "the reason\n"
    it "defaultOnException displays what a thrown exception says, without a backtrace" $ do
      thrown <- try (throwIO (ErrorCall "the reason"))
      displayed <- stderrOf (either (defaultOnException Nothing) return thrown)
      displayed `shouldBe` "the reason\n"
    it "defaultOnException displays a time limit of the application's own, and what came from outside but meant it" $ do
      expired <-
        try
          ( bracket
              (Millrace.socketPair AF_UNIX Stream defaultProtocol)
              (\(one, other) -> mapM_ Millrace.close [one, other])
              $ \(one, _) ->
                do
                  deadlineAfter 0 >>= \now -> recvBefore now one 1
          )
      let upstream = either (toException :: IOException -> SomeException) (error . show) expired
      displayed <-
        stderrOf $ mapM_ (defaultOnException Nothing) [upstream, toException StackOverflow, toException AsyncCancelled]
      map (not . null) (lines displayed) `shouldBe` [True, True, True]
      displayed `shouldSatisfy` isInfixOf "stack overflow"
    it "defaultShouldDisplayException says no of a client that was too slow" $ do
      seen <- newEmptyMVar
      let large _ respond = respond (responseLBS status200 [] (L.replicate 20000000 0x78))
      withServer (setOnException (const (putMVar seen)) . setSendTimeout 1) large $ \port ->
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

  describe "makeServerState" $ do
    it "shows open connections and the shutdown" $ do
      (state, settings) <- makeServerState (quiet defaultSettings)
      isJust (getServerState settings) `shouldBe` True
      isNothing (getOpenConnectionCounter defaultSettings) `shouldBe` True
      currentOpenConnections state `shouldReturn` 0
      withApplicationSettings settings (return pong) $ \port -> do
        withConnection port $ \one -> withConnection port $ \two -> do
          forM_ [one, two] $ \client -> send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveResponse client
          currentOpenConnections state `shouldReturn` 2
          mapM getCount (getOpenConnectionCounter settings) `shouldReturn` Just 2
        within "none" (atomically (currentOpenConnectionsSTM state >>= check . (== 0)))
        currentShuttingDownState state `shouldReturn` False
      currentShuttingDownState state `shouldReturn` True
      within "the shutdown" (atomically (currentShuttingDownStateSTM state >>= check))
    it "shows which connections are new, idle and active" $ do
      (state, settings) <- makeServerState (quiet defaultSettings)
      (_, otherSettings) <- makeServerState (quiet defaultSettings)
      [asked, go] <- replicateM 2 newEmptyMVar
      let slow request respond =
            if rawPathInfo request == "/slow"
              then putMVar asked () >> takeMVar go >> pong request respond
              else pong request respond
          reaches states = within (show states) . fix $ \again -> do
            found <- currentConnectionStates state
            unless (found == states) (threadDelay 1000 >> again)
      withApplicationSettings settings (return slow) $ \port ->
        withApplicationSettings otherSettings (return pong) $ \other ->
          withConnection port $ \one ->
            withConnection port $ \two -> withConnection port $ \_ -> withConnection other $ \_ -> do
              send one "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> void (receiveResponse one)
              send two "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" >> takeMVar asked
              reaches (ConnectionStates 1 1 1)
              putMVar go () >> void (receiveResponse two)
              reaches (ConnectionStates 1 2 0)
      reaches (ConnectionStates 0 0 0)
    it "shows all connections that have come before the first of them is served" $
      bracket (getNumCapabilities <* setNumCapabilities 1) setNumCapabilities $ \_ -> do
        (state, settings) <- makeServerState (quiet defaultSettings)
        listener <- socket AF_INET Stream defaultProtocol
        bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
        listen listener 100
        port <- fromIntegral <$> socketPort listener
        seen <- newEmptyMVar
        let application request respond = currentOpenConnections state >>= tryPutMVar seen >> pong request respond
        withMany 50 port $ \clients -> do
          forM_ clients (`send` get)
          withAsync (runSettingsSocket settings listener application) $ \_ ->
            within "a request" (takeMVar seen) `shouldReturn` 50
    it "has the names that Warp has for it" $ do
      (state, settings) <- makeSettingsAndServerState
      (counter, others) <- makeSettingsAndCounter
      forM_ [(currentOpenConnections state, settings), (getCount counter, others)] $ \(count, changed) ->
        withApplicationSettings changed (return pong) $ \port -> withConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          _ <- receiveResponse client
          count `shouldReturn` 1
  where
    get = request' "/" `withField` "Connection: close"
    request' path = B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"]
    withField given field = B.concat [B.take (B.length given - 2) given, field, "\r\n\r\n"]
    exchangeUnix path = bracket (socket AF_UNIX Stream defaultProtocol) close $ \client -> do
      connect client (SockAddrUnix path)
      Socket.sendAll client get
      Socket.recv client 4096
    withListeners change use =
      bracket (openListeners (change (setHost "127.0.0.1" (setPort 0 defaultSettings)))) (mapM_ closeListener) $
        \listeners ->
          do
            names <- mapM (Millrace.getSocketName . listenerSocket) listeners
            case names of
              SockAddrInet port _ : _ -> use (fromIntegral port :: Int) listeners
              _ -> fail ("the first is not an address of IPv4: " ++ show names)
    stderrOf action = withFolder $ \folder -> do
      let path = folder </> "stderr"
      bracket (hDuplicate stderr) (\saved -> hDuplicateTo saved stderr >> hClose saved) $ \_ ->
        withFile path WriteMode (\file -> hDuplicateTo file stderr >> action >> hFlush stderr)
      readFile path
    try' = try :: IO a -> IO (Either IOException a)
    anyhow = try :: IO a -> IO (Either SomeException a)
    shouldThrowAnd action expectation =
      try' action >>= either (expectation . show) (const (expectationFailure "it worked"))
    background server action = withAsync server (const action)
    eventually action = within "the server" go
      where
        go = try action >>= either again return
        again :: IOException -> IO B.ByteString
        again _ = threadDelay 20000 >> eventually action

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
