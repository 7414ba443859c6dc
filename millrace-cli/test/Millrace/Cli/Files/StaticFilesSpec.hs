{-# LANGUAGE OverloadedStrings #-}

-- | Static files: methods, paths, links, and files that cannot be read. The application is called directly, without a
-- server.
module Millrace.Cli.Files.StaticFilesSpec (spec) where

import Control.Exception (bracket, bracket_)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (modifyIORef', newIORef, readIORef)
import Millrace.Cli.Files.StaticFiles
import Network.HTTP.Types
import qualified Network.Socket as Network
import Network.Wai
import Site
import StaticSite
import System.Directory (renamePath)
import System.FilePath ((</>))
import System.IO (hWaitForInput)
import System.Posix.Files (createLink, createNamedPipe, createSymbolicLink)
import System.Posix.Resource
  ( Resource (..),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import System.Process (CreateProcess (..), StdStream (..), cleanupProcess, createProcess, proc)
import System.Timeout (timeout)
import Test.Hspec
import TestSupport.Process (descriptorCount)

spec :: Spec
spec = do
  describe "methods" . around withSite $ do
    it "GET answers with the file" $ \site -> do
      answer <- get site "/hello.txt" []
      answerStatus answer `shouldBe` 200
      answerBody answer `shouldBe` "Hello, world\n"
      header hContentType answer `shouldBe` Just "text/plain; charset=utf-8"
      header "X-Content-Type-Options" answer `shouldBe` Just "nosniff"
      header "Accept-Ranges" answer `shouldBe` Just "bytes"
      header "Last-Modified" answer `shouldBe` Just "Sun, 06 Nov 1994 08:49:37 GMT"
    it "HEAD has the same head" $ \site -> do
      forGet <- get site "/hello.txt" []
      forHead <- ask (site </> "root") StayInside methodHead "/hello.txt" [(hRange, "bytes=0-1")]
      (answerStatus forHead, answerHeaders forHead) `shouldBe` (200, answerHeaders forGet)
    forM_ ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"] $ \method ->
      it (show method <> " is not allowed") $ \site -> do
        answer <- ask (site </> "root") StayInside method "/hello.txt" []
        (answerStatus answer, header "Allow" answer) `shouldBe` (405, Just "GET, HEAD")
    forM_ ["/hello.txt", "/none"] $ \path ->
      it ("an extended CONNECT is not implemented, for " <> show path) $ \site -> do
        root <- openRoot StayInside (site </> "root")
        let fields = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
            request = (requestFor methodGet path fields) {httpVersion = http20}
        (answerStatus <$> call (staticFiles (plainSite root)) request) `shouldReturn` 501

  describe "paths" . around withSite $ do
    forM_ servedPaths $ \(path, content) ->
      it (show path <> " is served") $ \site -> do
        answer <- get site path []
        (answerStatus answer, answerBody answer) `shouldBe` (200, content)
    forM_ refusedPaths $ \(path, expected) ->
      it (show (Char8.take 40 path) <> " is refused with " <> show expected) $ \site -> do
        answer <- get site path []
        answerStatus answer `shouldBe` expected
        answerBody answer `shouldSatisfy` not . ByteString.isInfixOf "secret"
        header hContentType answer `shouldBe` Just "text/plain; charset=utf-8"
    forM_ redirectedPaths $ \(path, query, location) ->
      it (show (path <> query) <> " is redirected") $ \site -> do
        answer <- withQuery site path query
        (answerStatus answer, header hLocation answer) `shouldBe` (301, Just location)
    it "a root that is removed and made anew is still served" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      renamePath (site </> "root") (site </> "old")
      write site "root/new.txt" "new"
      answer <- call (staticFiles (plainSite root)) (requestFor methodGet "/new.txt" [])
      (answerStatus answer, answerBody answer) `shouldBe` (200, "new")
    it "a root that is a symbolic link is served" $ \site -> do
      createSymbolicLink (site </> "root") (site </> "link")
      answer <- ask (site </> "link") StayInside methodGet "/hello.txt" []
      answerStatus answer `shouldBe` 200
    forM_ [StayInside, FollowLinks] $ \policy ->
      it ("a root that is a symbolic link is where that leads now, with " <> show policy) $ \site -> do
        let bodyBelow root = answerBody <$> call (staticFiles (plainSite root)) (requestFor methodGet "/hello.txt" [])
            linkTo directory name = createSymbolicLink (site </> directory) (site </> name)
        linkTo "root" "link"
        root <- openRoot policy (site </> "link")
        bodyBelow root `shouldReturn` "Hello, world\n"
        write site "next/hello.txt" "next"
        linkTo "next" "switched"
        renamePath (site </> "switched") (site </> "link")
        bodyBelow root `shouldReturn` "next"
    it "a root must be a directory" $ \site -> do
      openRoot StayInside (site </> "root/hello.txt") `shouldThrow` anyIOException
      openRoot StayInside (site </> "nowhere") `shouldThrow` anyIOException

  describe "symbolic links" . around withSite $ do
    forM_ ["/inside", "/inside-absolute", "/up-and-back", "/chain"] $ \path ->
      it (show path <> " leads inside") $ \site -> answerBody <$> get site path [] `shouldReturn` "Hello, world\n"
    forM_ outsidePaths $ \path ->
      it (show path <> " leads outside, hence nowhere") $ \site -> do
        answer <- get site path []
        (answerStatus answer, answerBody answer) `shouldBe` (404, "404 Not Found\n")
    forM_ outsidePaths $ \path ->
      it (show path <> " may be followed if asked") $ \site -> do
        answer <- ask (site </> "root") FollowLinks methodGet path []
        answerStatus answer `shouldSatisfy` (`elem` [200, 301])
    forM_ ["/dangling", "/loop"] $ \path ->
      it (show path <> " is missing") $ \site -> answerStatus <$> get site path [] `shouldReturn` 404
    it "lead inside or nowhere, too, below a root that is one" $ \site -> do
      createSymbolicLink (site </> "root") (site </> "link")
      let statusOf path = answerStatus <$> ask (site </> "link") StayInside methodGet path []
      mapM statusOf ["/inside", "/inside-absolute", "/up-and-back", "/chain"] `shouldReturn` [200, 200, 200, 200]
      forM_ (outsidePaths <> ["/dangling", "/loop"]) $ \path -> statusOf path `shouldReturn` 404
    it "put in place between the look-up and the reading lead nowhere" $ \site ->
      racing site (toSecret site) plainSite 1500000
    it "nor do they if they are relative" $ \site -> racing site (createSymbolicLink "../secret/file") plainSite 1500000
    it "nor do they through the cache" $ \site -> do
      cache <- newFileCache 50
      racing site (toSecret site) (\root -> (plainSite root) {siteCache = Just cache}) 1500000

  describe "what is not a regular file" . around withSite $ do
    it "a pipe is refused without waiting for its writer" $ \site -> do
      createNamedPipe (site </> "root/pipe") 0o644
      fmap answerStatus <$> timeout 30000000 (get site "/pipe" []) `shouldReturn` Just 404
    it "a pipe that is put in place of a file is never opened: a program that waits for its reader still waits" $
      \site ->
        do
          createNamedPipe (site </> "pipe") 0o644
          bracket
            (createProcess (proc "sh" ["-c", "exec 3>pipe; echo opened"]) {cwd = Just site, std_out = CreatePipe})
            cleanupProcess
            $ \(_, output, _, _) ->
              do
                racing site (createLink (site </> "pipe")) plainSite 1500000
                mapM (`hWaitForInput` 0) output `shouldReturn` Just False
    it "a socket is refused" $ \site ->
      bracket (Network.socket Network.AF_UNIX Network.Stream 0) Network.close $ \socket -> do
        Network.bind socket (Network.SockAddrUnix (site </> "root/socket"))
        answerStatus <$> get site "/socket" [] `shouldReturn` 404
    it "a device is refused even if links are followed" $ \site -> do
      createSymbolicLink "/dev/zero" (site </> "root/zero")
      fmap answerStatus
        <$> timeout 30000000 (ask (site </> "root") FollowLinks methodGet "/zero" []) `shouldReturn` Just 404

  describe "a file that the system cannot open" . around withSite $ do
    let asked site policy path = do
          said <- newIORef []
          root <- openRoot policy (site </> "root")
          let telling = (plainSite root) {siteOnFault = \told reason -> modifyIORef' said ((told, reason) :)}
          pure (call (staticFiles telling) (requestFor methodGet path []), readIORef said)
    it "is a 500, and why is told" $ \site -> withGone $ \gone -> do
      createSymbolicLink gone (site </> "root/gone")
      (ask', said) <- asked site FollowLinks "/gone"
      answer <- ask'
      (answerStatus answer, answerBody answer) `shouldBe` (500, "500 Internal Server Error\n")
      said `shouldReturn` [("GET /gone", "No such process")]
    it "because there are too many open is a 503, and that is told" $ \site -> do
      (ask', said) <- asked site StayInside "/hello.txt"
      limits <- getResourceLimit ResourceOpenFiles
      let allow limit = setResourceLimit ResourceOpenFiles limits {softLimit = limit}
      answer <- bracket_ (allow (ResourceLimit 3)) (allow (softLimit limits)) ask'
      (answerStatus answer, header "Retry-After" answer) `shouldBe` (503, Just "1")
      said `shouldReturn` [("GET /hello.txt", "too many open files (ulimit -n)")]

  describe "a file that another process has a lease on" . around withSite $
    it "is served when that lets go" $ \site -> do
      writeOld site "root/leased.txt" "leased"
      answer <- withLease (site </> "root/leased.txt") (get site "/leased.txt" [])
      maybe
        (pendingWith "no leases here")
        (\found -> (answerStatus found, answerBody found) `shouldBe` (200, "leased"))
        answer

  describe "descriptors" . around withSite $
    it "are all given back" $ \site -> do
      let paths = ["/hello.txt", "/", "/sub", "/missing", "/secret", "/%zz", "/no-index/"]
      atFirst <- descriptorCount
      forM_ (concat (replicate 50 paths)) $ \path -> get site path [(hRange, "bytes=0-1,4-5")]
      root <- openRoot StayInside (site </> "root")
      forM_ (concat (replicate 50 paths)) $ \path ->
        call (staticFiles (plainSite root) {siteFallback = SinglePage}) (requestFor methodGet path [])
      descriptorCount `shouldReturn` atFirst

servedPaths :: [(ByteString, ByteString)]
servedPaths =
  [ ("/hello.txt", "Hello, world\n"),
    ("/hello%2etxt", "Hello, world\n"),
    ("/", "<p>index"),
    ("/sub/", "<p>old index"),
    ("/sub/index.htm", "<p>old index"),
    ("/a%20b%C3%A9", "space"),
    ("/%252e%252e", "a name with percent signs"),
    ("/.well-known/security.txt", "Contact: us"),
    ("/hard-link", "Hello, world\n"),
    ("/./hello.txt", "Hello, world\n"),
    ("/sub/./.", "<p>old index")
  ]

refusedPaths :: [(ByteString, Int)]
refusedPaths =
  [ ("/missing", 404),
    ("/no-index/", 404),
    ("/hello.txt/", 404),
    ("/hello.txt/x", 404),
    ("/" <> Char8.replicate 300 'x', 404),
    ("/" <> Char8.concat (replicate 3000 "x/"), 404),
    ("/%00", 400),
    ("/hello.txt%00.html", 400),
    ("/%zz", 400),
    ("/.hidden", 404),
    ("/%2ehidden", 404),
    ("/.git/config", 404),
    ("//hello.txt", 404),
    ("/../secret/file", 404),
    ("/sub/../../secret/file", 404),
    ("/%2e%2e/secret/file", 404),
    ("/%2E%2E%2Fsecret%2Ffile", 404),
    ("/..%5csecret%5cfile", 404),
    ("/sub%2findex.htm", 404),
    ("", 400),
    ("hello.txt", 400)
  ]

redirectedPaths :: [(ByteString, ByteString, ByteString)]
redirectedPaths =
  [ ("/sub", "", "./sub/"),
    ("/sub", "?a=b&c", "./sub/?a=b&c"),
    ("/sub", "?\r\nSet-Cookie: x", "./sub/"),
    ("/a:b", "", "./a%3Ab/"),
    ("/no-index", "", "./no-index/"),
    ("/./no-index", "", "./no-index/"),
    ("/.well-known", "", "./.well-known/")
  ]

outsidePaths :: [ByteString]
outsidePaths = ["/outside", "/outside-absolute", "/secret", "/secret/file", "/outside-index/", "/sibling/file"]
