{-# LANGUAGE OverloadedStrings #-}

-- | Clients that leave, or send more than they should.
module LeavingClientSpec (spec) where

import Control.Concurrent (forkIO, myThreadId, threadDelay, throwTo, yield)
import Control.Concurrent.MVar
import Control.Exception (Exception (..), IOException, catch, throwIO, try)
import Control.Monad (forM_, forever, when)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import FaultSupport
import GHC.Conc (ThreadStatus (..), threadStatus)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import Test.Hspec

spec :: Spec
spec = do
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
      awaitReport reports
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
    -- Between capabilities an exception is a message. A thread takes it up when it next yields.
    awaitThrown thrower =
      threadStatus thrower >>= \status -> yield >> when (status == ThreadRunning) (awaitThrown thrower)
    -- A sparse file: it takes no space on the disk.
    large _ respond = withFolder $ \folder -> do
      withBinaryFile (folder </> "large") WriteMode (`hSetFileSize` 50000000)
      respond (responseFile status200 [] (folder </> "large") Nothing)
    nothing :: IOError -> B.ByteString
    nothing _ = ""

-- A client leaves when the first bytes are there. Returns when the server, which sets no time limit, has noticed.
leaving :: (Settings -> Settings) -> Application -> IO ()
leaving change application = do
  closed <- newEmptyMVar
  withServer (change . setTimeout 0 . setOnClose (\_ -> putMVar closed ())) application $ \port -> do
    _ <- withSmallConnection port $ \client -> send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveSome client 100
    within "the end of the connection" (takeMVar closed)
