{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: servers.

-- | The contents of a directory, as a page for people and as JSON for programs.
module Millrace.Cli.Files.Listing
  ( Listing (..),
    Listed (..),
    listingResponse,
    listed,
  )
where

import Control.Exception (try)
import Control.Monad (join)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Int (Int64)
import Data.List (find, intersperse, sortOn)
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Data.Time.Calendar (Day (..), toGregorian)
import Millrace.Cli.Base.Page (listingStyle)
import Millrace.Cli.Base.Refusal (noSniffing)
import Millrace.Cli.Base.RequestPath
import Millrace.Cli.Files.Accept (prefersJson)
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.Root
import Millrace.Http.Date (Seconds)
import Millrace.Http.JsonString (jsonString)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hVary)
import Network.Wai (Request, Response, queryString, requestHeaders, responseBuilder)
import System.IO.Error (isFullError, isPermissionError)

-- | A directory.
data Listing = Listing
  { -- | Its names below the root.
    listingNames :: [ByteString],
    -- | The number of names that were looked at, if there are more.
    listingCut :: Maybe Int,
    listingEntries :: [Listed]
  }

-- | A name in the directory.
data Listed
  = -- | With its time of change, if that is known.
    ListedDirectory ByteString (Maybe Seconds)
  | -- | With its size in bytes and its time of change.
    ListedFile ByteString Int64 Seconds
  deriving (Eq, Show)

-- | Answers with the directory, in the form and the order that the request asks for.
--
-- * The form is JSON for @?format=json@ and HTML for @?format=html@. Otherwise it is JSON if the request prefers
--   @application\/json@ to
--   @text\/html@ ('prefersJson').
-- * @?sort=name@, @size@ or @date@ chooses the order, with @&order=asc@ or @desc@. By default names ascend, and sizes
--   and dates
--   descend. Directories always come before files. Other words are ignored.
-- * In both forms, bytes of names that are not UTF-8 become U+FFFD. Links of the page are relative, and have the exact
--   bytes.
-- * JSON is an array of objects with @name@, @kind@ (@"file"@ or @"directory"@), @size@ (bytes, or null for a
--   directory) and @modified@
--   (RFC 3339, in UTC, or null).
-- * If only the first names were looked at, the page says how many, and the field @Listing-Cut-At@ does.
--
-- O(n log n).
listingResponse :: Request -> Listing -> Response
listingResponse request listing = responseBuilder ok200 headers (lazyByteString body)
  where
    (contentType, content) = case wantedForm request of
      AsJson -> ([(hContentType, "application/json")], renderJson (sorted order (listingEntries listing)))
      AsPage ->
        ([(hContentType, "text/html; charset=utf-8"), ("Content-Security-Policy", policy)], renderPage order listing)
    order = wantedOrder (queryString request)
    body = toLazyByteString content
    headers =
      contentType
        ++ [noSniffing, (hVary, "Accept"), (hContentLength, Char8.pack (show (Lazy.length body)))]
        ++ [("Listing-Cut-At", Char8.pack (show count)) | Just count <- [listingCut listing]]

-- The page loads nothing and runs nothing. The hash is that of the style sheet; a test compares them.
policy :: ByteString
policy =
  "default-src 'none'; style-src 'sha256-cfue5hEBkf2yHTKdjf5p7WMDt5j/HyZwctGm3wrKsNA='; base-uri 'none'; form-action \
  \'none'; frame-ancestors 'none'"

------------------------------------------------------------------------------------------------------------------------
-- What is wanted

data Form = AsPage | AsJson

wantedForm :: Request -> Form
wantedForm request = case lookup "format" (queryString request) of
  Just (Just "json") -> AsJson
  Just (Just "html") -> AsPage
  _ -> if prefersJson (requestHeaders request) then AsJson else AsPage

data Key = ByName | BySize | ByDate
  deriving (Eq)

data Direction = Ascending | Descending
  deriving (Eq)

data Order = Order Key Direction

wantedOrder :: Query -> Order
wantedOrder query = Order key direction
  where
    key = fromMaybe ByName (word "sort" >>= named keyWord [ByName, BySize, ByDate])
    direction = fromMaybe (usualDirection key) (word "order" >>= named directionWord [Ascending, Descending])
    word name = join (lookup name query)
    named wordOf choices wanted = find ((== wanted) . wordOf) choices

usualDirection :: Key -> Direction
usualDirection key = if key == ByName then Ascending else Descending

keyWord :: Key -> ByteString
keyWord key = case key of
  ByName -> "name"
  BySize -> "size"
  ByDate -> "date"

directionWord :: Direction -> ByteString
directionWord direction = case direction of
  Ascending -> "asc"
  Descending -> "desc"

-- Entries that are equal otherwise are in the order of their names.
sorted :: Order -> [Listed] -> [Listed]
sorted (Order key direction) = case direction of
  Ascending -> sortOn (\entry -> (isFile entry, criterion entry, nameOf entry))
  Descending
    | key == ByName -> sortOn (\entry -> (isFile entry, Down (nameOf entry)))
    | otherwise -> sortOn (\entry -> (isFile entry, Down (criterion entry), nameOf entry))
  where
    criterion entry = case key of
      ByName -> 0
      BySize -> sizeOf entry
      ByDate -> fromMaybe minBound (dateOf entry)

isFile :: Listed -> Bool
isFile entry = case entry of
  ListedFile {} -> True
  ListedDirectory {} -> False

nameOf :: Listed -> ByteString
nameOf entry = case entry of
  ListedDirectory name _ -> name
  ListedFile name _ _ -> name

sizeOf :: Listed -> Int64
sizeOf entry = case entry of
  ListedDirectory _ _ -> 0
  ListedFile _ size _ -> size

dateOf :: Listed -> Maybe Seconds
dateOf entry = case entry of
  ListedDirectory _ modified -> modified
  ListedFile _ _ modified -> Just modified

------------------------------------------------------------------------------------------------------------------------
-- JSON

renderJson :: [Listed] -> Builder
renderJson entries = "[" <> mconcat (intersperse "," (map object entries)) <> (if null entries then "]\n" else "\n]\n")
  where
    object entry =
      "\n  {\"name\": "
        <> jsonString (nameOf entry)
        <> kindAndSize entry
        <> ", \"modified\": "
        <> maybe "null" (quoted . timestamp) (dateOf entry)
        <> "}"
    kindAndSize entry = case entry of
      ListedDirectory _ _ -> ", \"kind\": \"directory\", \"size\": null"
      ListedFile _ size _ -> ", \"kind\": \"file\", \"size\": " <> int64Dec size
    quoted text = char7 '"' <> text <> char7 '"'

------------------------------------------------------------------------------------------------------------------------
-- The page

renderPage :: Order -> Listing -> Builder
renderPage order (Listing names cut entries) =
  "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
  \<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>"
    <> foldMap (\name -> "/" <> escape name) names
    <> "/</title><style>"
    <> byteString listingStyle
    <> "</style></head>\n<body>\n"
    <> breadcrumbs names
    <> "<main><table>\n<thead><tr>"
    <> foldMap (headerCell order) [ByName, BySize, ByDate]
    <> "</tr></thead>\n<tbody>\n"
    <> (if null names then mempty else row directoryStart "../" "../" mempty mempty)
    <> foldMap render (sorted order entries)
    <> "</tbody></table>\n<p>"
    <> summary entries
    <> foldMap andMore cut
    <> "</p></main>\n</body></html>\n"

-- A link to each directory on the way, and the name of this one.
breadcrumbs :: [ByteString] -> Builder
breadcrumbs names =
  "<nav aria-label=\"Directories\"><h1>"
    <> mconcat (zipWith crumb [length names, length names - 1 .. 0] ("" : names))
    <> "</h1></nav>\n"
  where
    crumb 0 name = "<b aria-current=\"page\">" <> shown name <> "</b>"
    crumb levels name =
      "<a href=\""
        <> mconcat (replicate levels "../")
        <> "\">"
        <> shown name
        <> "</a>"
        <> (if ByteString.null name then " " else "<span>/</span>")
    shown name = if ByteString.null name then "/" else escape name

-- A link that sorts. The link of the column by which the page is sorted turns the order round.
headerCell :: Order -> Key -> Builder
headerCell (Order current direction) key =
  "<th scope=\"col\""
    <> state
    <> "><a href=\"?sort="
    <> byteString (keyWord key)
    <> "&amp;order="
    <> byteString (directionWord next)
    <> "\">"
    <> label
    <> "</a></th>"
  where
    isCurrent = key == current
    next = if isCurrent then turned direction else usualDirection key
    state
      | not isCurrent = ""
      | direction == Ascending = " aria-sort=\"ascending\""
      | otherwise = " aria-sort=\"descending\""
    turned Ascending = Descending
    turned Descending = Ascending
    label = case key of
      ByName -> "Name"
      BySize -> "Size"
      ByDate -> "Changed (UTC)"

render :: Listed -> Builder
render entry = case entry of
  ListedDirectory name modified ->
    row directoryStart (link name <> char7 '/') (escape name <> char7 '/') mempty (foldMap time modified)
  ListedFile name size modified ->
    row "<tr><td><a href=\"" (link name) (escape name) (readableSize size) (time modified)
  where
    -- With "./", a name that has a colon is not taken for a scheme.
    link name = piece "./" <> byteString (encodeSegment name)

directoryStart :: ByteString
directoryStart = "<tr class=\"d\"><td><a href=\""

row :: ByteString -> Builder -> Builder -> Builder -> Builder -> Builder
row start target text size changed =
  piece start
    <> target
    <> piece "\">"
    <> text
    <> piece "</a></td><td>"
    <> size
    <> piece "</td><td>"
    <> changed
    <> piece "</td></tr>\n"

-- For what is in every row: a literal that is a Builder is composed character by character.
piece :: ByteString -> Builder
piece = byteString

summary :: [Listed] -> Builder
summary entries =
  counted "directory" "directories" (length directories)
    <> ", "
    <> counted "file" "files" (length files)
    <> ", "
    <> readableSize (sum (map sizeOf files))
  where
    (files, directories) = (filter isFile entries, filter (not . isFile) entries)

counted :: Builder -> Builder -> Int -> Builder
counted one many count = intDec count <> char7 ' ' <> (if count == 1 then one else many)

andMore :: Int -> Builder
andMore count =
  "<br>&hellip; and more: a page shows the first " <> intDec count <> " names that the file system returns."

-- With the exact number as a title.
readableSize :: Int64 -> Builder
readableSize size =
  piece "<span title=\""
    <> int64Dec size
    <> piece (if size == 1 then " byte\">" else " bytes\">")
    <> rounded
    <> piece "</span>"
  where
    rounded
      | size < 1024 = int64Dec size <> piece " B"
      | otherwise = inUnits 1024 [" KiB", " MiB", " GiB", " TiB", " PiB"]
    inUnits :: Integer -> [ByteString] -> Builder
    inUnits _ [] = int64Dec size <> piece " B"
    inUnits unit (name : larger)
      | tenths < 1000 = integerDec (tenths `div` 10) <> char7 '.' <> integerDec (tenths `mod` 10) <> piece name
      | whole < 1024 || null larger = integerDec whole <> piece name
      | otherwise = inUnits (1024 * unit) larger
      where
        tenths = (10 * toInteger size + unit `div` 2) `div` unit
        whole = (toInteger size + unit `div` 2) `div` unit

time :: Seconds -> Builder
time seconds =
  piece "<time datetime=\""
    <> timestampOn date seconds
    <> piece "\">"
    <> date
    <> char7 ' '
    <> clock seconds
    <> piece "</time>"
  where
    date = day seconds

-- The form of RFC 3339.
timestamp :: Seconds -> Builder
timestamp seconds = timestampOn (day seconds) seconds

timestampOn :: Builder -> Seconds -> Builder
timestampOn date seconds =
  date <> char7 'T' <> clock seconds <> char7 ':' <> two (fromIntegral (seconds `mod` 60)) <> char7 'Z'

-- Not formatTime, which would take longer than the rest of the page.
day :: Seconds -> Builder
day seconds = integerDec year <> char7 '-' <> two month <> char7 '-' <> two dayOfMonth
  where
    (year, month, dayOfMonth) =
      toGregorian (ModifiedJulianDay (40587 + toInteger (seconds `div` 86400))) -- 1970 began then

clock :: Seconds -> Builder
clock seconds = two (part 3600 24) <> char7 ':' <> two (part 60 60)
  where
    part unit most = fromIntegral (seconds `div` unit `mod` most)

two :: Int -> Builder
two number = digit (number `div` 10) <> digit (number `mod` 10)
  where
    digit value = word8 (48 + fromIntegral value)

-- As text of HTML in UTF-8.
escape :: ByteString -> Builder
escape text
  | Char8.all isPlain text = byteString text
  | otherwise = foldMap escapeCharacter (Char8.unpack (Text.encodeUtf8 (Text.decodeUtf8With Text.lenientDecode text)))
  where
    isPlain character =
      character < '\DEL'
        && character /= '&'
        && character /= '<'
        && character /= '>'
        && character /= '"'
        && character /= '\''
    escapeCharacter character = case character of
      '&' -> "&amp;"
      '<' -> "&lt;"
      '>' -> "&gt;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      _ -> char8 character

------------------------------------------------------------------------------------------------------------------------
-- Reading a directory

-- | The entries of a directory that would be served, and how many names were read if there are more.
listed :: Root -> [ByteString] -> FilePath -> IO (Either Problem (Maybe Int, [Listed]))
listed root names directory = do
  found <- try (directoryNames (listedMax + 1) directory)
  case found of
    Left exception -> pure (Left (problemOf exception))
    Right all' -> do
      let (kept, others) = splitAt listedMax all'
          cut = if null others then Nothing else Just listedMax
      fmap (cut,) <$> examineAll [] (filter isServable kept)
  where
    -- Not mapM: its stack would be walked at every park.
    examineAll known [] = pure (Right known)
    examineAll known (name : names') =
      examine name >>= either (pure . Left) (\entry -> examineAll (maybe known (: known) entry) names')
    examine name =
      glimpse directory name >>= \case
        DirectorySeen modified -> pure (Right (Just (ListedDirectory name (Just (seconds modified)))))
        FileSeen size modified -> pure (Right (Just (file name size modified)))
        NothingSeen -> pure (Right Nothing)
        MustBeLookedUp -> lookedUp name
    lookedUp name = withEntry root (names ++ [name]) $ \case
      Right (Directory found) -> Right . Just . ListedDirectory name . changed <$> glimpse found "."
      Right (File found) ->
        pure (Right (Just (file name (stateSize (openFileState found)) (stateModified (openFileState found)))))
      Left OutOfDescriptors -> pure (Left OutOfDescriptors)
      Left _ -> pure (Right Nothing)
    changed seen = case seen of
      DirectorySeen modified -> Just (seconds modified)
      _ -> Nothing
    file name size modified = ListedFile name size (seconds modified)
    seconds = (`div` 1000000000)
    problemOf exception
      | isPermissionError exception = Unreadable
      | isFullError exception = OutOfDescriptors
      | otherwise = Faulty exception

-- How many names are read at most. Nobody reads a longer page, and each name costs a look-up.
listedMax :: Int
listedMax = 10000
