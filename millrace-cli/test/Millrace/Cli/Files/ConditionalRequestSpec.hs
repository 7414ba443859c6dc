{-# LANGUAGE OverloadedStrings #-}

-- | Conditional requests, entity tags and ranges of static files.
module Millrace.Cli.Files.ConditionalRequestSpec (spec) where

import Control.Monad (forM, forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (nub)
import Data.Maybe (fromMaybe)
import Millrace.Http.Date (parseHttpDate)
import Network.HTTP.Types
import Site
import StaticSite
import System.Directory (renamePath)
import System.FilePath ((</>))
import System.Posix.Files (setFileTimes)
import System.Process (callProcess)
import Test.Hspec

spec :: Spec
spec = do
  describe "conditional requests (RFC 9110 section 13.2.2)" . around withSite $ do
    let conditional name expected headers =
          it name $ \site -> do
            tag <- tagOf site "/hello.txt"
            answer <- get site "/hello.txt" [(key, value tag) | (key, value) <- headers]
            answerStatus answer `shouldBe` expected
        same = id
        other = const "\"other\""
        date = const "Sun, 06 Nov 1994 08:49:37 GMT"
        earlier = const "Sun, 06 Nov 1994 08:49:36 GMT"
    conditional "If-None-Match, the same" 304 [("If-None-Match", same)]
    conditional "If-None-Match, the same but weak" 304 [("If-None-Match", ("W/" <>))]
    conditional "If-None-Match, one of several" 304 [("If-None-Match", ("\"a\", " <>))]
    conditional "If-None-Match, on two lines" 304 [("If-None-Match", other), ("If-None-Match", same)]
    conditional "If-None-Match, any" 304 [("If-None-Match", const "*")]
    conditional "If-None-Match, another" 200 [("If-None-Match", other)]
    conditional "If-None-Match, malformed" 200 [("If-None-Match", const "nonsense")]
    conditional "If-Modified-Since, the same" 304 [("If-Modified-Since", date)]
    conditional "If-Modified-Since, in an old form" 304 [("If-Modified-Since", const "Sunday, 06-Nov-94 08:49:37 GMT")]
    conditional "If-Modified-Since, before" 200 [("If-Modified-Since", earlier)]
    conditional "If-Modified-Since, malformed" 200 [("If-Modified-Since", const "soon")]
    conditional
      "If-Modified-Since is ignored beside If-None-Match"
      200
      [("If-None-Match", other), ("If-Modified-Since", date)]
    conditional "If-Match, the same" 200 [("If-Match", same)]
    conditional "If-Match, the same but weak" 412 [("If-Match", ("W/" <>))]
    conditional "If-Match, any" 200 [("If-Match", const "*")]
    conditional "If-Match, another" 412 [("If-Match", other)]
    conditional "If-Unmodified-Since, the same" 200 [("If-Unmodified-Since", date)]
    conditional "If-Unmodified-Since, before" 412 [("If-Unmodified-Since", earlier)]
    conditional "If-Unmodified-Since, malformed" 200 [("If-Unmodified-Since", const "soon")]
    conditional
      "If-Unmodified-Since is ignored beside If-Match"
      200
      [("If-Match", same), ("If-Unmodified-Since", earlier)]
    conditional "If-Match is judged before If-None-Match" 412 [("If-Match", other), ("If-None-Match", same)]
    conditional "If-None-Match is judged before Range" 304 [("If-None-Match", same), (hRange, const "bytes=0-1")]
    conditional
      "If-None-Match is judged before a Range beyond the end"
      304
      [("If-None-Match", same), (hRange, const "bytes=99-")]
    it "a missing file is missing whatever the condition" $ \site ->
      answerStatus <$> get site "/missing" [("If-None-Match", "*"), ("If-Match", "\"x\"")] `shouldReturn` 404
    it "304 repeats the validators and has no body" $ \site -> do
      full <- get site "/hello.txt" []
      answer <- get site "/hello.txt" [("If-None-Match", "*")]
      answerBody answer `shouldBe` ""
      header "ETag" answer `shouldBe` header "ETag" full
      header hContentType answer `shouldBe` Nothing

  describe "entity tags" . around withSite $ do
    it "are strong for a file that has not just changed" $ \site ->
      tagOf site "/hello.txt" >>= (`shouldSatisfy` ByteString.isPrefixOf "\"")
    it "are weak for one that has" $ \site -> do
      write site "root/fresh.txt" "fresh"
      tagOf site "/fresh.txt" >>= (`shouldSatisfy` ByteString.isPrefixOf "W/\"")
    it "differ after a change of size or of time" $ \site -> do
      first <- tagOf site "/hello.txt"
      writeOld site "root/hello.txt" "Hello"
      second <- tagOf site "/hello.txt"
      write site "root/hello.txt" "hello"
      third <- tagOf site "/hello.txt"
      [first == second, second == third] `shouldBe` [False, False]
    it "differ after a change of a nanosecond" $ \site -> do
      tags <- forM [1, 2 :: Int] $ \nanoseconds -> do
        callProcess "touch" ["-d", "1994-11-06 08:49:37.00000000" <> show nanoseconds, site </> "root/hello.txt"]
        tagOf site "/hello.txt"
      tags `shouldSatisfy` \found -> length (nub found) == 2
    it "are weak for one that will be changed after the last year that nanoseconds reach" $ \site -> do
      callProcess "touch" ["-d", "2300-01-01", site </> "root/hello.txt"]
      answer <- get site "/hello.txt" []
      header "ETag" answer `shouldSatisfy` maybe False ("W/\"" `ByteString.isPrefixOf`)
      (header hLastModified answer >>= parseHttpDate) `shouldSatisfy` maybe False (> 784111777)
    forM_ [-1, 0, 1] $ \second ->
      it
        ( "are not there for a time that says nothing, "
            <> show second
            <> ", nor is the date: Nix and OSTree give it to all files"
        )
        $ \site -> do
          setFileTimes (site </> "root/hello.txt") second second
          answer <- get site "/hello.txt" []
          (answerStatus answer, header "ETag" answer, header hLastModified answer) `shouldBe` (200, Nothing, Nothing)
          forM_
            [ ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
              ("If-None-Match", "\"3b9aca00-d\""),
              ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")
            ]
            $ \field ->
              answerStatus <$> get site "/hello.txt" [field] `shouldReturn` 200
          answerStatus
            <$> get site "/hello.txt" [(hRange, "bytes=0-1"), (hIfRange, "Thu, 01 Jan 1970 00:00:01 GMT")]
              `shouldReturn` 200
    it "are the same for a copy with its time: another machine may have it" $ \site -> do
      first <- tagOf site "/hello.txt"
      writeOld site "root/other" "Hello, world\n"
      renamePath (site </> "root/other") (site </> "root/hello.txt")
      tagOf site "/hello.txt" `shouldReturn` first
    it "differ between codings of the same size and time" $ \site -> do
      writeOld site "root/same.txt" "same size"
      writeOld site "root/same.txt.gz" "gzip size"
      plain <- tagOf site "/same.txt"
      coded <- header "ETag" <$> get site "/same.txt" [("Accept-Encoding", "gzip")]
      coded `shouldNotBe` Just plain

  describe "ranges (RFC 9110 section 14)" . around withSite $ do
    it "one" $ \site -> do
      answer <- get site "/hello.txt" [(hRange, "bytes=7-11")]
      (answerStatus answer, answerBody answer) `shouldBe` (206, "world")
      header "Content-Range" answer `shouldBe` Just "bytes 7-11/13"
      header hContentType answer `shouldBe` Just "text/plain; charset=utf-8"
    it "all of it" $ \site -> do
      answer <- get site "/hello.txt" [(hRange, "bytes=0-")]
      (answerStatus answer, answerBody answer) `shouldBe` (206, "Hello, world\n")
      header "Content-Range" answer `shouldBe` Just "bytes 0-12/13"
    it "none that exists" $ \site -> do
      answer <- get site "/hello.txt" [(hRange, "bytes=13-")]
      (answerStatus answer, header "Content-Range" answer) `shouldBe` (416, Just "bytes */13")
    it "of an empty file" $ \site -> do
      beyond <- get site "/empty" [(hRange, "bytes=1-")]
      (answerStatus beyond, header "Content-Range" beyond) `shouldBe` (416, Just "bytes */0")
      whole <- get site "/empty" [(hRange, "bytes=0-")]
      (answerStatus whole, header "Content-Range" whole) `shouldBe` (200, Nothing)
      answerStatus <$> get site "/empty" [] `shouldReturn` 200
    it "malformed" $ \site -> do
      answer <- get site "/hello.txt" [(hRange, "bytes=x")]
      (answerStatus answer, header "Content-Range" answer) `shouldBe` (200, Nothing)
    it "given twice" $ \site ->
      answerStatus <$> get site "/hello.txt" [(hRange, "bytes=0-1"), (hRange, "bytes=2-3")] `shouldReturn` 200
    it "several" $ \site -> do
      answer <- get site "/hello.txt" [(hRange, "bytes=0-4,-3")]
      answerStatus answer `shouldBe` 206
      let boundary =
            fromMaybe "" (header hContentType answer >>= ByteString.stripPrefix "multipart/byteranges; boundary=")
          part range content =
            ["--" <> boundary, "Content-Type: text/plain; charset=utf-8", "Content-Range: bytes " <> range, "", content]
      ByteString.length boundary `shouldBe` 32
      answerBody answer
        `shouldBe` Char8.intercalate
          "\r\n"
          (part "0-4/13" "Hello" ++ part "10-12/13" "ld\n" ++ ["--" <> boundary <> "--", ""])
      header hContentLength answer `shouldBe` Just (Char8.pack (show (ByteString.length (answerBody answer))))
      header "Content-Range" answer `shouldBe` Nothing
    it "several, larger than what is read at once" $ \site -> do
      let content = Char8.pack (take 400000 (cycle ['a' .. 'z']))
      writeOld site "root/large" content
      answer <- get site "/large" [(hRange, "bytes=1-150000,200001-399999")]
      answerBody answer `shouldSatisfy` ByteString.isInfixOf (slice 1 150000 content)
      answerBody answer `shouldSatisfy` ByteString.isInfixOf (slice 200001 199999 content)
      header hContentLength answer `shouldBe` Just (Char8.pack (show (ByteString.length (answerBody answer))))
    it "If-Range with the tag" $ \site -> do
      tag <- tagOf site "/hello.txt"
      answerStatus <$> get site "/hello.txt" [(hRange, "bytes=0-1"), (hIfRange, tag)] `shouldReturn` 206
    it "If-Range with the date" $ \site ->
      answerStatus
        <$> get site "/hello.txt" [(hRange, "bytes=0-1"), (hIfRange, "Sun, 06 Nov 1994 08:49:37 GMT")]
          `shouldReturn` 206
    forM_ ["\"other\"", "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", "nonsense", "*"] $ \value ->
      it ("If-Range with " <> show value) $ \site ->
        answerStatus <$> get site "/hello.txt" [(hRange, "bytes=0-1"), (hIfRange, value)] `shouldReturn` 200
    it "If-Range with a range beyond the end and another tag" $ \site ->
      answerStatus <$> get site "/hello.txt" [(hRange, "bytes=99-"), (hIfRange, "\"other\"")] `shouldReturn` 200
    it "If-Range needs a strong validator" $ \site -> do
      write site "root/fresh.txt" "fresh"
      full <- get site "/fresh.txt" []
      forM_ ["ETag", "Last-Modified"] $ \name ->
        answerStatus
          <$> get site "/fresh.txt" [(hRange, "bytes=0-1"), (hIfRange, fromMaybe "" (header name full))]
            `shouldReturn` 200
  where
    slice start count = ByteString.take count . ByteString.drop start
