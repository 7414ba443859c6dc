{-# LANGUAGE OverloadedStrings #-}

-- | Files that are compressed on the way to clients.
module Millrace.Cli.Files.CompressedFileSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (nub)
import Data.Maybe (fromMaybe)
import Decompression
import Millrace.Cli.Files.StaticFiles
import Millrace.Manager (loopCount)
import Network.HTTP.Types
import Site
import StaticSite
import System.FilePath ((</>))
import Test.Hspec
import TestSupport.Process (descriptorCount)

spec :: Spec
spec = do
  describe "compression" . aroundAll withCompressible $ do
    let compressing site change = do
          root <- openRoot StayInside (site </> "root")
          compressor <- newCompressor 10000000
          pure
            ( \method path headers ->
                call
                  (staticFiles (change (plainSite root) {siteCompressor = Just compressor}))
                  (requestFor method path headers)
            )
        accepting coding = [("Accept-Encoding", coding)]
        isPlain answer content =
          (answerStatus answer, header hContentEncoding answer, answerBody answer == content)
            `shouldBe` (200, Nothing, True)
    forM_ ["br", "zstd", "gzip"] $ \coding ->
      it ("sends " <> Char8.unpack coding <> " to those who accept it, first and later") $ \site -> do
        ask' <- compressing site id
        plain <- ask' methodGet "/script.js" []
        isPlain plain script
        header "Vary" plain `shouldBe` Just "Accept-Encoding"
        first <- ask' methodGet "/script.js" (accepting coding)
        map (`header` first) [hContentType, hContentEncoding, "Vary", hLastModified]
          `shouldBe` [ Just "text/javascript; charset=utf-8",
                       Just coding,
                       Just "Accept-Encoding",
                       Just "Sun, 06 Nov 1994 08:49:37 GMT"
                     ]
        sent <- decompressed coding (answerBody first)
        sent == script `shouldBe` True
        header hContentLength first `shouldBe` Just (Char8.pack (show (ByteString.length (answerBody first))))
        later <- ask' methodGet "/script.js" (accepting coding)
        later == first `shouldBe` True
        forHead <- ask' methodHead "/script.js" (accepting coding)
        answerHeaders forHead `shouldBe` answerHeaders first
    it "takes the coding that the client prefers, and none if it prefers that" $ \site -> do
      ask' <- compressing site id
      let codingFor accepted = header hContentEncoding <$> ask' methodGet "/script.js" (accepting accepted)
      mapM
        codingFor
        [ "gzip, deflate, br, zstd",
          "br;q=0.5, gzip",
          "gzip, zstd",
          "*",
          "deflate",
          "identity",
          "gzip;q=0.5, identity",
          "gzip;q=0"
        ]
        `shouldReturn` [Just "br", Just "gzip", Just "zstd", Just "br", Nothing, Nothing, Nothing, Nothing]
    it "has another tag for each coding, weak because its bytes depend on a library" $ \site -> do
      ask' <- compressing site id
      tags <-
        mapM
          (fmap (fromMaybe "none" . header "ETag") . ask' methodGet "/script.js" . accepting)
          ["br", "zstd", "gzip", "identity"]
      length (nub tags) `shouldBe` 4
      map (ByteString.isPrefixOf "W/") tags `shouldBe` [True, True, True, False]
      forM_ (zip tags ["br", "zstd", "gzip", "identity"]) $ \(tag, coding) -> do
        answer <- ask' methodGet "/script.js" (("If-None-Match", tag) : accepting coding)
        (answerStatus answer, header "ETag" answer, header "Vary" answer, header hContentEncoding answer)
          `shouldBe` (304, Just tag, Just "Accept-Encoding", Nothing)
        other <- ask' methodGet "/script.js" (("If-None-Match", "\"other\"") : accepting coding)
        answerStatus other `shouldBe` 200
    it "does not compress for ranges" $ \site -> do
      ask' <- compressing site id
      tag <- fromMaybe "none" . header "ETag" <$> ask' methodGet "/script.js" (accepting "br")
      forM_
        [ [(hRange, "bytes=10-19")],
          [(hRange, "bytes=99999999-")],
          [(hRange, "bytes=0-1,4-5")],
          [(hRange, "bytes=0-1"), (hIfRange, tag)]
        ]
        $ \fields ->
          do
            answer <- ask' methodGet "/script.js" (fields ++ accepting "br")
            (header hContentEncoding answer, header "Vary" answer) `shouldBe` (Nothing, Just "Accept-Encoding")
      part <- ask' methodGet "/script.js" ((hRange, "bytes=10-19") : accepting "br")
      (answerStatus part, answerBody part) `shouldBe` (206, ByteString.take 10 (ByteString.drop 10 script))
    forM_ ["/small.js", "/large.js", "/picture.png", "/font.woff2", "/logo.svgz", "/script.js.tgz", "/random.txt"] $
      \path ->
        it (show path <> " is sent as it is") $ \site -> do
          ask' <- compressing site id
          content <- ByteString.readFile (site </> "root" </> drop 1 (Char8.unpack path))
          forM_ ["br", "gzip"] $ \coding -> do
            answer <- ask' methodGet path (accepting coding)
            (answerStatus answer, answerBody answer == content) `shouldBe` (200, True)
            header hContentEncoding answer `shouldBe` (if path == "/logo.svgz" then Just "gzip" else Nothing)
    forM_ ["/least.js", "/most.js"] $ \path ->
      it (show path <> " is just not too small or too large") $ \site -> do
        ask' <- compressing site id
        content <- ByteString.readFile (site </> "root" </> drop 1 (Char8.unpack path))
        answer <- ask' methodGet path (accepting "zstd")
        header hContentEncoding answer `shouldBe` Just "zstd"
        sent <- decompressed "zstd" (answerBody answer)
        sent == content `shouldBe` True
    it "leaves it to a precompressed file, for clients that accept its coding" $ \site -> do
      ask' <- compressing site id
      facts <-
        mapM
          ( fmap (\answer -> (header hContentEncoding answer, answerBody answer == "as gzip"))
              . ask' methodGet "/stored.js"
              . accepting
          )
          ["gzip", "gzip, br", "br", "identity"]
      facts `shouldBe` [(Just "gzip", True), (Just "gzip", True), (Just "br", False), (Nothing, False)]
    it "answers with a cache as without it" $ \site -> do
      direct <- compressing site id
      cache <- newFileCache 60000000
      cached <- compressing site (\plain -> plain {siteCache = Just cache})
      forM_ ["/script.js", "/middle.js", "/stored.js", "/", "/random.txt"] $ \path ->
        forM_ ["br", "gzip", "identity"] $ \coding -> do
          expected <- direct methodGet path (accepting coding)
          -- A file in memory has a Content-Length from the beginning, and another one gets it from the server.
          let isAsExpected answer =
                (answerStatus answer, noLength answer, answerBody answer == answerBody expected)
                  `shouldBe` (200, noLength expected, True)
              noLength = filter ((/= hContentLength) . fst) . answerHeaders
          forM_ [1, 2 :: Int] $ \_ -> cached methodGet path (accepting coding) >>= isAsExpected
    it "compresses the page of a single-page application" $ \site -> do
      ask' <- compressing site (\plain -> plain {siteFallback = SinglePage})
      own <- ask' methodGet "/" (accepting "gzip")
      answer <- ask' methodGet "/users" (accepting "gzip")
      map (`header` answer) [hContentEncoding, "Vary", hCacheControl]
        `shouldBe` [Just "gzip", Just "Accept-Encoding, Accept", Just "no-cache"]
      (answerBody answer == answerBody own, header "Vary" own) `shouldBe` (True, Just "Accept-Encoding")
    it "compresses when many ask at the same time, and gives all descriptors back" $ \site -> do
      ask' <- compressing site id
      _ <- loopCount -- This opens the loops' own descriptors.
      atFirst <- descriptorCount
      results <- forM [1 .. 40 :: Int] $ \number -> do
        result <- newEmptyMVar
        _ <-
          forkIO
            (ask' methodGet (if even number then "/script.js" else "/middle.js") (accepting "zstd") >>= putMVar result)
        pure result
      answers <- mapM takeMVar results
      map (header hContentEncoding) answers `shouldBe` replicate 40 (Just "zstd")
      length (nub (map answerBody answers)) `shouldBe` 2
      descriptorCount `shouldReturn` atFirst
    it "does not do it unless asked for" $ \site -> do
      answer <- get site "/script.js" (accepting "gzip")
      isPlain answer script
      header "Vary" answer `shouldBe` Nothing
    it "tells a file that has changed from an earlier state, even if its size and time are the same" $ \site -> do
      cache <- newFileCache 1000
      let one = Char8.replicate 5000 'a'
          other = Char8.replicate 5000 'b'
          settle = threadDelay 3100000
      forM_ [id, \plain -> plain {siteCache = Just cache}] $ \change -> do
        writeOld site "root/changing.js" one
        settle
        ask' <- compressing site change
        answer <- ask' methodGet "/changing.js" (accepting "gzip")
        (header hContentEncoding answer, answerBody answer == one) `shouldBe` (Just "gzip", False)
        -- In place, and with its time put back.
        writeOld site "root/changing.js" other
        threadDelay 3000
        -- It could change again without a new time.
        atOnce <- ask' methodGet "/changing.js" (accepting "gzip")
        maybe pure decompressed (header hContentEncoding atOnce) (answerBody atOnce) `shouldReturn` other
        settle
        later <- ask' methodGet "/changing.js" (accepting "gzip")
        header hContentEncoding later `shouldBe` Just "gzip"
        decompressed "gzip" (answerBody later) `shouldReturn` other
