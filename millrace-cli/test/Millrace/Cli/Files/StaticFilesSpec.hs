{-# LANGUAGE OverloadedStrings #-}

-- | The application called directly, without a server.
module Millrace.Cli.Files.StaticFilesSpec (spec) where

import Control.Concurrent (forkIO, forkOnWithUnmask, killThread, threadDelay, yield)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, bracket_, try)
import Control.Monad (forM, forM_, forever, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef (modifyIORef', newIORef, readIORef, writeIORef)
import Data.List (isInfixOf, nub)
import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Decompression
import Foreign.C (Errno (..), eSRCH)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Files.CacheRule (cacheRule)
import Millrace.Cli.Files.StaticFiles
import Millrace.Http.Date (parseHttpDate)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hVary)
import qualified Network.Socket as Network
import Network.Wai
import Network.Wai.Internal (ResponseReceived (..))
import Site
import System.Directory (createDirectory, listDirectory, removeFile, renamePath)
import System.FilePath ((</>))
import System.IO (hGetLine, hWaitForInput)
import System.Posix.Files (createLink, createNamedPipe, createSymbolicLink, setFileTimes)
import System.Posix.Resource
  ( Resource (..),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import System.Process (CreateProcess (..), StdStream (..), callProcess, cleanupProcess, createProcess, proc)
import System.Timeout (timeout)
import Test.Hspec

-- | What came back, and where from.
data Answer = Answer
  { answerStatus :: Int,
    answerHeaders :: ResponseHeaders,
    answerBody :: ByteString
  }
  deriving (Eq, Show)

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
    it "a pipe that is put in place of a file is never opened: a program that waits for its reader still waits" $ \site ->
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

  describe "precompressed files" . around withSite $ do
    it "are sent to those who accept them" $ \site -> do
      writeCoded site
      forM_
        [ ("gzip", Just "gzip", "as gzip"),
          ("br;q=0.5, gzip;q=0.5, zstd", Just "zstd", "as zstd"),
          ("*", Just "br", "as br"),
          ("identity", Nothing, "as it is")
        ]
        $ \(accepted, coding, content) ->
          do
            answer <- get site "/coded.txt" [("Accept-Encoding", accepted)]
            (answerStatus answer, answerBody answer, header hContentEncoding answer) `shouldBe` (200, content, coding)
            (header hContentType answer, header "Vary" answer)
              `shouldBe` (Just "text/plain; charset=utf-8", Just "Accept-Encoding")
    it "have tags of their own, and are what conditions and ranges are about" $ \site -> do
      writeCoded site
      let gzip = ("Accept-Encoding", "gzip")
      plain <- tagOf site "/coded.txt"
      coded <- fromMaybe "no tag" . header "ETag" <$> get site "/coded.txt" [gzip]
      plain `shouldNotBe` coded
      known <- get site "/coded.txt" [gzip, ("If-None-Match", coded)]
      (answerStatus known, header "ETag" known, header "Vary" known)
        `shouldBe` (304, Just coded, Just "Accept-Encoding")
      header hContentEncoding known `shouldBe` Nothing
      answerStatus <$> get site "/coded.txt" [gzip, ("If-None-Match", plain)] `shouldReturn` 200
      part <- get site "/coded.txt" [gzip, (hRange, "bytes=3-6"), (hIfRange, coded)]
      (answerStatus part, answerBody part, header hContentEncoding part) `shouldBe` (206, "gzip", Just "gzip")
    it "that are older are of an earlier state, and are not sent" $ \site -> do
      writeOld site "root/coded.txt.gz" "as gzip"
      write site "root/coded.txt" "as it is"
      answer <- get site "/coded.txt" [("Accept-Encoding", "gzip")]
      (answerBody answer, header hContentEncoding answer, header "Vary" answer)
        `shouldBe` ("as it is", Nothing, Nothing)
    forM_ [("37", "as gzip"), ("37.6", "as gzip"), ("35.7", "as gzip"), ("35.6", "as it is"), ("35", "as it is")] $
      \(seconds, content) ->
        it ("that are older by more than copying takes are not sent: changed at " <> seconds <> ", the file at 37.7") $
          \site ->
            do
              writeOld site "root/coded.txt" "as it is"
              writeOld site "root/coded.txt.gz" "as gzip"
              let changedAt second name =
                    callProcess "touch" ["-d", "1994-11-06 08:49:" <> second, site </> "root" </> name]
              changedAt "37.7" "coded.txt" >> changedAt seconds "coded.txt.gz"
              answerBody <$> get site "/coded.txt" [("Accept-Encoding", "gzip")] `shouldReturn` content
    it "that are older are not sent, whatever the year" $ \site -> do
      write site "root/coded.txt.gz" "as gzip"
      write site "root/coded.txt" "as it is"
      callProcess "touch" ["-d", "2300-01-01", site </> "root/coded.txt"]
      answerBody <$> get site "/coded.txt" [("Accept-Encoding", "gzip")] `shouldReturn` "as it is"
    it "that lead outside are not sent" $ \site -> do
      createSymbolicLink "../secret/file" (site </> "root/hello.txt.gz")
      answerBody <$> get site "/hello.txt" [("Accept-Encoding", "gzip")] `shouldReturn` "Hello, world\n"
    it "without the file itself are only that" $ \site -> do
      write site "root/alone.txt.gz" "as gzip"
      answerStatus <$> get site "/alone.txt" [("Accept-Encoding", "gzip")] `shouldReturn` 404
      answer <- get site "/alone.txt.gz" [("Accept-Encoding", "gzip")]
      (answerStatus answer, header hContentEncoding answer) `shouldBe` (200, Nothing)
    it "are named behind the one that the file has by itself" $ \site -> do
      writeOld site "root/logo.SVGZ" "zipped"
      writeOld site "root/logo.SVGZ.br" "as br"
      let codingOf headers = header hContentEncoding <$> get site "/logo.SVGZ" headers
      mapM codingOf [[], [("Accept-Encoding", "br")]] `shouldReturn` [Just "gzip", Just "gzip, br"]
    it "are sent for an index too" $ \site -> do
      write site "root/index.html.br" "as br"
      answer <- get site "/" [("Accept-Encoding", "br")]
      (answerBody answer, header hContentType answer) `shouldBe` ("as br", Just "text/html; charset=utf-8")

  describe "the cache" . around withSite $ do
    let cached lifetime site = do
          root <- openRoot StayInside (site </> "root")
          cache <- newFileCache lifetime
          pure
            ( \path headers ->
                call (staticFiles (plainSite root) {siteCache = Just cache}) (requestFor methodGet path headers)
            )
    forM_ ["/hello.txt", "/", "/sub/", "/empty", "/coded.txt", "/hard-link"] $ \path ->
      it (show path <> ": answers as without it, first and later") $ \site -> do
        writeCoded site
        answer <- cached 60000000 site
        forM_
          [ [],
            [(hRange, "bytes=0-2")],
            [(hRange, "bytes=0-0,2-2")],
            [(hRange, "bytes=99-")],
            [("If-None-Match", "*")],
            [("If-Match", "\"x\"")],
            [("Accept-Encoding", "gzip")]
          ]
          $ \headers -> do
            direct <- get site path headers
            first <- answer path headers
            later <- answer path headers
            let facts one =
                  ( answerStatus one,
                    bodyOf one,
                    header "ETag" one,
                    header "Vary" one,
                    header hContentEncoding one,
                    header
                      "Content-Range"
                      one,
                    header hLastModified one
                  )
                -- The boundary of several parts is random.
                bodyOf one =
                  if maybe False ("multipart" `ByteString.isPrefixOf`) (header hContentType one)
                    then "parts"
                    else answerBody one
            (facts first, facts later) `shouldBe` (facts direct, facts direct)
    it "spares the look-up, for its time" $ \site -> do
      answer <- cached 2000000 site
      answerBody <$> answer "/hello.txt" [] `shouldReturn` "Hello, world\n"
      removeFile (site </> "root/hello.txt")
      answerBody <$> answer "/hello.txt" [] `shouldReturn` "Hello, world\n"
      threadDelay 2100000
      answerStatus <$> answer "/hello.txt" [] `shouldReturn` 404
    it "shows a changed file after its time" $ \site -> do
      answer <- cached 50000 site
      first <- answer "/hello.txt" []
      write site "root/hello.txt" "changed"
      threadDelay 60000
      second <- answer "/hello.txt" []
      answerBody second `shouldBe` "changed"
      header "ETag" first == header "ETag" second `shouldBe` False
    it "is not filled by spelling a path in other ways" $ \site -> do
      answer <- cached 60000000 site
      let spellings = ["/hell%6f.txt", "/./hello.txt"]
      forM_ spellings $ \path -> answerBody <$> answer path [] `shouldReturn` "Hello, world\n"
      removeFile (site </> "root/hello.txt")
      forM_ spellings $ \path -> answerStatus <$> answer path [] `shouldReturn` 404
    it "keeps a large file open, for its time" $ \site -> do
      write site "root/large" large
      atFirst <- descriptors
      answer <- cached 500000 site
      answerBody <$> answer "/large" [] `shouldReturn` large
      removeFile (site </> "root/large")
      answerBody <$> answer "/large" [] `shouldReturn` large
      (subtract atFirst <$> descriptors) `shouldReturn` 1
      threadDelay 1100000
      answerStatus <$> answer "/large" [] `shouldReturn` 404
      descriptors `shouldReturn` atFirst
    it "shows at once that a large file was written to" $ \site -> do
      writeOld site "root/large" large
      answer <- cached 60000000 site
      first <- answer "/large" []
      ByteString.appendFile (site </> "root/large") "and more"
      second <- answer "/large" []
      answerBody second `shouldBe` large <> "and more"
      header "ETag" first == header "ETag" second `shouldBe` False
    it "keeps large files in other codings open, too" $ \site -> do
      writeOld site "root/large" large
      writeOld site "root/large.gz" (Char8.replicate 65537 'z')
      answer <- cached 60000000 site
      _ <- answer "/large" []
      mapM_ (removeFile . ((site </> "root") </>)) ["large", "large.gz"]
      answerBody <$> answer "/large" [("Accept-Encoding", "gzip")] `shouldReturn` Char8.replicate 65537 'z'
      answerBody <$> answer "/large" [] `shouldReturn` large
    it "shows at once that a large file is newer than what it has in another coding" $ \site -> do
      writeOld site "root/large" large
      writeOld site "root/large.br" "as br"
      answer <- cached 60000000 site
      answerBody <$> answer "/large" [("Accept-Encoding", "br")] `shouldReturn` "as br"
      answerBody <$> answer "/large" [("Accept-Encoding", "br")] `shouldReturn` "as br"
      ByteString.appendFile (site </> "root/large") "and more"
      answerBody <$> answer "/large" [("Accept-Encoding", "br")] `shouldReturn` large <> "and more"
    it "holds no more than 128 files open" $ \site -> do
      let names = ["large" <> show number | number <- [1 .. 300 :: Int]]
      forM_ names $ \name -> write site ("root/" <> name) large
      atFirst <- descriptors
      answer <- cached 60000000 site
      forM_ names $ \name -> answerStatus <$> answer (Char8.pack ('/' : name)) [] `shouldReturn` 200
      held <- subtract atFirst <$> descriptors
      held `shouldSatisfy` (`elem` [1 .. 128])

  describe "listings" . around withSite $ do
    it "are not made unless asked for" $ \site -> answerStatus <$> get site "/no-index/" [] `shouldReturn` 404
    it "name what is served, and only that" $ \site -> do
      write site "root/no-index/<b>&\"'.txt" "12345"
      write site "root/no-index/.hidden" ""
      write site "root/no-index/folder/x" ""
      createSymbolicLink "../../secret/file" (site </> "root/no-index/outside")
      root <- openRoot StayInside (site </> "root")
      answer <- call (staticFiles (plainSite root) {siteListing = True}) (requestFor methodGet "/no-index/" [])
      (answerStatus answer, header hContentType answer) `shouldBe` (200, Just "text/html; charset=utf-8")
      let holds text = answerBody answer `shouldSatisfy` ByteString.isInfixOf text
          lacks text = answerBody answer `shouldNotSatisfy` ByteString.isInfixOf text
      mapM_
        holds
        [ "<title>/no-index/</title>",
          "<a href=\"./folder/\">folder/</a>",
          "<a href=\"./%3Cb%3E%26%22%27.txt\">&lt;b&gt;&amp;&quot;&#39;.txt</a>",
          "<td><span title=\"5 bytes\">5 B</span></td>",
          "href=\"../\"",
          "1 directory, 2 files"
        ]
      mapM_ lacks [".hidden", "outside", "<b>&"]
    it "are JSON for programs" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      writeOld site "root/no-index/y" "123"
      answer <-
        call
          (staticFiles (plainSite root) {siteListing = True})
          (requestFor methodGet "/no-index/" [(hAccept, "application/json")])
      (answerStatus answer, header hContentType answer, header hVary answer)
        `shouldBe` (200, Just "application/json", Just "Accept")
      answerBody answer
        `shouldSatisfy` ByteString.isInfixOf
          "{\"name\": \"y\", \"kind\": \"file\", \"size\": 3, \"modified\": \"1994-11-06T08:49:37Z\"}\n]\n"
    it "say so when they are cut" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      let page =
            answerBody <$> call (staticFiles (plainSite root) {siteListing = True}) (requestFor methodGet "/many/" [])
          isCut = ByteString.isInfixOf "&hellip; and more"
      createDirectory (site </> "root/many")
      forM_ [1 .. 9998 :: Int] $ \number ->
        createLink (site </> "root/hello.txt") (site </> "root/many" </> show number)
      whole <- page
      (isCut whole, Char8.count '\n' whole > 9998) `shouldBe` (False, True)
      createLink (site </> "root/hello.txt") (site </> "root/many/one more")
      isCut <$> page `shouldReturn` True
    it "tell no date of another century" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      callProcess "touch" ["-d", "2300-01-01", site </> "root/no-index/x"]
      page <-
        answerBody <$> call (staticFiles (plainSite root) {siteListing = True}) (requestFor methodGet "/no-index/" [])
      page `shouldSatisfy` ByteString.isInfixOf "\"2262-04-11T"
    it "know what is behind a link, and do not show what cannot be served" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      createSymbolicLink "../hello.txt" (site </> "root/no-index/link")
      createSymbolicLink "../sub" (site </> "root/no-index/link-to-directory")
      createSymbolicLink "nowhere" (site </> "root/no-index/dangling")
      createNamedPipe (site </> "root/no-index/pipe") 0o644
      page <-
        answerBody <$> call (staticFiles (plainSite root) {siteListing = True}) (requestFor methodGet "/no-index/" [])
      let holds text = ByteString.isInfixOf text page
      map
        holds
        [ "<a href=\"./link\">link</a></td><td><span title=\"13 bytes\">13 B</span></td><td><time datetime=\"1994-11-06T08:49:37Z\"",
          "<a href=\"./link-to-directory/\">link-to-directory/</a></td><td></td><td><time ",
          "dangling",
          "pipe"
        ]
        `shouldBe` [True, True, False, False]
    it "give way to an index" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      answerBody
        <$> call (staticFiles (plainSite root) {siteListing = True}) (requestFor methodGet "/" [])
          `shouldReturn` "<p>index"

  describe "a single-page application" . around withSite $ do
    let page = [("Accept", "text/html,*/*;q=0.8")]
        application site change = do
          root <- openRoot StayInside (site </> "root")
          pure
            ( \path headers ->
                call
                  (staticFiles (change (plainSite root) {siteFallback = SinglePage}))
                  (requestFor methodGet path headers)
            )
    forM_
      [ "/users",
        "/users/42",
        "/users/42/",
        "/a%20b%C3%A9c",
        "/no-index/",
        "/hello.txt/x",
        "/dangling",
        "/.well-known/x",
        "/"
          <> Char8.replicate 300 'x'
      ]
      $ \path ->
        it (show (Char8.take 40 path) <> " is answered with its page") $ \site -> do
          ask' <- application site id
          answer <- ask' path page
          (answerStatus answer, answerBody answer) `shouldBe` (200, "<p>index")
          map (`header` answer) [hContentType, hCacheControl, "Vary"]
            `shouldBe` [Just "text/html; charset=utf-8", Just "no-cache", Just "Accept"]
    forM_
      [ ("/app.js", 404),
        ("/a.b/", 404),
        ("/hello.txt/", 404),
        ("/.hidden", 404),
        ("//users", 404),
        ("/../users", 404),
        ("/%2e%2e%2fusers", 404),
        ("/%00", 400),
        ("/%zz", 400)
      ]
      $ \(path, expected) ->
        it (show path <> " is not") $ \site -> do
          ask' <- application site id
          answerStatus <$> ask' path page `shouldReturn` expected
    it "does not answer who wants no page" $ \site -> do
      ask' <- application site id
      answer <- ask' "/users" [("Accept", "application/json")]
      (answerStatus answer, header "Vary" answer) `shouldBe` (404, Just "Accept")
      answerStatus <$> ask' "/users" [] `shouldReturn` 200
    it "does not take the place of files and redirects" $ \site -> do
      ask' <- application site id
      answerBody <$> ask' "/inside" page `shouldReturn` "Hello, world\n"
      answerStatus <$> ask' "/sub" page `shouldReturn` 301
      answerBody <$> ask' "/sub/" page `shouldReturn` "<p>old index"
      listed <- application site (\plain -> plain {siteListing = True})
      listed "/no-index/" page >>= (`shouldSatisfy` ByteString.isInfixOf "<title>") . answerBody
    it "only answers GET and HEAD" $ \site -> do
      root <- openRoot StayInside (site </> "root")
      let byMethod method =
            answerStatus
              <$> call (staticFiles (plainSite root) {siteFallback = SinglePage}) (requestFor method "/users" page)
      mapM byMethod [methodHead, methodPost] `shouldReturn` [200, 405]
    it "is validated each time, also by the path of its page" $ \site -> do
      write site "root/other.html" "other"
      ask' <- application site id
      forM_ [("/", Just "no-cache"), ("/index.html", Just "no-cache"), ("/other.html", Nothing), ("/sub/", Nothing)] $
        \(path, expected) ->
          header hCacheControl <$> ask' path [] `shouldReturn` expected
      known <- header "ETag" <$> ask' "/users" page
      unchanged <- ask' "/users" (("If-None-Match", fromMaybe "" known) : page)
      (answerStatus unchanged, header hCacheControl unchanged) `shouldBe` (304, Just "no-cache")
    it "without a page is missing" $ \site -> do
      removeFile (site </> "root/index.html")
      ask' <- application site id
      mapM (fmap answerStatus . (`ask'` page)) ["/users", "/"] `shouldReturn` [404, 404]
    it "with a page that leads outside is missing" $ \site -> do
      removeFile (site </> "root/index.html")
      createSymbolicLink "../secret/index.html" (site </> "root/index.html")
      ask' <- application site id
      answerStatus <$> ask' "/users" page `shouldReturn` 404
    it "sends its page in a coding" $ \site -> do
      write site "root/index.html.br" "as br"
      ask' <- application site id
      answer <- ask' "/users" (("Accept-Encoding", "br") : page)
      (answerBody answer, header hContentEncoding answer, header "Vary" answer)
        `shouldBe` ("as br", Just "br", Just "Accept-Encoding, Accept")
    it "keeps its page once, and not for each path" $ \site -> do
      cache <- newFileCache 60000000
      ask' <- application site (\plain -> plain {siteCache = Just cache})
      map answerBody <$> mapM (`ask'` page) ["/one", "/two"] `shouldReturn` ["<p>index", "<p>index"]
      write site "root/index.html" "<p>changed"
      write site "root/one" "a file"
      map answerBody
        <$> mapM (`ask'` page) ["/one", "/two", "/index.html"] `shouldReturn` ["a file", "<p>index", "<p>changed"]

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
      write site "root/404.html" "first"
      ask' <- withPages 2000000 site id
      write site "root/404.html" "second"
      answerBody <$> ask' "/missing" [] `shouldReturn` "first"
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
      atFirst <- descriptors
      ask' <- withPages 0 site id
      forM_ [1 .. 50 :: Int] $ \_ -> ask' "/missing" []
      descriptors `shouldReturn` atFirst

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
      atFirst <- descriptors
      results <- forM [1 .. 40 :: Int] $ \number -> do
        result <- newEmptyMVar
        _ <-
          forkIO
            (ask' methodGet (if even number then "/script.js" else "/middle.js") (accepting "zstd") >>= putMVar result)
        pure result
      answers <- mapM takeMVar results
      map (header hContentEncoding) answers `shouldBe` replicate 40 (Just "zstd")
      length (nub (map answerBody answers)) `shouldBe` 2
      descriptors `shouldReturn` atFirst
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

  describe "descriptors" . around withSite $
    it "are all given back" $ \site -> do
      let paths = ["/hello.txt", "/", "/sub", "/missing", "/secret", "/%zz", "/no-index/"]
      atFirst <- descriptors
      forM_ (concat (replicate 50 paths)) $ \path -> get site path [(hRange, "bytes=0-1,4-5")]
      root <- openRoot StayInside (site </> "root")
      forM_ (concat (replicate 50 paths)) $ \path ->
        call (staticFiles (plainSite root) {siteFallback = SinglePage}) (requestFor methodGet path [])
      descriptors `shouldReturn` atFirst
  where
    slice start count = ByteString.take count . ByteString.drop start
    descriptors = length <$> listDirectory "/proc/self/fd"
    large = Char8.replicate 65537 'x'

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

-- | A directory @root@ to serve, and beside it things that must not be reached.
withSite :: (FilePath -> IO a) -> IO a
withSite use = withDirectory $ \site -> do
  writeOld site "root/hello.txt" "Hello, world\n"
  mapM_
    (uncurry (write site))
    [ ("root/index.html", "<p>index"),
      ("root/sub/index.htm", "<p>old index"),
      ("root/no-index/x", "x"),
      ("root/a:b/x", "x"),
      ("root/a b\233", ""),
      ("root/%2e%2e", "a name with percent signs"),
      ("root/empty", ""),
      ("root/.hidden", "secret"),
      ("root/.git/config", "secret"),
      ("root/.well-known/security.txt", "Contact: us"),
      ("secret/file", "secret"),
      ("secret/index.html", "secret"),
      ("root-sibling/file", "secret")
    ]
  removeFile (site </> "root/a b\233")
  write site "root/a b\233" "space"
  mapM_
    (\(target, link) -> createSymbolicLink target (site </> "root" </> link))
    [ ("hello.txt", "inside"),
      (site </> "root/hello.txt", "inside-absolute"),
      ("../root/hello.txt", "up-and-back"),
      ("inside", "chain"),
      ("../secret/file", "outside"),
      (site </> "secret/file", "outside-absolute"),
      ("../secret", "secret"),
      ("../root-sibling", "sibling"),
      ("nothing", "dangling"),
      ("loop", "loop")
    ]
  createDirectory (site </> "root/outside-index")
  createSymbolicLink "../../secret/index.html" (site </> "root/outside-index/index.html")
  createLink (site </> "root/hello.txt") (site </> "root/hard-link")
  use site

-- | The same, with files that are worth compressing, or not. They have been there for long enough.
withCompressible :: (FilePath -> IO a) -> IO a
withCompressible use = withSite $ \site -> do
  mapM_
    (\(name, content) -> writeOld site ("root/" <> name) content)
    [ ("script.js", script),
      ("middle.js", ByteString.take 50000 script),
      ("small.js", ByteString.take 1023 script),
      ("least.js", ByteString.take 1024 script),
      ("most.js", Char8.replicate 8388608 'x'),
      ("large.js", Char8.replicate 8388609 'x'),
      ("picture.png", script),
      ("font.woff2", script),
      ("logo.svgz", script),
      ("script.js.tgz", script),
      ( "random.txt",
        fst
          ( ByteString.unfoldrN
              5000
              (\state -> Just (fromIntegral (state `div` 16777216), state * 1664525 + 1013904223))
              (1 :: Word32)
          )
      ),
      ("stored.js", script),
      ("stored.js.gz", "as gzip"),
      ("index.html", "<p>" <> Char8.replicate 2000 'i')
    ]
  -- Two seconds, and one because the clock has whole seconds.
  threadDelay 3100000
  use site

script :: ByteString
script =
  Char8.unlines
    ["const line" <> Char8.pack (show number) <> " = \"a line of a script\";" | number <- [1 .. 5000 :: Int]]

toSecret :: FilePath -> FilePath -> IO ()
toSecret site = createSymbolicLink (site </> "secret/file")

-- | Exchanges a file and something that must not be served as fast as it can, while the file is asked for. Needs a
-- second capability.
racing :: FilePath -> (FilePath -> IO ()) -> (Root -> Site) -> Int -> Expectation
racing site make serving micros = do
  write site "root/swap" "open"
  write site "spare" "open"
  answers <- newIORef (0 :: Int, 0 :: Int)
  leaked <- newIORef False
  root <- openRoot StayInside (site </> "root")
  let exchange = forever $ do
        make (site </> "other")
        renamePath (site </> "other") (site </> "root/swap")
        createLink (site </> "spare") (site </> "plain")
        renamePath (site </> "plain") (site </> "root/swap")
        yield -- the loop does not allocate, so nothing else would make it stop
      ask' = forever $ do
        answer <- call (staticFiles (serving root)) (requestFor methodGet "/swap" [])
        unless (answerBody answer `elem` ["open", "404 Not Found\n"]) (writeIORef leaked True)
        modifyIORef'
          answers
          (\(found, missing) -> if answerStatus answer == 200 then (found + 1, missing) else (found, missing + 1))
  bracket (forkOnWithUnmask 1 (\unmask -> unmask exchange)) killThread $ \_ -> void (timeout micros ask')
  readIORef leaked `shouldReturn` False
  -- Both must have been seen, or nothing was raced.
  readIORef answers >>= (`shouldSatisfy` \(found, missing) -> found > 10 && missing > 10)

-- | A file that can be found, and not be opened: the memory of a process that has ended. Nothing is done where a kernel
-- lets it be opened.
withGone :: (FilePath -> IO ()) -> IO ()
withGone use = bracket (createProcess parent) cleanupProcess $ \(_, output, _, _) -> do
  child <- maybe (fail "no pipe") hGetLine output
  let path = "/proc/" <> child <> "/mem"
      hasEnded = isInfixOf ") Z " <$> readFile ("/proc/" <> child <> "/stat")
      await = hasEnded >>= \ended -> unless ended (threadDelay 10000 >> await)
  await
  outcome <- try (ByteString.readFile path)
  case outcome of
    Left exception | fmap Errno (ioe_errno exception) == Just eSRCH -> use path
    _ -> pendingWith "this kernel opens the memory of a process that has ended"
  where
    parent = (proc "python3" ["-c", unlines program]) {std_in = NoStream, std_out = CreatePipe}
    -- It does not ask how its child ended.
    program =
      ["import os, signal", "child = os.fork()", "if child:", "    print(child, flush=True)", "    signal.pause()"]

-- | A file that is there in every coding.
writeCoded :: FilePath -> IO ()
writeCoded site =
  mapM_
    (\(extension, content) -> writeOld site ("root/coded.txt" <> extension) content)
    [("", "as it is"), (".br", "as br"), (".zst", "as zstd"), (".gz", "as gzip")]

tagOf :: FilePath -> ByteString -> IO ByteString
tagOf site path = fromMaybe "no tag" . header "ETag" <$> get site path []

header :: HeaderName -> Answer -> Maybe ByteString
header name answer = lookup name (answerHeaders answer)

get :: FilePath -> ByteString -> RequestHeaders -> IO Answer
get site = ask (site </> "root") StayInside methodGet

withQuery :: FilePath -> ByteString -> ByteString -> IO Answer
withQuery site path query = do
  root <- openRoot StayInside (site </> "root")
  call (staticFiles (plainSite root)) (requestFor methodGet path []) {rawQueryString = query}

ask :: FilePath -> LinkPolicy -> Method -> ByteString -> RequestHeaders -> IO Answer
ask directory policy method path headers = do
  root <- openRoot policy directory
  call (staticFiles (plainSite root)) (requestFor method path headers)

requestFor :: Method -> ByteString -> RequestHeaders -> Request
requestFor method path headers = defaultRequest {requestMethod = method, rawPathInfo = path, requestHeaders = headers}

-- | Runs an application and reads its answer while the application waits, as a server does.
call :: Application -> Request -> IO Answer
call application request = do
  received <- newIORef (Answer 0 [] "")
  ResponseReceived <- application request $ \response -> do
    let (status, headers, withBody) = responseToStream response
    chunks <- newIORef []
    withBody (\body -> body (\chunk -> modifyIORef' chunks (toLazyByteString chunk :)) (pure ()))
    content <- Lazy.toStrict . Lazy.concat . reverse <$> readIORef chunks
    writeIORef received (Answer (statusCode status) headers content)
    pure ResponseReceived
  readIORef received
