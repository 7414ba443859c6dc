{-# LANGUAGE OverloadedStrings #-}

-- | Precompressed files, and the cache of files.
module Millrace.Cli.Files.CachedFileSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (fromMaybe)
import Millrace.Cli.Files.StaticFiles
import Network.HTTP.Types
import Site
import StaticSite
import System.Directory (removeFile)
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink)
import System.Process (callProcess)
import Test.Hspec
import TestSupport.Process (descriptorCount)
import TestSupport.Time (eventually, quickly)

spec :: Spec
spec = do
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
      (answer, early) <- quickly 1.9 $ do
        answer <- cached 2000000 site
        write site "root/hello.txt" "Hello, world\n"
        first <- answer "/hello.txt" []
        removeFile (site </> "root/hello.txt")
        second <- answer "/hello.txt" []
        pure (answer, [first, second])
      map answerBody early `shouldBe` ["Hello, world\n", "Hello, world\n"]
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
      atFirst <- descriptorCount
      (answer, early, held) <- quickly 0.4 $ do
        closedAgain atFirst -- after an earlier attempt
        write site "root/large" large
        answer <- cached 500000 site
        first <- answer "/large" []
        removeFile (site </> "root/large")
        second <- answer "/large" []
        held <- subtract atFirst <$> descriptorCount
        pure (answer, [first, second], held)
      (map answerBody early, held) `shouldBe` ([large, large], 1)
      threadDelay 1100000
      answerStatus <$> answer "/large" [] `shouldReturn` 404
      closedAgain atFirst
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
      atFirst <- descriptorCount
      answer <- cached 60000000 site
      forM_ names $ \name -> answerStatus <$> answer (Char8.pack ('/' : name)) [] `shouldReturn` 200
      held <- subtract atFirst <$> descriptorCount
      held `shouldSatisfy` (`elem` [1 .. 128])
  where
    large = Char8.replicate 65537 'x'
    closedAgain earlier = eventually "the file to be closed" ((== earlier) <$> descriptorCount)
