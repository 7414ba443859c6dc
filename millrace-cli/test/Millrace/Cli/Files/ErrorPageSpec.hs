{-# LANGUAGE OverloadedStrings #-}

-- | Error pages of a site, and its rules for caches.
module Millrace.Cli.Files.ErrorPageSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket_)
import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (modifyIORef', newIORef, readIORef)
import Millrace.Cli.Files.CacheRule (cacheRule)
import Millrace.Cli.Files.StaticFiles
import Network.HTTP.Types
import Site
import StaticSite
import System.Directory (createDirectory, removeFile)
import System.FilePath ((</>))
import System.Posix.Files (createNamedPipe, createSymbolicLink)
import System.Posix.Resource
  ( Resource (..),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import Test.Hspec
import TestSupport.Process (descriptorCount)
import TestSupport.Time (quickly)

spec :: Spec
spec = do
  describe "error pages" . around withSite $ do
    let withPages lifeMicros site change = do
          root <- openRoot StayInside (site </> "root")
          pages <- newErrorPages root lifeMicros
          pure
            ( \path headers ->
                call
                  (staticFiles (change (plainSite root) {siteErrorPages = Just pages}))
                  (requestFor methodGet path headers)
            )
        facts answer = (answerStatus answer, answerBody answer)
    forM_ ["/missing", "/no-index/", "/hello.txt/", "/.hidden", "/../x", "/outside"] $ \path ->
      it (show path <> " has that of 404") $ \site -> do
        write site "root/404.html" "<p>not here"
        ask' <- withPages 1000000 site id
        answer <- ask' path []
        facts answer `shouldBe` (404, "<p>not here")
        map
          (`header` answer)
          [hContentType, hContentLength, "X-Content-Type-Options", "ETag", hLastModified, "Accept-Ranges"]
          `shouldBe` [Just "text/html; charset=utf-8", Just "11", Just "nosniff", Nothing, Nothing, Nothing]
    it "are not used unless asked for, nor for other statuses" $ \site -> do
      write site "root/404.html" "<p>not here"
      write site "root/400.html" "<p>broken"
      write site "root/416.html" "<p>no such range"
      answerBody <$> get site "/missing" [] `shouldReturn` "404 Not Found\n"
      ask' <- withPages 1000000 site id
      facts <$> ask' "/%00" [] `shouldReturn` (400, "400 Bad Request\n")
      answerStatus <$> ask' "/hello.txt" [(hRange, "bytes=99-")] `shouldReturn` 416
      facts <$> ask' "/hello.txt" [] `shouldReturn` (200, "Hello, world\n")
    it "know no conditions and no ranges" $ \site -> do
      write site "root/404.html" "<p>not here"
      ask' <- withPages 1000000 site id
      tag <- tagOf site "/404.html"
      forM_
        [ ("If-None-Match", "*"),
          ("If-None-Match", tag),
          ("If-Match", "\"x\""),
          ("If-Modified-Since", "Sun, 06 Nov 2094 08:49:37 GMT"),
          (hRange, "bytes=0-1")
        ]
        $ \field ->
          facts <$> ask' "/missing" [field] `shouldReturn` (404, "<p>not here")
    it "are for 500, and why is told nevertheless" $ \site -> withGone $ \gone -> do
      createSymbolicLink gone (site </> "root/gone")
      write site "root/500.html" "<p>our fault"
      root <- openRoot FollowLinks (site </> "root")
      pages <- newErrorPages root 1000000
      said <- newIORef []
      let failing =
            (plainSite root)
              { siteErrorPages =
                  Just pages,
                siteOnFault = \told reason -> modifyIORef' said ((told, reason) :)
              }
      facts <$> call (staticFiles failing) (requestFor methodGet "/gone" []) `shouldReturn` (500, "<p>our fault")
      readIORef said `shouldReturn` [("GET /gone", "No such process")]
    it "are for 503, when no file can be opened" $ \site -> do
      write site "root/503.html" "<p>later"
      ask' <- withPages 0 site id
      limits <- getResourceLimit ResourceOpenFiles
      let allow limit = setResourceLimit ResourceOpenFiles limits {softLimit = limit}
      answer <- bracket_ (allow (ResourceLimit 3)) (allow (softLimit limits)) (ask' "/hello.txt" [])
      (facts answer, header "Retry-After" answer) `shouldBe` ((503, "<p>later"), Just "1")
    it "are looked up again after their time, and not before" $ \site -> do
      (ask', early) <- quickly 1.9 $ do
        write site "root/404.html" "first"
        ask' <- withPages 2000000 site id
        write site "root/404.html" "second"
        early <- ask' "/missing" []
        pure (ask', early)
      answerBody early `shouldBe` "first"
      threadDelay 2100000
      answerBody <$> ask' "/missing" [] `shouldReturn` "second"
    it "are looked up each time without a cache" $ \site -> do
      ask' <- withPages 0 site id
      answerBody <$> ask' "/missing" [] `shouldReturn` "404 Not Found\n"
      write site "root/404.html" "now"
      answerBody <$> ask' "/missing" [] `shouldReturn` "now"
      removeFile (site </> "root/404.html")
      answerBody <$> ask' "/missing" [] `shouldReturn` "404 Not Found\n"
    it "are not kept as files: a missing file that appears is served" $ \site -> do
      write site "root/404.html" "<p>not here"
      cache <- newFileCache 60000000
      ask' <- withPages 1000000 site (\plain -> plain {siteCache = Just cache})
      facts <$> ask' "/new.txt" [] `shouldReturn` (404, "<p>not here")
      write site "root/new.txt" "new"
      facts <$> ask' "/new.txt" [] `shouldReturn` (200, "new")
    it "are regular files of the site, and not too large" $ \site -> do
      ask' <- withPages 0 site id
      let isPlain = answerBody <$> ask' "/missing" [] `shouldReturn` "404 Not Found\n"
      createSymbolicLink "../secret/file" (site </> "root/404.html") >> isPlain >> removeFile (site </> "root/404.html")
      createNamedPipe (site </> "root/404.html") 0o644 >> isPlain >> removeFile (site </> "root/404.html")
      write site "root/404.html" (Char8.replicate 1048577 'x') >> isPlain
      write site "root/404.html" (Char8.replicate 1048576 'x')
      ByteString.length . answerBody <$> ask' "/missing" [] `shouldReturn` 1048576
      removeFile (site </> "root/404.html") >> createDirectory (site </> "root/404.html") >> isPlain
    it "are for what a single-page application lacks" $ \site -> do
      write site "root/404.html" "<p>not here"
      ask' <- withPages 1000000 site (\plain -> plain {siteFallback = SinglePage})
      facts <$> ask' "/app.js" [] `shouldReturn` (404, "<p>not here")
      facts <$> ask' "/users" [] `shouldReturn` (200, "<p>index")
      removeFile (site </> "root/index.html")
      facts <$> ask' "/users" [] `shouldReturn` (404, "<p>not here")
    it "hold no file open" $ \site -> do
      write site "root/404.html" "<p>not here"
      atFirst <- descriptorCount
      ask' <- withPages 0 site id
      forM_ [1 .. 50 :: Int] $ \_ -> ask' "/missing" []
      descriptorCount `shouldReturn` atFirst

  describe "rules for caches" . around withSite $ do
    let ruled site change = do
          root <- openRoot StayInside (site </> "root")
          let rules =
                [ rule
                  | Right rule <-
                      [cacheRule "/" "max-age=60", cacheRule "*.txt" "max-age=3600", cacheRule "/sub/" "no-store"]
                ]
          pure
            ( \path headers ->
                call
                  (staticFiles (change (plainSite root) {siteCacheRules = rules}))
                  (requestFor methodGet path headers)
            )
    forM_
      [ ("/hello.txt", "max-age=3600"),
        ("/hell%6f.txt", "max-age=3600"),
        ("/", "max-age=60"),
        ("/inside", "max-age=60"),
        ("/sub/", "no-store"),
        ("/sub/index.htm", "no-store")
      ]
      $ \(path, expected) ->
        it (show path <> " has " <> show expected) $ \site -> do
          ask' <- ruled site id
          header hCacheControl <$> ask' path [] `shouldReturn` Just expected
    it "are for 200, 206 and 304, and for nothing else" $ \site -> do
      ask' <- ruled site id
      let facts path fields =
            (\answer -> (answerStatus answer, lookup hCacheControl (answerHeaders answer))) <$> ask' path fields
      facts "/hello.txt" [(hRange, "bytes=0-1")] `shouldReturn` (206, Just "max-age=3600")
      facts "/hello.txt" [(hRange, "bytes=0-1,4-5")] `shouldReturn` (206, Just "max-age=3600")
      facts "/hello.txt" [("If-None-Match", "*")] `shouldReturn` (304, Just "max-age=3600")
      facts "/hello.txt" [(hRange, "bytes=99-")] `shouldReturn` (416, Nothing)
      facts "/hello.txt" [("If-Match", "\"x\"")] `shouldReturn` (412, Nothing)
      facts "/missing.txt" [] `shouldReturn` (404, Nothing)
      facts "/sub" [] `shouldReturn` (301, Nothing)
    it "are for precompressed files by the name of the file, and with a cache" $ \site -> do
      writeCoded site
      cache <- newFileCache 60000000
      ask' <- ruled site (\plain -> plain {siteCache = Just cache})
      forM_ [1, 2 :: Int] $ \_ -> do
        answer <- ask' "/coded.txt" [("Accept-Encoding", "gzip")]
        (header hContentEncoding answer, header hCacheControl answer) `shouldBe` (Just "gzip", Just "max-age=3600")
    it "change how long the page of a single-page application may be kept by its own path, but not for other paths" $
      \site ->
        do
          ask' <- ruled site (\plain -> plain {siteFallback = SinglePage})
          mapM (fmap (header hCacheControl) . (`ask'` [])) ["/", "/users"]
            `shouldReturn` [Just "max-age=60", Just "no-cache"]
