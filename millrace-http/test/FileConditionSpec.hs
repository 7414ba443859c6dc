{-# LANGUAGE OverloadedStrings #-}

-- | Conditional requests for files, and the entity tags of the application.
module FileConditionSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.CaseInsensitive as CI
import FileSupport
import Network.HTTP.Types
import Network.Wai
import Support
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = around withFiles $ do
  describe "a Last-Modified of the application's" $
    it "is the one that preconditions are about (RFC 9110, 13.1.3)" $ \folder -> do
      let application _ respond =
            respond
              (responseFile status200 [("Last-Modified", "Wed, 02 Jan 2019 00:00:00 GMT")] (folder </> "small") Nothing)
          status date = replyStatus <$> decided application methodGet "" [("If-Modified-Since", date)]
      status "Tue, 01 Jan 2019 00:00:00 GMT" `shouldReturn` 200
      status "Wed, 02 Jan 2019 00:00:00 GMT" `shouldReturn` 304
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
    let given =
          [ ("content-type", "text/html"),
            ("content-encoding", "gzip"),
            ("content-length", "5"),
            ("cache-control", "max-age=60"),
            ("expires", "Thu, 01 Dec 2033 00:00:00 GMT"),
            ("etag", "\"one\""),
            ("vary", "X")
          ]
    forM_
      [ (416, "small", ("Range", "bytes=5000-"), ["etag", "vary"]),
        (412, "small", ("If-Match", "\"other\""), ["etag", "vary"]),
        (404, "missing", ("X", "y"), ["vary"])
      ]
      $ \(status, name, field, kept) ->
        it (show status) $ \folder -> do
          let application _ respond =
                respond (responseFile status200 [(CI.mk key, value) | (key, value) <- given] (folder </> name) Nothing)
          decided application methodGet "" [field] >>= \reply ->
            (replyStatus reply, [key | (key, value) <- replyFields reply, (key, value) `elem` given])
              `shouldBe` (status, kept)
  it "a 304 tells what caches need to update the file that they have, and nothing else of it (RFC 9110, 15.4.5)" $
    \folder -> do
      let given =
            [ ("content-type", "text/html"),
              ("content-encoding", "gzip"),
              ("content-length", "5"),
              ("content-location", "/one"),
              ("cache-control", "max-age=60"),
              ("etag", "\"one\""),
              ("vary", "X")
            ]
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
