{-# LANGUAGE OverloadedStrings #-}

-- | Servers and clients with streaming-commons' interface, also against those of that library.
module NetworkSpec (spec) where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (..), IOException, bracket, finally, mask_, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM_, unless, void, when)
import qualified Data.ByteString as ByteString
import Data.Maybe (isJust, isNothing)
import qualified Data.Streaming.Network as Theirs
import Millrace.Socket (Family (..), ShutdownCmd (..), shutdown)
import qualified Millrace.Socket.ByteString as Millrace
import Millrace.Streaming.Network
import qualified Millrace.Timer as Timer
import qualified Network.Socket as Network
import Support
import System.IO.Error (isDoesNotExistError, isUserError)
import Test.Hspec hiding (before)
import TestSupport.ByteStream (bytesAt, receiveAllBy, receiveCountBy)
import TestSupport.Folder (freePort)
import TestSupport.Job (withThread)
import TestSupport.Leaks (withoutLeaks)
import TestSupport.Time (within)

spec :: Spec
spec = do
  describe "round trips" $ do
    it "carry random sizes over TCP" . withoutLeaks . withTCP id echo $ \settings ->
      forM_ [1 .. 5] $ \seed -> runTCPClient settings (roundTrip seed)
    it "carry random sizes over Unix sockets" . withoutLeaks . withUnix echo $ \settings ->
      forM_ [1 .. 5] $ \seed -> runUnixClient settings (roundTrip seed)
    it "work for clients of streaming-commons" . withTCP id echo $ \settings ->
      Theirs.runTCPClient settings (roundTrip 7)
    it "work with servers of streaming-commons" $ do
      port <- newEmptyMVar
      withThread (Theirs.runTCPServer (tellPort port (serverSettingsTCP 0 "127.0.0.1")) echo) $ \_ -> do
        number <- takeMVar port
        runTCPClient (clientSettingsTCP number "127.0.0.1") (roundTrip 8)
    it "work for a thousand connections at the same time" . withoutLeaks $ withTCP id echo (thousand 1000)

  describe "settings" $ do
    it "limit what a read returns" $ do
      lengths <- newEmptyMVar
      withTCP (setReadBufferSize 7) (\app -> lengthsOf (appRead app) >>= putMVar lengths) $ \settings -> do
        runTCPClient settings (`appWrite` bytesAt 0 1000)
        within 10 "the lengths" (takeMVar lengths)
          >>= (`shouldSatisfy` (\all' -> sum all' == 1000 && maximum all' <= 7))
      withTCP id (\app -> appWrite app (bytesAt 0 1000000)) $ \settings ->
        runTCPClient (setReadBufferSize 1000000 settings) $ \app -> do
          found <- lengthsOf (appRead app)
          found `shouldSatisfy` (\all' -> sum all' == 1000000 && maximum all' <= 16384)
    it "refuse a size that is not positive" . withTCP id echo $ \settings ->
      runTCPClient (setReadBufferSize 0 settings) appRead `shouldThrow` (not . isUserError)
    it "give addresses" $ do
      seen <- newEmptyMVar
      withTCP
        (setNeedLocalAddr True)
        (\app -> putMVar seen (appLocalAddr app, appSockAddr app, isNothing (appRawSocket app)))
        $ \settings ->
          do
            there <- runTCPClient settings (return . appSockAddr)
            (local, _, noSocket) <- takeMVar seen
            local `shouldBe` Just there
            noSocket `shouldBe` True
      withTCP id (putMVar seen . (\app -> (appLocalAddr app, appSockAddr app, True))) $ \settings -> do
        runTCPClient settings (const (return ()))
        (local, _, _) <- takeMVar seen
        local `shouldBe` Nothing
    it "choose the family" . withTCP id echo $ \settings -> do
      runTCPClient (setAddrFamily AF_INET (setHost "localhost" settings)) (roundTrip 9)
      runTCPClient (setAddrFamily AF_INET6 settings) (roundTrip 9) `shouldThrow` isDoesNotExistError
    it "give Millrace's socket to runTCPServerWithHandle" $ do
      port <- newEmptyMVar
      let serve s _ local = Millrace.sendAll s (if isJust local then "local" else "none") >> shutdown s ShutdownSend
      withThread
        (runTCPServerWithHandle (setNeedLocalAddr True (tellPort port (serverSettingsTCP 0 "127.0.0.1"))) serve)
        $ \_ ->
          do
            number <- takeMVar port
            runTCPClient (clientSettingsTCP number "127.0.0.1") (receiveAllBy . appRead) `shouldReturn` "local"

  describe "ends" $ do
    it "of one connection by a reset do not concern the server" . withoutLeaks $ do
      outcome <- newEmptyMVar
      withTCP id (\app -> try (receiveAllBy (appRead app)) >>= putMVar outcome) $ \settings -> do
        resetting settings
        problem <- within 10 "the error" (takeMVar outcome)
        either (\e -> show (e :: IOException)) show problem `shouldContain` "Millrace.Socket.ByteString.recv"
        runTCPClient settings (const (return ()))
        within 10 "the next connection" (takeMVar outcome) >>= either throwIO (`shouldBe` "")
    it "of a connection come with its action's exception" . withoutLeaks $
      do
        withTCP id (\_ -> throwIO ThreadKilled) -- GHC's handler prints all others
        $ \settings -> do
          runTCPClient settings (receiveAllBy . appRead) `shouldReturn` ""
          runTCPClient settings (receiveAllBy . appRead) `shouldReturn` ""
    it "of a connection come with appCloseConnection" $ do
      seen <- newEmptyMVar
      withTCP id (\app -> appCloseConnection app >> takeMVar seen) $ \settings -> do
        within 10 "the end" (runTCPClient settings (receiveAllBy . appRead)) `shouldReturn` ""
        putMVar seen ()
    it "of the server leave its connections" . withoutLeaks $ do
      port <- newEmptyMVar
      listens <- newEmptyMVar
      server <-
        forkIO (runTCPServer (tellPort port (serverSettingsTCP 0 "127.0.0.1")) echo `finally` putMVar listens ())
      number <- takeMVar port
      let settings = clientSettingsTCP number "127.0.0.1"
      runTCPClient settings $ \app -> do
        appWrite app "before"
        receiveCountBy (const (appRead app)) 6 `shouldReturn` "before"
        killThread server
        takeMVar listens
        appWrite app "after"
        receiveCountBy (const (appRead app)) 5 `shouldReturn` "after"
        runTCPClient settings (const (return ())) `shouldThrow` isDoesNotExistError
    it "of connecting say why, as an IOError" $ do
      number <- freePort
      runTCPClient (clientSettingsTCP number "127.0.0.1") (const (return ())) `shouldThrow` isDoesNotExistError
      runTCPClient (clientSettingsTCP 80 "name.invalid") (const (return ())) `shouldThrow` isDoesNotExistError
      withFolder $ \folder ->
        runUnixClient (clientSettingsUnix (folder ++ "/missing")) (const (return ())) `shouldThrow` isDoesNotExistError

  it "loses no byte when reads are interrupted" . withTCP id slowly $ \settings ->
    runTCPClient settings $ \app -> do
      let collect (limit : limits) before
            | sum (map ByteString.length before) >= 60000 = return (ByteString.concat (reverse before))
            | otherwise = Timer.timeout (1 + limit `mod` 300) (appRead app) >>= collect limits . maybe before (: before)
          collect [] _ = return "no more numbers"
      collect (randoms 3) [] `shouldReturn` bytesAt 0 60000

  it "loses no connection of a given socket when servers follow each other" . withoutLeaks $
    bracket (Theirs.bindRandomPortTCP "127.0.0.1") (Network.close . snd) $ \(number, listener) -> do
      let serving = runTCPServer (serverSettingsTCPSocket listener) (\app -> appRead app >>= appWrite app)
          client = runTCPClient (clientSettingsTCP number "127.0.0.1") (\app -> appWrite app "x" >> appRead app)
      withThread (forever (void (Timer.timeout 3000 serving))) $ \_ ->
        replicateM_ 500 (within 10 "an answer" client `shouldReturn` "x")
      -- It is still open.
      void (Network.getSocketName listener)

  -- If the timeout's exception interrupted closing, it would replace the one that has killed the thread, and the thread
  -- would continue.
  it "ends when it is killed while a timeout passes" . withoutLeaks $
    forM_ (take 500 (randoms 12)) $ \delay -> do
      ended <- newEmptyMVar
      server <- mask_ $
        forkIOWithUnmask $ \unmask ->
          unmask (forever (void (Timer.timeout 300 (runTCPServer (serverSettingsTCP 0 "127.0.0.1") (\_ -> return ())))))
            `finally` putMVar ended ()
      Timer.threadDelay (delay `mod` 1000)
      killThread server
      within 10 "the end of the server" (takeMVar ended)

echo :: HasReadWrite app => app -> IO ()
echo app = do
  bytes <- appRead app
  unless (ByteString.null bytes) (appWrite app bytes >> echo app)

-- Sends pieces of random sizes, while they come back.
roundTrip :: HasReadWrite app => Int -> app -> IO ()
roundTrip seed app = do
  let pieces = sizes (fromIntegral seed) 30
      total = sum pieces
  withThread (mapM_ (\(offset, size) -> appWrite app (bytesAt offset size)) (zip (scanl (+) 0 pieces) pieces)) $ \_ ->
    do
      back <- receiveCountBy (const (appRead app)) total
      (back == bytesAt 0 total) `shouldBe` True

-- The number of bytes that each read returned, until the end.
lengthsOf :: IO ByteString.ByteString -> IO [Int]
lengthsOf next =
  next >>= \piece -> if ByteString.null piece then return [] else (ByteString.length piece :) <$> lengthsOf next

-- Each connection is used before and after all are there.
thousand :: Int -> ClientSettings -> IO ()
thousand count settings = do
  answered <- newMVar (0 :: Int)
  allAnswered <- newEmptyMVar
  done <- forM [1 .. count] $ \i -> do
    end <- newEmptyMVar
    void . forkIO $ do
      outcome <- try . runTCPClient settings $ \app -> do
        first <- exchange i app
        now <- modifyMVar answered (\n -> return (n + 1, n + 1))
        when (now == count) (putMVar allAnswered ())
        readMVar allAnswered
        (first &&) <$> exchange (i + 1) app
      putMVar end (either (const False :: IOException -> Bool) id outcome)
    return end
  outcomes <- mapM (within 60 "a connection" . takeMVar) done
  length (filter id outcomes) `shouldBe` count
  where
    exchange offset app =
      appWrite app (bytesAt offset 1000) >> (== bytesAt offset 1000) <$> receiveCountBy (const (appRead app)) 1000

-- Writes 60,000 bytes in small pieces.
slowly :: AppData -> IO ()
slowly app =
  forM_ [0, 30 .. 59970] $ \offset -> appWrite app (bytesAt offset 30) >> when (offset `mod` 600 == 0) (threadDelay 200)

-- Connects, and resets the connection, while a server reads.
resetting :: ClientSettings -> IO ()
resetting settings =
  bracket (Theirs.getSocketTCP (getHost settings) (getPort settings)) (Network.close . fst) $ \(s, _) ->
    Network.setSockOpt s Network.Linger (Network.StructLinger 1 0)
