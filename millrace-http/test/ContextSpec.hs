{-# LANGUAGE OverloadedStrings #-}

-- | Functions on a request beyond WAI's.
module ContextSpec (spec) where

import Control.Concurrent (forkIO, threadDelay, yield)
import Control.Concurrent.Async (forConcurrently_, mapConcurrently_, withAsync)
import Control.Concurrent.MVar
import Control.Exception (Exception (fromException), IOException, SomeAsyncException (..), finally, try, tryJust)
import Control.Monad (forM_, replicateM, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as LC8
import Data.IORef
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Directory (removeFile)
import System.FilePath ((</>))
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "sendEarlyHints (RFC 8297)" $ do
    it "sends a 103 before the response is there, as often as it is called" $ do
      gate <- newEmptyMVar
      let application request respond = do
            sendEarlyHints request [("Link", "</a.css>; rel=preload"), ("X", "two\r\nlines")]
            sendEarlyHints request [("Link", "</b.css>; rel=preload")]
            takeMVar gate
            pong request respond
      withServer id application $ \port -> withConnection port $ \client -> do
        send client get
        hints <- replicateM 2 (receiveResponse client)
        map (\one -> (replyStatus one, headerOf "link" one)) hints
          `shouldBe` [(103, Just "</a.css>; rel=preload"), (103, Just "</b.css>; rel=preload")]
        map (headerOf "x") hints `shouldBe` [Just "two  lines", Nothing]
        putMVar gate ()
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
    it "keeps the order of pipelined requests" $
      withServer id hinting $ \port -> do
        bytes <- exchange port (B.concat [get, get, lastGet])
        map replyStatus (parseReplies bytes) `shouldBe` [103, 200, 103, 200, 103, 200]
    it "does nothing for HTTP/1.0, nor after the response, nor in other threads, nor when the connection is over" $ do
      kept <- newIORef []
      let application request respond = do
            modifyIORef kept (request :)
            done <- newEmptyMVar
            void (forkIO (sendEarlyHints request hint `finally` putMVar done ()))
            takeMVar done
            when (httpVersion request == http10) (sendEarlyHints request hint)
            received <- pong request respond
            sendEarlyHints request hint
            return received
      withServer id application $ \port -> do
        map replyStatus . parseReplies <$> exchange port "GET / HTTP/1.0\r\n\r\n" `shouldReturn` [200]
        map replyStatus . parseReplies <$> exchange port lastGet `shouldReturn` [200]
        readIORef kept >>= mapM_ (`sendEarlyHints` hint)
    it "RFC 9110, 8.6; RFC 9112, 6.1: leaves out what frames a message, and all that a value may not hold" $ do
      let fields =
            [("Content-Length", "5"), ("transfer-encoding", "chunked"), ("Connection", "close"), ("X", "a\1b\127c\td")]
          application request respond = sendEarlyHints request fields >> pong request respond
      withServer id application $ \port -> do
        replies <- parseReplies <$> exchange port lastGet
        map replyStatus replies `shouldBe` [103, 200]
        map replyFields (take 1 replies) `shouldBe` [[("x", "a b c\td")]]
    it "refuses what is no field name" $ do
      let application request respond = sendEarlyHints request [("a b", "")] >> pong request respond
      withServer id application $ \port -> statusOf <$> exchange port lastGet `shouldReturn` 500

  describe "onDisconnect" $ do
    it "runs its callback when the client goes away" $ do
      (entered, gone) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      let application request respond = do
            onDisconnect request (putMVar gone ()) (putMVar entered () >> readMVar gone)
            isConnected request >>= \connected -> when connected (fail "still connected")
            pong request respond
      withServer id application $ \port -> do
        withConnection port $ \client -> send client get >> within "the request" (takeMVar entered)
        within "the callback" (readMVar gone)
    it "even if the client has sent more, which nobody reads" $ do
      (entered, gone) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      let application request respond = do
            onDisconnect request (putMVar gone ()) (putMVar entered () >> readMVar gone)
            pong request respond
      withServer id application $ \port -> do
        withConnection port $ \client -> do
          send client get
          within "the request" (takeMVar entered)
          send client get
        within "the callback" (readMVar gone)
    it "leaves clients alone that stay, and their next requests" $ do
      called <- newIORef False
      let application request respond = do
            onDisconnect request (writeIORef called True) (threadDelay 50000)
            isConnected request >>= \connected -> unless connected (fail "not connected")
            pong request respond
      withServer id application $ \port -> withConnection port $ \client -> do
        send client (B.concat [get, get])
        map replyBody <$> replicateM 2 (receiveResponse client) `shouldReturn` ["Pong", "Pong"]
        send client get
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
        readIORef called `shouldReturn` False

  describe "a request that is kept for longer than it is served" $ do
    it "is not connected, although its connection stays, and a callback runs at once" $ do
      (kept, told) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      withServer id (\request respond -> putMVar kept request >> pong request respond) $ \port ->
        withConnection port $ \client -> do
          request <- send client get >> takeMVar kept
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          within "the end of the request" (untilIO (not <$> isConnected request))
          within "the callback" (onDisconnect request (putMVar told ()) (takeMVar told))
          send client get
          next <- takeMVar kept
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          within "the end of the next one" (untilIO (not <$> isConnected next))
          isConnected request `shouldReturn` False
    it "ends the wait of a thread that waits for the end of its client" $ do
      told <- newEmptyMVar
      let application request respond = do
            begun <- newEmptyMVar
            void (forkIO (onDisconnect request (putMVar told ()) (putMVar begun () >> threadDelay 60000000)))
            takeMVar begun
            threadDelay 10000 -- Most likely that thread waits then. It is told in any case.
            pong request respond
      withServer id application $ \port -> withConnection port $ \client -> do
        send client get
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
        within "the callback" (takeMVar told)
    it "sends no hints to the client of another one that its thread serves" $ do
      earlier <- newIORef Nothing
      let application request respond = do
            readIORef earlier >>= mapM_ (`sendEarlyHints` hint)
            writeIORef earlier (Just request)
            pong request respond
      withServer id application $ \port -> withConnection port $ \client -> forM_ [1 .. 10 :: Int] $ \_ -> do
        send client get
        (\reply -> (replyStatus reply, replyBody reply)) <$> receiveResponse client `shouldReturn` (200, "Pong")
    it "has its own trailers or none, whatever other threads ask while others come and go" $ do
      kept <- newIORef []
      wrong <- newIORef []
      let application request respond = do
            atomicModifyIORef' kept (\others -> (take 300 (request : others), ()))
            body <- strictRequestBody request
            respond (responseLBS status200 [] body)
          number = B.drop 1 . rawPathInfo
          -- The exception that ends the thread must end it.
          synchronous failure = case fromException failure of
            Just (SomeAsyncException _) -> Nothing
            Nothing -> Just ()
          note what = atomicModifyIORef' wrong (\others -> (what : others, ()))
          ask seed request = do
            trailers <- getRequestTrailers request
            unless (trailers `elem` [[], [("x-number", number request)]]) (note (number request, show trailers))
            isConnected request >>= \connected -> unless connected (void (resetRequest request 8))
            sendEarlyHints request [("x-late", number request)]
            pauseTimeout request
            when (seed `mod` 7 == (0 :: Int)) (onDisconnect request (return ()) (threadDelay 100))
            late <- tryJust synchronous (getRequestBodyChunk request)
            either
              (const (return ()))
              (\bytes -> unless (B.isPrefixOf bytes (number request)) (note (number request, show bytes)))
              late
          hammer seed = do
            present <- readIORef kept
            forM_ (zip [seed ..] (everySeventh (drop (seed `mod` 7) present))) (uncurry ask)
            when (null present) yield
            hammer (seed + 1)
          post at =
            B.concat
              [ "POST /",
                at,
                " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n",
                at,
                "\r\n0\r\nx-number: ",
                at,
                "\r\n\r\n"
              ]
          client' port which = withConnection port $ \client -> forM_ [1 .. 60] $ \count -> do
            let at = C8.pack (show (10000000 + 1000 * which + count :: Int))
            send client (post at)
            reply <- receiveResponse client
            -- Another thread may have read the body first.
            unless (replyStatus reply == 200 && replyBody reply `elem` [at, ""]) (note (at, show reply))
      withServer id application $ \port -> within "the requests" $
        withAsync (mapConcurrently_ hammer [0 .. 2]) $ \_ ->
          forM_ [0, 5, 10] $ \round' -> forConcurrently_ [1 .. 5] (client' port . (round' +))
      readIORef wrong `shouldReturn` []

  describe "getFileInfo" $ do
    it "tells size and time, and throws for what is no file" $
      withFile "12345" $ \path -> do
        told <- newIORef Nothing
        let application request respond = do
              info <- getFileInfo request path
              missing <- try (getFileInfo request (path ++ "-missing")) :: IO (Either IOException FileInfo)
              folder <- try (getFileInfo request "/") :: IO (Either IOException FileInfo)
              writeIORef
                told
                (Just (fileInfoName info, fileInfoSize info, either (const ()) (const (error "found")) missing))
              either (const (return ())) (const (fail "found")) folder
              respond
                (responseLBS status200 [("Last-Modified", fileInfoDate info)] (LC8.pack (show (fileInfoSize info))))
        withServer id application $ \port -> statusOf <$> exchange port lastGet `shouldReturn` 200
        readIORef told `shouldReturn` Just (path, 5, ())
    it "looks again each time, unless it was told to remember" $
      withFile "12345" $ \path -> do
        let application request respond = do
              info <- getFileInfo request path
              respond (responseLBS status200 [] (LC8.pack (show (fileInfoSize info))))
            sizes change = untilQuick . withServer change application $ \port -> do
              ((first, second), elapsed) <- timed $ do
                writeFile path "12345"
                first <- exchange port lastGet
                writeFile path "1"
                second <- exchange port lastGet
                return (first, second)
              threadDelay 2500000
              third <- exchange port lastGet
              return $
                if elapsed > 1.9 then Nothing else Just (map (map replyBody . parseReplies) [first, second, third])
        sizes id `shouldReturn` [["5"], ["1"], ["1"]]
        sizes (setFileInfoCacheDuration 2) `shouldReturn` [["5"], ["5"], ["1"]]
    it "throws for requests of other servers" $
      getFileInfo defaultRequest "/etc/passwd" `shouldThrow` (const True :: IOException -> Bool)

  describe "setFdCacheDuration" $ do
    it "notices what is written to a file in place" $
      withFile "a" $ \path ->
        withServer (setFdCacheDuration 60) (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \port ->
          do
            map replyBody . parseReplies <$> exchange port lastGet `shouldReturn` ["a"]
            appendFile path "bc"
            map replyBody . parseReplies <$> exchange port lastGet `shouldReturn` ["abc"]
    it "keeps files open for so long, and those that are being sent until they are sent" $
      withFile (replicate 3000000 'a') $ \path -> do
        let application _ respond = respond (responseFile status200 [] path Nothing)
        withServer (setFdCacheDuration 2) application $ \port -> do
          withConnection port $ \client -> do
            send client get
            begun <- receive client
            removeFile path
            writeFile path "b"
            map replyBody . parseReplies <$> exchange port lastGet `shouldReturn` [B.replicate 3000000 0x61]
            threadDelay 5000000
            map replyBody . parseReplies <$> exchange port lastGet `shouldReturn` ["b"]
            rest <- timeout 30000000 (readUntil client 3000000 (B.length begun))
            rest `shouldBe` Just True
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    lastGet = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    hint = [("Link", "</a.css>")]
    hinting request respond = sendEarlyHints request hint >> pong request respond
    withFile content use = withFolder $ \folder -> do
      let path = folder </> "file"
      writeFile path content >> use path
    untilIO condition = condition >>= \holds -> unless holds (threadDelay 1000 >> untilIO condition)
    everySeventh list = case list of
      [] -> []
      one : others -> one : everySeventh (drop 6 others)
    readUntil client size got
      | got >= size = return True
      | otherwise = do
        bytes <- receive client
        if B.null bytes then return False else readUntil client size (got + B.length bytes)
