-- | The pages of the program in Chromium. Pending if there is none.
module Millrace.Cli.BrowserSpec (spec) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM_, forever)
import qualified Data.ByteString.Char8 as Char8
import Data.List (stripPrefix)
import Data.Maybe (listToMaybe, mapMaybe)
import Program
import Site
import System.Directory (findExecutable)
import System.FilePath ((</>))
import System.Process (getPid, readProcess)
import Test.Hspec

spec :: Spec
spec = do
  describe "a listing" . around withListed $ do
    it "fits on a phone, has links for the keyboard, and asks for nothing else" $ \site ->
      withServer ["serve", site, "--port", "0", "--listing"] $ \server -> do
        let url = serverUrl server <> "/music/?sort=size"
        inBrowser
          ( ["--phone", "--width", "360", url]
              ++ concatMap (\expression -> ["--value", expression]) [names, sortedBy, outline]
          )
          $ \seen ->
            do
              seen `fits` 360
              askedFor seen `shouldBe` [url]
              messages seen `shouldBe` []
              valuesOf seen
                `shouldBe` [ "[\"../\",\"live/\",\"song.flac\",\""
                               <> longName
                               <> "\",\"a&<b>.txt\"]",
                             "[null,\"descending\",null]",
                             "\"solid\""
                           ]
    it "is dark where that is preferred" $ \site ->
      withServer ["serve", site, "--port", "0", "--listing"] $ \server ->
        forM_ [([], True), (["--dark"], False)] $ \(dark, isLight) ->
          inBrowser (dark ++ [serverUrl server <> "/music/", "--value", brightness]) $ \seen ->
            map ((> (128 :: Double)) . read) (valuesOf seen) `shouldBe` [isLight]
  describe "the status page" $ do
    it "is filled in by its script, fits on a phone, and asks only its own server" $
      withServer ["pong", "--port", "0"] $ \target ->
        withServer ["proxy", show (serverPort target), "1", "--port", "0", "--status", "0"] $ \server -> do
          url <- takeWhile (/= ',') . drop (length "status on ") <$> nextLine server
          bracket (forkIO (forever (curl [serverUrl server] >> threadDelay 50000))) killThread $ \_ ->
            inBrowser
              ( ["--phone", "--width", "360", url, "--wait", isDrawn]
                  ++ concatMap (\expression -> ["--value", expression]) [served, "find('state').textContent", figuresOf]
              )
              $ \seen ->
                do
                  seen `fits` 360
                  askedFor seen
                    `shouldSatisfy` (\asked -> length asked > 2 && all (`elem` [url, url <> "status"]) asked)
                  messages seen `shouldBe` []
                  valuesOf seen
                    `shouldBe` [ "[\"http://127.0.0.1:1\",\"http://127.0.0.1:"
                                   <> show (serverPort target)
                                   <> "\"]",
                                 "\"live\"",
                                 "true"
                               ]
    it "says so when its server has gone" . withServer ["pong", "--port", "0", "--status", "0"] $ \server -> do
      url <- takeWhile (/= ',') . drop (length "status on ") <$> nextLine server
      process <- maybe (fail "the server has ended") return =<< getPid (serverProcess server)
      inBrowser
        [ url,
          "--kill",
          show process,
          "--wait",
          "find('state').className === 'bad'",
          "--value",
          "find('state').textContent"
        ]
        $ \seen ->
          valuesOf seen `shouldBe` ["\"no figures: Failed to fetch\""]
    it "is dark where that is preferred" . withServer ["pong", "--port", "0", "--status", "0"] $ \server -> do
      url <- takeWhile (/= ',') . drop (length "status on ") <$> nextLine server
      forM_ [([], True), (["--dark"], False)] $ \(dark, isLight) ->
        inBrowser (dark ++ [url, "--value", brightness]) $ \seen ->
          map ((> (128 :: Double)) . read) (valuesOf seen) `shouldBe` [isLight]
  where
    seen `fits` width =
      (lookup "window" seen, lookup "page" seen) `shouldBe` (Just (show (width :: Int)), Just (show width))
    names = "[...document.querySelectorAll('td a')].map(link => link.textContent)"
    sortedBy = "[...document.querySelectorAll('th')].map(cell => cell.ariaSort)"
    outline =
      "(document.querySelector('th a').focus({focusVisible: true}), \
      \getComputedStyle(document.activeElement).outlineStyle)"
    brightness =
      "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((sum, part) => sum + \
      \part / 3, 0)"
    -- Each number is filled in, and each chart has a line.
    isDrawn =
      "['requests', 'latency', 'connections', 'sent', 'errors', 'memory'].every(id => \
      \/^\\d/.test(find(id).querySelector('.one').textContent) && \
      \/L/.test(find(id).querySelector('path').getAttribute('d')))"
    served = "[...document.querySelectorAll('#upstreams td:first-child')].map(cell => cell.textContent)"
    figuresOf =
      "/^hybrid backend|^epoll backend|^io_uring backend/.test(find('server').textContent) && \
      \find('loops').querySelectorAll('dd').length === 5"

longName :: String
longName = "a_name_without_any_blank_" <> replicate 200 'x'

withListed :: (FilePath -> IO a) -> IO a
withListed use = withDirectory $ \site -> do
  write site "music/live/x" (Char8.pack "")
  write site "music/song.flac" (Char8.replicate 5000 'x')
  write site ("music" </> longName) (Char8.replicate 50 'x')
  write site "music/a&<b>.txt" (Char8.pack "")
  use site

-- | Opens a page, and hands over what 'test/look_at.py' says of it.
inBrowser :: [String] -> ([(String, String)] -> Expectation) -> Expectation
inBrowser arguments use = do
  found <- findExecutable "chromium"
  case found of
    Nothing -> pendingWith "chromium is not installed"
    Just _ ->
      readProcess "python3" (["test/look_at.py", "--seconds", "120"] ++ arguments) "" >>= use . mapMaybe named . lines
  where
    named line =
      listToMaybe
        ( mapMaybe
            (\name -> (,) name <$> stripPrefix (name <> ": ") line)
            ["value", "window", "page", "asked for", "message"]
        )

valuesOf, askedFor, messages :: [(String, String)] -> [String]
valuesOf seen = [value | ("value", value) <- seen]
askedFor seen = [value | ("asked for", value) <- seen]
messages seen = [value | ("message", value) <- seen]
