{-# LANGUAGE OverloadedStrings #-}

-- | Programs that were written for Warp, down to its internal interface, run on this package.
module Main (main) where

import Control.Concurrent (forkIO, killThread, yield)
import Control.Concurrent.MVar
import Control.Exception (bracket, finally)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as L
import Data.Maybe (isJust, isNothing)
import qualified Millrace.Http.Server.Settings as Millrace
import Network.HTTP.Types (status200)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Network.Wai (Application, rawPathInfo, responseFile, responseLBS)
import Network.Wai.Handler.Warp
import Network.Wai.Handler.Warp.Internal
import Test.Hspec

main :: IO ()
main = hspec $ do
  describe "the settings' fields" settingsSpec
  describe "a server" serverSpec
  describe "connections that a program makes" connectionSpec
  describe "the caches" cacheSpec

-- Answers with the path.
echo :: Application
echo request respond = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))

settingsSpec :: Spec
settingsSpec = do
  it "are read" $ do
    (settingsPort defaultSettings, settingsHost defaultSettings) `shouldBe` (3000, "*4")
    (settingsTimeout defaultSettings, settingsHTTP2Enabled defaultSettings) `shouldBe` (30, True)
  it "are what the setters set" $
    settingsPort (setPort 80 defaultSettings) `shouldBe` 80
  it "are updated, several at a time" $ do
    let changed = defaultSettings {settingsPort = 81, settingsHost = "!6", settingsHTTP2Enabled = False}
    (getPort changed, getHost changed) `shouldBe` (81, "!6")
    Millrace.settingsProtocols changed `shouldBe` Millrace.OnlyHttp1
  it "keep what Millrace's settings have beyond them" $ do
    let changed = (Millrace.setMaximumConnections (Just 7) defaultSettings) {settingsPort = 82}
    Millrace.settingsMaximumConnections changed `shouldBe` Just 7
  it "leave the usual way to accept, and no logger, when others are updated" $ do
    let changed = defaultSettings {settingsPort = 83}
    isNothing (Millrace.settingsAccept changed) `shouldBe` True
    isNothing (Millrace.settingsLogger changed) `shouldBe` True
  it "take a program's own functions" $ do
    let changed = defaultSettings {settingsAccept = acceptLater, settingsLogger = \_ _ _ -> return ()}
    isJust (Millrace.settingsAccept changed) `shouldBe` True
    isJust (Millrace.settingsLogger changed) `shouldBe` True
  it "are matched" $ do
    let Settings {settingsServerName = name} = setServerName "name" defaultSettings
    name `shouldBe` "name"
  it "hold the state that was made" $ do
    (state, settings) <- makeSettingsAndServerState
    (again, _) <- makeServerState settings
    (again == state) `shouldBe` True

-- A program's own way to accept.
acceptLater :: Socket -> IO (Socket, SockAddr)
acceptLater listener = yield >> accept listener

serverSpec :: Spec
serverSpec = do
  it "answers a request without Host" $
    testWithApplication (return echo) $ \port -> do
      answer <- askPort port "GET /there HTTP/1.1\r\nConnection: close\r\n\r\n"
      firstAndLast answer `shouldBe` ("HTTP/1.1 200 OK\r", "/there")
  it "answers a request whose lines end with line feeds" $
    testWithApplication (return echo) $ \port -> do
      answer <- askPort port "GET /there HTTP/1.1\n\n"
      firstAndLast answer `shouldBe` ("HTTP/1.1 200 OK\r", "/there")
  it "counts connections" $ do
    (counter, settings) <- makeSettingsAndCounter
    let application _ respond = getCount counter >>= respond . responseLBS status200 [] . shown
    testWithApplicationSettings settings (return application) $ \port -> do
      answer <- askPort port "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
      snd (firstAndLast answer) `shouldBe` "1"
  where
    shown = L.fromStrict . Char8.pack . show

connectionSpec :: Spec
connectionSpec = do
  it "are served" $
    served runOnSockets echo "GET /a HTTP/1.1\r\nConnection: close\r\n\r\n" "/a"
  it "are completed in their own threads" $
    served runOnMadeSockets echo "GET /b HTTP/1.1\r\nConnection: close\r\n\r\n" "/b"
  it "send files" $
    served runOnSockets file "GET /c HTTP/1.0\r\n\r\n" "    , warp"
  where
    file _ respond = respond (responseFile status200 [] "warp.cabal" Nothing)
    runOnSockets settings listener = runSettingsConnection settings $ do
      (s, peer) <- accept listener
      setSocketCloseOnExec s
      connection <- socketConnection settings s
      return (connection, peer)
    runOnMadeSockets settings listener = runSettingsConnectionMakerSecure settings $ do
      (s, peer) <- accept listener
      return (socketConnection settings s >>= \connection -> return (connection, TCP), peer)
    served run' application request expected =
      bracket openFreePort (close . snd) $ \(port, listener) -> do
        ended <- newEmptyMVar
        server <- forkIO (run' defaultSettings listener application `finally` putMVar ended ())
        answer <- askPort port request
        firstAndLast answer `shouldBe` ("HTTP/1.1 200 OK\r", expected)
        killThread server
        takeMVar ended

cacheSpec :: Spec
cacheSpec = do
  it "of the date has its form" $ withDateCache $ \date -> B.length <$> date `shouldReturn` 29
  it "of files knows their sizes" $ do
    size <- toInteger . B.length <$> B.readFile "warp.cabal"
    withFileInfoCache 0 $ \info -> fileInfoSize <$> info "warp.cabal" `shouldReturn` size
  it "opens files" $ openFile "warp.cabal" >>= closeFile

askPort :: Port -> B.ByteString -> IO B.ByteString
askPort port request =
  bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
    connect s (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
    sendAll s request
    everything s
  where
    everything s = do
      bytes <- recv s 4096
      if B.null bytes then return B.empty else (bytes <>) <$> everything s

firstAndLast :: B.ByteString -> (B.ByteString, B.ByteString)
firstAndLast answer = (head (Char8.lines answer ++ [""]), last ("" : Char8.lines answer))
