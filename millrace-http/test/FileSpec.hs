{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Responses from files: whole, in parts that the application chose, and those that cannot be read.
module FileSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, fromException, try)
import Control.Monad (forM_, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import FileSupport
import Foreign.C (CInt (..), CString, Errno (..), eINVAL, withCString)
import GHC.IO.Exception (IOException (..))
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), defaultShouldDisplayException, setOnAnswer, setOnException)
import Support
import System.FilePath ((</>))
import System.Posix.Fcntl (Advice (AdviceDontNeed), fileAdvise)
import System.Posix.Types (Fd (..))
import System.Posix.Unistd (fileSynchronise)
import Test.Hspec

spec :: Spec
spec = around withFiles $ do
  describe "whole files" $ do
    forM_ [("empty", 0), ("small", 1000), ("page", 16384), ("large", 3000000)] $ \(name, size) ->
      it (name ++ ": arrive, with length, date and Accept-Ranges, and leave the connection open") $ \folder ->
        withServer id (fileServer folder) $ \port -> withConnection port $ \client ->
          forM_ [1, 2 :: Int] $ \_ -> do
            send client (B.concat ["GET /", C8.pack name, " HTTP/1.1\r\nHost: a\r\n\r\n"])
            reply <- receiveResponse client
            (replyStatus reply, replyBody reply == content size) `shouldBe` (200, True)
            headerOf "content-length" reply `shouldBe` Just (C8.pack (show size))
            headerOf "last-modified" reply `shouldBe` Just modified
            headerOf "accept-ranges" reply `shouldBe` Just "bytes"
    forM_ [("small", 1000), ("page", 16384), ("large", 3000000)] $ \(name, size) ->
      it (name ++ ": arrive when they are not in memory") $ \folder ->
        withServer id (fileServer folder) $ \port -> withConnection port $ \client ->
          forM_ [1, 2 :: Int] $ \_ -> do
            chill (folder </> name)
            send client (B.concat ["GET /", C8.pack name, " HTTP/1.1\r\nHost: a\r\n\r\n"])
            reply <- receiveResponse client
            (replyStatus reply, replyBody reply == content size) `shouldBe` (200, True)
    it "arrive where the transport cannot send files itself" $ \folder ->
      withServerOver (overMemoryWhere (return ())) id (fileServer folder) $ \server -> withConnection server $
        \client ->
          forM_ [("small", 1000), ("page", 16384), ("large", 3000000), ("empty", 0)] $ \(name, size) -> do
            send client (B.concat ["GET /", name, " HTTP/1.1\r\nHost: a\r\n\r\n"])
            reply <- receiveResponse client
            (replyStatus reply, replyBody reply == content size) `shouldBe` (200, True)
    it "pipelined with other responses, keep their order" $ \folder ->
      withServer id (fileServer folder) $ \port -> do
        bytes <-
          exchange
            port
            ( B.concat
                [ B.concat ["GET /", name, " HTTP/1.1\r\nHost: a\r\n", end, "\r\n"]
                  | (name, end) <-
                      [("small", ""), ("large", ""), ("missing", ""), ("page", "Connection: close\r\n")]
                ]
            )
        map (B.length . replyBody) (parseReplies bytes) `shouldBe` [1000, 3000000, 14, 16384]
    it "HEAD gives the same head and no body" $ \folder ->
      withServer id (fileServer folder) $ \port -> do
        bytes <- exchange port "HEAD /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        bytes `shouldSatisfy` B.isInfixOf "Content-Length: 3000000\r\n"
        bytes `shouldSatisfy` B.isSuffixOf "\r\n\r\n"
    it "keep another status of the application's, whatever the request asks for" $ \folder ->
      decided
        (\_ respond -> respond (responseFile status404 [] (folder </> "small") Nothing))
        methodGet
        ""
        [("Range", "bytes=0-1")]
        >>= \reply ->
          (replyStatus reply, B.length (replyBody reply)) `shouldBe` (404, 1000)
  describe "a path that names a descriptor of the application's" $
    forM_
      [ ("page", "to read", 0, 200),
        ("page", "to write", 1, 200),
        ("page", "to be found only", openToFind, 200),
        ("folder", "to read", 0, 404)
      ]
      $ \(name, purpose, how, status) ->
        it (name ++ ", open " ++ purpose ++ ": it is that file, and stays open") $ \folder ->
          bracket (withCString (folder </> name) (`c_open` how)) c_close $ \number -> do
            let application _ respond = respond (responseFile status200 [] ("/proc/self/fd/" ++ show number) Nothing)
            withServer id application $ \port ->
              forM_ [1, 2 :: Int] $ \_ -> do
                replies <- parseReplies <$> exchange port "GET / HTTP/1.0\r\n\r\n"
                map replyStatus replies `shouldBe` [status]
                when (status == 200) $ map replyBody replies `shouldBe` [content 16384]
  describe "a file that opens and cannot be read is a 500, and the system's reason is reported" $
    forM_ [("whole", ""), ("in several parts", "Range: bytes=0-1,10-11\r\n")] $ \(what, field) ->
      it what . const . withUnreadable $ \path -> do
        reported <- newIORef []
        let reporting = setOnException (\_ exception -> modifyIORef reported (exception :))
        withServer reporting (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \port -> do
          replies <-
            parseReplies
              <$> exchange port (B.concat ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", field, "\r\n"])
          map replyStatus replies `shouldBe` [500]
        let Errno invalid = eINVAL
        exceptions <- readIORef reported
        map fileAndReason exceptions `shouldBe` [Right (Just path, Just invalid)]
        map defaultShouldDisplayException exceptions `shouldBe` [True]
  it "a file that cannot be read while it is sent is reported by the system's reason, as no client's doing"
    . const
    . withUnreadable
    $ \path ->
      do
        reported <- newIORef []
        told <- newEmptyMVar
        let reporting = setOnException (\_ exception -> modifyIORef reported (exception :)) . setOnAnswer (putMVar told)
            noRoom = [("X-Long", B.replicate 13000 120)] -- for the file beside the head
        withServer reporting (\_ respond -> respond (responseFile status200 noRoom path Nothing)) $ \port -> do
          bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          answer <- within "what observers are told" (takeMVar told)
          -- HTTP/1 has sent the head before it reads the file. HTTP/2 sends the head with the first bytes, so there
          -- another answer is possible.
          let complete = statusCode (answerStatus answer) == 500
          (B.take 12 bytes, answerIsCutOff answer)
            `shouldBe` if complete
              then ("HTTP/1.1 500", False)
              else ("HTTP/1.1 200", True)
        let Errno invalid = eINVAL
        exceptions <- readIORef reported
        map fileAndReason exceptions `shouldBe` [Right (Just path, Just invalid)]
        map defaultShouldDisplayException exceptions `shouldBe` [True]
  describe "files that cannot be read are a 404" $
    forM_ ["missing", "folder"] $ \name ->
      it name $ \folder -> requesting folder (C8.pack name) [] $ \reply ->
        (replyStatus reply, replyBody reply) `shouldBe` (404, "File not found")
  it "a path with a NUL in it is a 404, too: the system would not look behind that" $ \folder ->
    withServer id (\_ respond -> respond (responseFile status200 [] (folder </> "small\0.html") Nothing)) $ \port ->
      statusOf <$> exchange port "GET / HTTP/1.0\r\n\r\n" `shouldReturn` 404
  describe "parts chosen by the application" $ do
    it "are sent with its status and a Content-Range" $ \folder ->
      withServer
        id
        (\_ respond -> respond (responseFile status206 [] (folder </> "small") (Just (FilePart 10 5 1000))))
        $ \port ->
          do
            bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
            map (\reply -> (replyStatus reply, replyBody reply, headerOf "content-range" reply)) (parseReplies bytes)
              `shouldBe` [(206, B.take 5 (B.drop 10 (content 1000)), Just "bytes 10-14/1000")]
    forM_ [0, 10] $ \offset ->
      it ("of no bytes from " ++ show offset ++ " on are not called a range: there is no way to write one") $ \folder ->
        withServer
          id
          (\_ respond -> respond (responseFile status206 [] (folder </> "small") (Just (FilePart offset 0 1000))))
          $ \port ->
            do
              bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
              map (\reply -> (replyStatus reply, replyBody reply, headerOf "content-range" reply)) (parseReplies bytes)
                `shouldBe` [(206, "", Just "bytes */1000")]
    forM_
      ( map
          ((,,) "small" 1000)
          [ (-1, 5),
            (0, -5),
            (10, -1),
            (2 ^ (63 :: Int), 1),
            (2 ^ (63 :: Int) - 1, 1),
            (-(2 ^ (64 :: Int)), 5),
            (999, 2),
            (1000, 1),
            (2000, 1)
          ]
          ++ [("large", 3000000, (0, 3000001)), ("empty", 0, (0, 1))]
      )
      $ \(name, size, (offset, count)) ->
        it
          ( "from "
              ++ show offset
              ++ " on, "
              ++ show count
              ++ " bytes of "
              ++ show size
              ++ ", are a 500, with HEAD, too"
          )
          $ \folder ->
            withServer
              id
              (\_ respond -> respond (responseFile status200 [] (folder </> name) (Just (FilePart offset count size))))
              $ \port ->
                forM_ ["GET", "HEAD"] $ \method -> do
                  bytes <- exchange port (B.append method " / HTTP/1.0\r\n\r\n")
                  (method, B.take 13 bytes) `shouldBe` (method, "HTTP/1.1 500 ")
    it "may be of a file that does not tell its size" $ \_ ->
      withServer id (\_ respond -> respond (responseFile status200 [] "/proc/self/stat" (Just (FilePart 1 5 6)))) $
        \port ->
          forM_ [("GET", 5), ("HEAD", 0)] $ \(method, size) -> do
            bytes <- exchange port (B.append method " / HTTP/1.0\r\n\r\n")
            (B.take 13 bytes, B.length (B.drop 4 (snd (B.breakSubstring "\r\n\r\n" bytes))))
              `shouldBe` ("HTTP/1.1 200 ", size)

-- O_PATH on Linux.
openToFind :: CInt
openToFind = 0x200000

-- Takes a file out of the system's memory, as far as the system can be asked for that.
chill :: FilePath -> IO ()
chill path =
  bracket (withCString path (`c_open` 0)) c_close $ \number ->
    fileSynchronise (Fd number) >> fileAdvise (Fd number) 0 0 AdviceDontNeed

-- | A file that has a size but cannot be read: an attribute of a network interface that does not support it. Skips the
-- test if there is none.
withUnreadable :: (FilePath -> IO ()) -> IO ()
withUnreadable use = do
  outcome <- try (B.readFile path)
  case outcome of
    Left failure | fmap Errno (ioe_errno failure) == Just eINVAL -> use path
    _ -> pendingWith "this system has no such file"
  where
    path = "/sys/class/net/lo/duplex"

-- | What a report says of a file, or the exception that is none about a file.
fileAndReason :: SomeException -> Either String (Maybe FilePath, Maybe CInt)
fileAndReason exception = case fromException exception of
  Just failure -> Right (ioe_filename failure, ioe_errno failure)
  Nothing -> Left (show exception)

foreign import capi "fcntl.h open" c_open :: CString -> CInt -> IO CInt

foreign import capi "unistd.h close" c_close :: CInt -> IO CInt
