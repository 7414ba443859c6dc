{-# LANGUAGE OverloadedStrings #-}

-- | Listings of directories, and single-page applications.
module Millrace.Cli.Files.SinglePageSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (fromMaybe)
import Millrace.Cli.Files.StaticFiles
import Network.HTTP.Types
import Network.HTTP.Types.Header (hVary)
import Site
import StaticSite
import System.Directory (createDirectory, removeFile)
import System.FilePath ((</>))
import System.Posix.Files (createLink, createNamedPipe, createSymbolicLink)
import System.Process (callProcess)
import Test.Hspec

spec :: Spec
spec = do
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
        [ "<a href=\"./link\">link</a></td><td><span title=\"13 bytes\">13 B</span></td><td><time \
          \datetime=\"1994-11-06T08:49:37Z\"",
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
