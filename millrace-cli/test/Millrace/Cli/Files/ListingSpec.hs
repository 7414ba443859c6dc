{-# LANGUAGE OverloadedStrings #-}

-- | Directories as pages and as JSON.
module Millrace.Cli.Files.ListingSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Int (Int64)
import Millrace.Cli.Files.Accept (prefersJson)
import Millrace.Cli.Files.Listing
import Network.HTTP.Types
import Network.HTTP.Types.Header (hVary)
import Network.Wai
import Program (python3)
import Test.Hspec

spec :: Spec
spec = do
  describe "a listing's order" $ do
    let entries =
          [ ListedFile "b" 30 3,
            ListedDirectory
              "z"
              (Just 9),
            ListedFile "a" 10 5,
            ListedFile "c" 10 4,
            ListedDirectory "y" Nothing
          ]
    forM_
      [ ("", ["y/", "z/", "a", "b", "c"]),
        ("?sort=name&order=desc", ["z/", "y/", "c", "b", "a"]),
        ("?sort=size", ["y/", "z/", "b", "a", "c"]),
        ("?sort=size&order=asc", ["y/", "z/", "a", "c", "b"]),
        ("?sort=date", ["z/", "y/", "a", "c", "b"]),
        ("?sort=date&order=asc", ["y/", "z/", "b", "c", "a"]),
        ("?sort=owner&order=sideways", ["y/", "z/", "a", "b", "c"])
      ]
      $ \(query, expected) ->
        it ("for the query '" <> Char8.unpack query <> "'") $ do
          page <- bodyOf query [] (Listing [] Nothing entries)
          linked page `shouldBe` map ("./" <>) expected
    it "is what the links of the header cells change" $ do
      page <- bodyOf "?sort=size" [] (Listing [] Nothing entries)
      mapM_
        (page `holds`)
        [ "<th scope=\"col\"><a href=\"?sort=name&amp;order=asc\">Name</a></th>",
          "<th scope=\"col\" aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a></th>",
          "<th scope=\"col\"><a href=\"?sort=date&amp;order=desc\">Changed (UTC)</a></th>"
        ]

  describe "a listing's page" $ do
    forM_
      [ (0, "0 bytes\">0 B"),
        (1, "1 byte\">1 B"),
        (1023, "1023 bytes\">1023 B"),
        (1024, "1024 bytes\">1.0 KiB"),
        (102348, "102348 bytes\">99.9 KiB"),
        (102400, "102400 bytes\">100 KiB"),
        (1048063, "1048063 bytes\">1023 KiB"),
        (1048575, "1048575 bytes\">1.0 MiB"),
        (5368709120, "5368709120 bytes\">5.0 GiB"),
        (maxBound, "9223372036854775807 bytes\">8192 PiB")
      ]
      $ \(size, expected) ->
        it ("shows the size " <> show (size :: Int64)) $ do
          page <- bodyOf "" [] (Listing [] Nothing [ListedFile "a" size 0])
          page `holds` ("<td><span title=\"" <> expected <> "</span></td>")
    it "shows dates, also those before 1970" $ do
      page <- bodyOf "" [] (Listing [] Nothing [ListedFile "a" 1 784111777, ListedFile "b" 1 (-1)])
      mapM_
        (page `holds`)
        [ "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>",
          "<time datetime=\"1969-12-31T23:59:59Z\">1969-12-31 23:59</time>"
        ]
    it "leads to the directories above" $ do
      page <- bodyOf "" [] (Listing ["a", "<b>", "c"] Nothing [])
      page
        `holds` "<a href=\"../../../\">/</a> <a href=\"../../\">a</a><span>/</span><a \
                \href=\"../\">&lt;b&gt;</a><span>/</span><b aria-current=\"page\">c</b>"
      page `holds` "<title>/a/&lt;b&gt;/c/</title>"
      top <- bodyOf "" [] (Listing [] Nothing [])
      Char8.unpack top `shouldNotContain` "../"
    it "counts the entries" $ do
      page <-
        bodyOf "" [] (Listing [] Nothing [ListedDirectory "d" Nothing, ListedFile "a" 1024 0, ListedFile "b" 1024 0])
      page `holds` "<p>1 directory, 2 files, <span title=\"2048 bytes\">2.0 KiB</span></p>"
    it "is valid UTF-8 and has no markup of names, whatever their bytes" $ do
      page <- bodyOf "" [] (Listing [everyByte] Nothing [ListedFile everyByte 1 0, ListedDirectory everyByte Nothing])
      said <-
        python3
          [ "import sys",
            "text = sys.stdin.buffer.read().decode()",
            "print(text.count('<a href=\"./'), text.count('<td>'), '\\ufffd' in text, text.count('<title>'))"
          ]
          page
      said `shouldBe` "2 9 True 1\n"
      linked page `shouldBe` ["./" <> encodedBytes <> "/", "./" <> encodedBytes]
    it "may load and run nothing but its own style" $ do
      (headers, page) <- answerTo "" [] (Listing [] Nothing [])
      digest <-
        python3
          [ "import base64, hashlib, sys",
            "style = sys.stdin.buffer.read().split(b'<style>')[1].split(b'</style>')[0]",
            "print(base64.b64encode(hashlib.sha256(style).digest()).decode(), end='')"
          ]
          page
      lookup "Content-Security-Policy" headers
        `shouldBe` Just
          ( "default-src 'none'; style-src 'sha256-"
              <> Char8.pack digest
              <> "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
          )
      mapM_ (Char8.unpack page `shouldNotContain`) ["http", "url(", "@import", "<script", " style=", " on"]

  describe "a listing as JSON" $ do
    it "has names, kinds, sizes and dates" $ do
      (headers, json) <-
        answerTo
          "?format=json"
          []
          ( Listing
              ["x"]
              Nothing
              [ListedFile "a" 12 784111777, ListedDirectory "d" (Just 0), ListedDirectory "e" Nothing]
          )
      map (`lookup` headers) [hContentType, hVary, hContentLength]
        `shouldBe` [Just "application/json", Just "Accept", Just (Char8.pack (show (ByteString.length json)))]
      said <- python3 ["import json, sys", "print(json.load(sys.stdin))"] json
      said
        `shouldBe` "[{'name': 'd', 'kind': 'directory', 'size': None, 'modified': '1970-01-01T00:00:00Z'}, \
                   \{'name': 'e', 'kind': 'directory', 'size': None, 'modified': None}, \
                   \{'name': 'a', 'kind': 'file', 'size': 12, 'modified': '1994-11-06T08:49:37Z'}]\n"
    it "is valid, whatever the bytes of names" $ do
      json <-
        bodyOf
          "?format=json"
          []
          (Listing [] Nothing [ListedFile everyByte 1 0, ListedFile "caf\195\169 \240\159\140\138" 1 0])
      said <-
        python3
          [ "import json, sys",
            "first, second = [entry['name'] for entry in json.loads(sys.stdin.buffer.read())]",
            "print(ascii(first[:34]), '\\ufffd' in first, ascii(second))"
          ]
          json
      said `shouldBe` "'" <> concatMap escapedByte [1 .. 31] <> " !\"' True 'caf\\xe9 \\U0001f30a'\n"
    it "is an empty array for an empty directory" $
      bodyOf "?format=json" [] (Listing [] Nothing []) `shouldReturn` "[]\n"
    it "says in its head that it was cut" $ do
      (headers, _) <- answerTo "?format=json" [] (Listing [] (Just 10000) [])
      lookup "Listing-Cut-At" headers `shouldBe` Just "10000"
      (others, _) <- answerTo "?format=json" [] (Listing [] Nothing [])
      lookup "Listing-Cut-At" others `shouldBe` Nothing
    it "is chosen by the query before the field Accept" $ do
      bodyOf "?format=json" [(hAccept, "text/html")] (Listing [] Nothing []) `shouldReturn` "[]\n"
      page <- bodyOf "?format=html" [(hAccept, "application/json")] (Listing [] Nothing [])
      page `holds` "<!DOCTYPE html>"
    it "is sorted as a page is" $ do
      json <-
        bodyOf
          "?sort=size"
          [(hAccept, "application/json")]
          (Listing [] Nothing [ListedFile "small" 1 0, ListedFile "large" 9 0])
      python3 ["import json, sys", "print([entry['name'] for entry in json.load(sys.stdin)])"] json
        `shouldReturn` "['large', 'small']\n"

  describe "JSON" $
    forM_
      [ ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/json;q=0.5, text/html;q=0.4", True),
        ("application/json, text/html", False),
        ("application/json;q=0, text/html;q=0", False),
        ("text/html, application/json;q=0.9", False),
        ("text/html;q=0.1, */*", True),
        ("application/*, text/html;q=0.9", True),
        ("application/json, text/plain, */*", True),
        ("*/*", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("application/json;q=high", False),
        ("", False),
        (",;,", False)
      ]
      $ \(value, expected) ->
        it ((if expected then "is" else "is not") <> " preferred by '" <> Char8.unpack value <> "'") $
          prefersJson [(hAccept, value)] `shouldBe` expected
  where
    everyByte = ByteString.pack [byte | byte <- [1 .. 255], byte /= 47]
    encodedBytes = Char8.concat ([encoded byte | byte <- [1 .. 255 :: Int], byte /= 47])
    encoded byte
      | Char8.elem (toEnum byte) "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~" =
        Char8.singleton (toEnum byte)
      | otherwise = Char8.pack ['%', digit (byte `div` 16), digit (byte `mod` 16)]
    digit value = "0123456789ABCDEF" !! value
    escapedByte :: Int -> String
    escapedByte byte = case byte of
      9 -> "\\t"
      10 -> "\\n"
      13 -> "\\r"
      _ -> "\\x" <> map lower [digit (byte `div` 16), digit (byte `mod` 16)]
    lower character = if character >= 'A' then toEnum (fromEnum character + 32) else character
    holds page text = Char8.unpack page `shouldContain` Char8.unpack text

-- | The targets of the links to entries, in their order.
linked :: ByteString -> [ByteString]
linked page = case ByteString.breakSubstring "href=\"./" page of
  (_, found)
    | ByteString.null found -> []
    | otherwise -> let rest = ByteString.drop 6 found in Char8.takeWhile (/= '"') rest : linked rest

bodyOf :: ByteString -> RequestHeaders -> Listing -> IO ByteString
bodyOf query headers listing = snd <$> answerTo query headers listing

answerTo :: ByteString -> RequestHeaders -> Listing -> IO (ResponseHeaders, ByteString)
answerTo query headers listing = do
  let response =
        listingResponse
          defaultRequest
            { rawQueryString =
                query,
              queryString = parseQuery query,
              requestHeaders = headers
            }
          listing
      (_, said, withBody) = responseToStream response
  pieces <- newIORef mempty
  withBody (\body -> body (\piece -> modifyIORef pieces (<> piece)) (pure ()))
  (,) said . Lazy.toStrict . toLazyByteString <$> readIORef pieces
