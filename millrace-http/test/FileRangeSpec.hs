{-# LANGUAGE OverloadedStrings #-}

-- | Ranges of files.
module FileRangeSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Maybe (fromMaybe)
import Data.Time (UTCTime (..), fromGregorian)
import FileSupport
import Millrace.Http.Date (currentSeconds, parseHttpDate)
import Network.HTTP.Types
import Network.Wai
import Support
import System.Directory (setModificationTime)
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = around withFiles $ do
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
        let application _ respond =
              respond
                (responseFile status200 [("Content-Length", "1000"), ("ETag", "\"one\"")] (folder </> "small") Nothing)
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
      let application _ respond =
            respond
              (responseFile status200 [("Content-Type", "text/plain\r\nX-Injected: y")] (folder </> "small") Nothing)
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
