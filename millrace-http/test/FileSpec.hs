{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Responses from files: whole, in parts, conditional, and those that cannot be read.
module FileSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, fromException, try)
import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Time (UTCTime (..), fromGregorian)
import Foreign.C (CInt (..), CString, Errno (..), eINVAL, withCString)
import GHC.IO.Exception (IOException (..))
import InMemory (answered, asReply, getting)
import Millrace.Http.Date (currentSeconds, parseHttpDate)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), defaultShouldDisplayException, setOnAnswer, setOnException)
import Support
import System.Directory (createDirectory, setModificationTime)
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
  describe "a Last-Modified of the application's" $
    it "is the one that preconditions are about (RFC 9110, 13.1.3)" $ \folder -> do
      let application _ respond = respond (responseFile status200 [("Last-Modified", "Wed, 02 Jan 2019 00:00:00 GMT")] (folder </> "small") Nothing)
          status date = replyStatus <$> decided application methodGet "" [("If-Modified-Since", date)]
      status "Tue, 01 Jan 2019 00:00:00 GMT" `shouldReturn` 200
      status "Wed, 02 Jan 2019 00:00:00 GMT" `shouldReturn` 304
  describe "ranges (RFC 9110, 14)" $ do
    forM_ satisfiable $ \(range, from, size) ->
      it (show range) $ \folder -> requesting folder "small" [("Range", range)] $ \reply -> do
        replyStatus reply `shouldBe` 206
        replyBody reply `shouldBe` B.take size (B.drop from (content 1000))
        headerOf "content-range" reply
          `shouldBe` Just (C8.pack ("bytes " ++ show from ++ "-" ++ show (from + size - 1) ++ "/1000"))
    forM_ ["bytes=1000-", "bytes=1000-2000", "bytes=5000-", "bytes=99999999999999999999-", "bytes=-0"] $ \range ->
      it (show range ++ " is unsatisfiable") $ \folder -> requesting folder "small" [("Range", range)] $ \reply ->
        (replyStatus reply, headerOf "content-range" reply) `shouldBe` (416, Just "bytes */1000")
    forM_ [(416, "Range", "bytes=5000-"), (412, "If-Match", "\"other\"")] $ \(status, field, value) ->
      it ("a " ++ show status ++ " does not have the Content-Length that the application gave") $ \folder -> do
        let application _ respond = respond (responseFile status200 [("Content-Length", "1000"), ("ETag", "\"one\"")] (folder </> "small") Nothing)
        withServer id application $ \port -> do
          bytes <-
            exchange
              port
              (B.concat ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", field, ": ", value, "\r\n\r\n"])
          map (\reply -> (replyStatus reply, headerOf "content-length" reply)) (parseReplies bytes)
            `shouldBe` [(status, Just "0")]
    it "several come as one body, by parts" $ \folder ->
      requesting folder "small" [("Range", "bytes=0-1,500-502,-1")] $ \reply -> do
        replyStatus reply `shouldBe` 206
        let boundary = B.drop 31 (fromMaybe "" (headerOf "content-type" reply))
            part (range, from, size) =
              [ "\r\n--",
                boundary,
                "\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ",
                range,
                "/1000\r\n\r\n",
                B.take
                  size
                  (B.drop from (content 1000))
              ]
        headerOf "content-type" reply `shouldBe` Just (B.append "multipart/byteranges; boundary=" boundary)
        B.append "\r\n" (replyBody reply)
          `shouldBe` B.concat
            (concatMap part [("0-1", 0, 2), ("500-502", 500, 3), ("999-999", 999, 1)] ++ ["\r\n--", boundary, "--\r\n"])
        headerOf "content-range" reply `shouldBe` Nothing
    it "RFC 9110, 5.5: the type that the application gives to several cannot end its line" $ \folder -> do
      let application _ respond = respond (responseFile status200 [("Content-Type", "text/plain\r\nX-Injected: y")] (folder </> "small") Nothing)
      reply <- decided application methodGet "" [("Range", "bytes=0-1,500-502")]
      replyBody reply `shouldSatisfy` B.isInfixOf "\r\nContent-Type: text/plain  X-Injected: y\r\nContent-Range: "
    it "several that are large arrive whole" $ \folder ->
      requesting folder "large" [("Range", "bytes=1-1000000,1500000-")] $ \reply ->
        map
          (`B.isInfixOf` replyBody reply)
          [B.take 1000000 (B.drop 1 (content 3000000)), B.drop 1500000 (content 3000000)]
          `shouldBe` [True, True]
    it "given twice are ignored" $ \folder ->
      requesting folder "small" [("Range", "bytes=0-1"), ("Range", "bytes=2-3")] $ \reply ->
        replyStatus reply `shouldBe` 200
    it "14.2: of other methods are ignored" $ \folder -> do
      reply <- decided (fileServer folder) methodPost "small" [("Range", "bytes=0-1")]
      (replyStatus reply, B.length (replyBody reply)) `shouldBe` (200, 1000)
    forM_ ["lines=0-1", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes 0-1", "bytes=--5"] $ \range ->
      it (show range ++ " is ignored") $ \folder -> requesting folder "small" [("Range", range)] $ \reply ->
        (replyStatus reply, B.length (replyBody reply)) `shouldBe` (200, 1000)
    it "of an empty file is all of it, or unsatisfiable" $ \folder -> do
      requesting folder "empty" [("Range", "bytes=0-")] $ \reply ->
        (replyStatus reply, headerOf "content-range" reply) `shouldBe` (200, Nothing)
      requesting folder "empty" [("Range", "bytes=1-")] $ \reply ->
        (replyStatus reply, headerOf "content-range" reply) `shouldBe` (416, Just "bytes */0")
    it "of a large file comes from its middle" $ \folder ->
      requesting folder "large" [("Range", "bytes=1000000-2999998")] $ \reply ->
        replyBody reply == B.take 1999999 (B.drop 1000000 (content 3000000)) `shouldBe` True
    it "RFC 9110, 13.1.5: If-Range with the date of the file" $ \folder ->
      requesting folder "small" [("Range", "bytes=0-1"), ("If-Range", modified)] $ \reply ->
        replyStatus reply `shouldBe` 206
    forM_ ["\"tag\"", "W/\"tag\"", "Sun, 06 Nov 1994 08:49:38 GMT", "nonsense"] $ \value ->
      it ("RFC 9110, 13.1.5: If-Range " ++ show value ++ " gets the whole file") $ \folder ->
        requesting folder "small" [("Range", "bytes=0-1"), ("If-Range", value)] $ \reply ->
          (replyStatus reply, B.length (replyBody reply)) `shouldBe` (200, 1000)
    it "RFC 9110, 13.1.5: If-Range with a date that may not tell two states apart gets the whole file" $ \folder -> do
      (status, _) <- untilQuick $ do
        outcome <- timed $ do
          B.writeFile (folder </> "fresh") "12345"
          date <- requesting folder "fresh" [] (return . fromMaybe "" . headerOf "last-modified")
          requesting folder "fresh" [("Range", "bytes=0-1"), ("If-Range", date)] (return . replyStatus)
        return
          (if snd outcome < 0.8 then Just outcome else Nothing) -- a second later the file's date is a strong validator
      status `shouldBe` 200
    it "RFC 9110, 8.8.2.1: a time in the future is not announced" $ \folder -> do
      setModificationTime (folder </> "small") (UTCTime (fromGregorian 2100 1 1) 0)
      requesting folder "small" [] $ \reply -> do
        now <- currentSeconds
        (headerOf "last-modified" reply >>= parseHttpDate) `shouldSatisfy` maybe False (<= now)
    forM_ [-1, 0, 1] $ \second ->
      it
        ( "RFC 9110, 8.8.2: a time that says nothing, "
            ++ show second
            ++ ", is not announced, and no date is compared with it"
        )
        $ \folder -> do
          setModificationTime (folder </> "small") (UTCTime (fromGregorian 1970 1 1) second)
          requesting folder "small" [] $ \reply ->
            (replyStatus reply, headerOf "last-modified" reply) `shouldBe` (200, Nothing)
          forM_
            [ [("If-Modified-Since", modified)],
              [("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")],
              [("Range", "bytes=0-1"), ("If-Range", "Thu, 01 Jan 1970 00:00:01 GMT")]
            ]
            $ \fields ->
              requesting folder "small" fields $ \reply -> replyStatus reply `shouldBe` 200
  describe "entity tags of the application's (RFC 9110, 13.1)" $
    forM_ tagged $ \(status, fields) ->
      it (show fields ++ ": " ++ show status) $ \folder ->
        decided
          (\_ respond -> respond (responseFile status200 [("ETag", "\"tag\"")] (folder </> "small") Nothing))
          methodGet
          ""
          fields
          >>= \reply ->
            (replyStatus reply, headerOf "etag" reply) `shouldBe` (status, Just "\"tag\"")
  describe "an answer instead of a file says nothing of that one's body, nor that it may be kept (RFC 9111, 3)" $ do
    let given = [("content-type", "text/html"), ("content-encoding", "gzip"), ("content-length", "5"), ("cache-control", "max-age=60"), ("expires", "Thu, 01 Dec 2033 00:00:00 GMT"), ("etag", "\"one\""), ("vary", "X")]
    forM_
      [ (416, "small", ("Range", "bytes=5000-"), ["etag", "vary"]),
        (412, "small", ("If-Match", "\"other\""), ["etag", "vary"]),
        (404, "missing", ("X", "y"), ["vary"])
      ]
      $ \(status, name, field, kept) ->
        it (show status) $ \folder -> do
          let application _ respond = respond (responseFile status200 [(CI.mk key, value) | (key, value) <- given] (folder </> name) Nothing)
          decided application methodGet "" [field] >>= \reply ->
            (replyStatus reply, [key | (key, value) <- replyFields reply, (key, value) `elem` given])
              `shouldBe` (status, kept)
  it "a 304 tells what caches need to update the file that they have, and nothing else of it (RFC 9110, 15.4.5)" $
    \folder -> do
      let given = [("content-type", "text/html"), ("content-encoding", "gzip"), ("content-length", "5"), ("content-location", "/one"), ("cache-control", "max-age=60"), ("etag", "\"one\""), ("vary", "X")]
          application _ respond =
            respond (responseFile status200 [(CI.mk key, value) | (key, value) <- given] (folder </> "small") Nothing)
      decided application methodGet "" [("If-None-Match", "\"one\"")] >>= \reply ->
        (replyStatus reply, [key | (key, value) <- replyFields reply, (key, value) `elem` given])
          `shouldBe` (304, ["content-location", "cache-control", "etag", "vary"])
  describe "conditional requests (RFC 9110, 13)" $ do
    forM_
      [ ("If-Match", "*", 200),
        ("If-Match", "\"tag\"", 412),
        ("If-None-Match", "*", 304),
        ("If-None-Match", "\"tag\"", 200)
      ]
      $ \(field, value, status) ->
        it ("13.1: " ++ show field ++ " " ++ show value ++ " of a file without a tag is a " ++ show status) $ \folder ->
          requesting folder "small" [(field, value)] $ \reply -> replyStatus reply `shouldBe` status
    it "13.2.1: other methods have none" $ \folder ->
      replyStatus <$> decided (fileServer folder) methodPost "small" [("If-None-Match", "*")] `shouldReturn` 200
    forM_ [modified, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Mon, 07 Nov 1994 00:00:00 GMT"] $
      \date ->
        it ("If-Modified-Since " ++ show date ++ " is a 304") $ \folder ->
          requesting folder "small" [("If-Modified-Since", date)] $ \reply -> replyStatus reply `shouldBe` 304
    forM_
      [ "Sun, 06 Nov 1994 08:49:36 GMT",
        "nonsense",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 XXX 1994 08:49:37 GMT",
        "Wed, 30 Feb 2000 08:49:37 GMT",
        "Sun,-06-Nov-1994 08:49:37 GMT",
        "Sun, 06 Nov 1994.08:49:37 GMT"
      ]
      $ \date ->
        it ("If-Modified-Since " ++ show date ++ " is a 200") $ \folder ->
          requesting folder "small" [("If-Modified-Since", date)] $ \reply -> replyStatus reply `shouldBe` 200
    it "13.1.3: If-Modified-Since does not count beside If-None-Match" $ \folder ->
      requesting folder "small" [("If-Modified-Since", modified), ("If-None-Match", "\"tag\"")] $ \reply ->
        replyStatus reply `shouldBe` 200
    it "If-Unmodified-Since of an earlier date is a 412" $ \folder ->
      requesting folder "small" [("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT")] $ \reply ->
        replyStatus reply `shouldBe` 412
    it "If-Unmodified-Since of the same date is a 200" $ \folder ->
      requesting folder "small" [("If-Unmodified-Since", modified)] $ \reply -> replyStatus reply `shouldBe` 200

modified :: ByteString
modified = "Sun, 06 Nov 1994 08:49:37 GMT"

tagged :: [(Int, [(ByteString, ByteString)])]
tagged =
  [ (304, [("If-None-Match", "\"tag\"")]),
    (304, [("If-None-Match", "\"a\", W/\"tag\"")]),
    (304, [("If-None-Match", "\"a\""), ("If-None-Match", "\"tag\"")]),
    (200, [("If-None-Match", "\"other\"")]),
    (200, [("If-None-Match", "\"other\""), ("If-Modified-Since", modified)]),
    (200, [("If-Match", "\"tag\"")]),
    (200, [("If-Match", "\"tag\""), ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT")]),
    (412, [("If-Match", "W/\"tag\"")]),
    (412, [("If-Match", "\"other\""), ("If-None-Match", "\"tag\"")]),
    (206, [("Range", "bytes=0-1"), ("If-Range", "\"tag\"")]),
    (200, [("Range", "bytes=0-1"), ("If-Range", "W/\"tag\"")]),
    (200, [("Range", "bytes=0-1"), ("If-Range", "\"other\"")]),
    (200, [("Range", "bytes=5000-"), ("If-Range", "\"other\"")]),
    (416, [("Range", "bytes=5000-")]),
    (304, [("Range", "bytes=5000-"), ("If-None-Match", "\"tag\"")])
  ]

satisfiable :: [(ByteString, Int, Int)]
satisfiable =
  [ ("bytes=0-0", 0, 1),
    ("bytes=0-999", 0, 1000),
    ("bytes=500-", 500, 500),
    ("bytes=999-", 999, 1),
    ("bytes=10-99999999999999999999", 10, 990),
    ("bytes=-1", 999, 1),
    ("bytes=-5000", 0, 1000),
    ("Bytes= 5-6 ", 5, 2)
  ]

content :: Int -> ByteString
content size = B.take size (B.concat (replicate (size `div` 251 + 1) (B.pack [0 .. 250])))

-- O_PATH on Linux.
openToFind :: CInt
openToFind = 0x200000

-- Takes a file out of the system's memory, as far as the system can be asked for that.
chill :: FilePath -> IO ()
chill path =
  bracket (withCString path (`c_open` 0)) c_close $ \number ->
    fileSynchronise (Fd number) >> fileAdvise (Fd number) 0 0 AdviceDontNeed

foreign import capi "fcntl.h open" c_open :: CString -> CInt -> IO CInt

foreign import capi "unistd.h close" c_close :: CInt -> IO CInt

fileServer :: FilePath -> Application
fileServer folder request respond =
  respond (responseFile status200 [] (folder </> C8.unpack (B.drop 1 (rawPathInfo request))) Nothing)

-- Decided in memory, without bytes on a wire.
requesting :: FilePath -> ByteString -> [(ByteString, ByteString)] -> (Reply -> IO a) -> IO a
requesting folder name fields check = decided (fileServer folder) methodGet name fields >>= check

decided :: Application -> Method -> ByteString -> [(ByteString, ByteString)] -> IO Reply
decided application method name fields =
  answered
    application
    (getting [(CI.mk field, value) | (field, value) <- fields])
      { requestMethod =
          method,
        rawPathInfo = B.append "/" name
      }
    >>= asReply

withFiles :: (FilePath -> IO ()) -> IO ()
withFiles use = withFolder $ \folder -> do
  forM_ [("empty", 0), ("small", 1000), ("page", 16384), ("large", 3000000)] $ \(file, size) -> do
    B.writeFile (folder </> file) (content size)
    setModificationTime (folder </> file) (UTCTime (fromGregorian 1994 11 6) (8 * 3600 + 49 * 60 + 37))
  createDirectory (folder </> "folder")
  use folder

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
