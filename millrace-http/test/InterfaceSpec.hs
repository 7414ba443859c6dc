{-# LANGUAGE OverloadedStrings #-}

-- | The ways to start a server, and what it shows of its state.
module InterfaceSpec (spec) where

import Control.Concurrent (getNumCapabilities, myThreadId, setNumCapabilities, threadDelay, throwTo)
import Control.Concurrent.Async (async, wait, withAsync)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically, check)
import Control.Exception
  ( ErrorCall (..),
    IOException,
    MaskingState (..),
    SomeException,
    bracket,
    bracket_,
    getMaskingState,
    mask_,
    onException,
    throwIO,
    try,
  )
import Control.Monad (forM_, join, replicateM, unless, void, when)
import qualified Data.ByteString as B
import Data.Either (isLeft)
import Data.Function (fix)
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isJust, isNothing)
import InterfaceSupport
import Millrace.Http.Server.Listener (openUnixListener, whileFolderIsLocked)
import qualified Millrace.Socket as Millrace
import Network.Socket hiding (close)
import qualified Network.Socket.ByteString as Socket
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Directory (doesPathExist, renamePath)
import System.Environment (setEnv, unsetEnv)
import System.FilePath ((</>))
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
    exchangeUnix path = bracket (socket AF_UNIX Stream defaultProtocol) close $ \client -> do
      connect client (SockAddrUnix path)
      Socket.sendAll client get
      Socket.recv client 4096
    try' = try :: IO a -> IO (Either IOException a)
    anyhow = try :: IO a -> IO (Either SomeException a)
    shouldThrowAnd action expectation =
      try' action >>= either (expectation . show) (const (expectationFailure "it worked"))
