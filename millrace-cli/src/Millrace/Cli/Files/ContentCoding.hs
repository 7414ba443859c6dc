{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files.

-- | Chooses the content coding that a client prefers (RFC 9110 section 12.5.3).
module Millrace.Cli.Files.ContentCoding
  ( Coding (..),
    codings,
    preferredCoding,
    wantedCodings,
    parseWeight,
  )
where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.CaseInsensitive (CI)
import qualified Data.CaseInsensitive as CI
import Data.Char (isDigit)
import qualified Data.List as List
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import Millrace.Http.FieldSyntax (listMembers)
import Network.HTTP.Types (RequestHeaders)
import Network.HTTP.Types.Header (hAcceptEncoding)

-- | A coding, and the extension of files that have it.
data Coding = Coding
  { codingName :: ByteString,
    codingExtension :: ByteString
  }
  deriving (Eq, Ord, Show)

-- | The codings that are served. The one that usually gives the smallest files comes first.
codings :: [Coding]
codings = [Coding "br" ".br", Coding "zstd" ".zst", Coding "gzip" ".gz"]

-- | The best of these codings for a request, and the first of several with the same weight. 'Nothing' if the client
-- prefers content without a coding.
preferredCoding :: RequestHeaders -> [Coding] -> Maybe Coding
preferredCoding headers = listToMaybe . wantedCodings headers

-- | Selects the codings that a client accepts at least as gladly as content without a coding, the best first. Codings
-- with the same weight keep their order.
--
-- >>> map codingName (wantedCodings [("Accept-Encoding", "gzip;q=0.8, br, zstd;q=0")] codings)
-- ["br","gzip"]
wantedCodings :: RequestHeaders -> [Coding] -> [Coding]
wantedCodings headers available =
  map
    snd
    ( List.sortOn
        (negate . fst)
        [(weight, coding) | coding <- available, let weight = weightOfCoding coding, weight > 0, weight >= unencoded]
    )
  where
    weights = parseWeights [value | (name, value) <- headers, name == hAcceptEncoding]
    weightOfCoding coding = fromMaybe (weightOf "*" 0) (lookup (CI.mk (codingName coding)) weights)
    weightOf name absent = fromMaybe absent (lookup name weights)
    -- A client accepts content without a coding even if it does not name "identity", but prefers the codings that it
    -- names.
    unencoded = weightOf "identity" 0

-- Names, and weights in thousandths. Malformed elements are ignored. A list that is too long says nothing.
parseWeights :: [ByteString] -> [(CI ByteString, Int)]
parseWeights values = mapMaybe parseElement (fromMaybe [] (listMembers values))

parseElement :: ByteString -> Maybe (CI ByteString, Int)
parseElement element = do
  let (before, parameter) = Char8.splitAt (fromMaybe (Char8.length element) (Char8.elemIndex ';' element)) element
      name = trim before
  guard (not (Char8.null name) && Char8.length name <= longestName)
  (,) (canonical (CI.mk name))
    <$> if Char8.null parameter
      then Just 1000
      else parseWeight (trim (Char8.drop 1 parameter))

-- Longer names are those of no coding. They are left out before anything is done for each of their bytes.
longestName :: Int
longestName = 32

-- The old name of gzip (RFC 9110 section 8.4.1.3).
canonical :: CI ByteString -> CI ByteString
canonical name = if name == "x-gzip" then "gzip" else name

-- | The thousandths of a weight: @"q=" ( "0" [ "." 0*3DIGIT ] \/ "1" [ "." 0*3("0") ] )@ (RFC 9110 section 12.4.2).
-- 'Nothing' if it is malformed.
--
-- >>> map parseWeight ["q=0.5", "Q=1", "q=2"]
-- [Just 500,Just 1000,Nothing]
parseWeight :: ByteString -> Maybe Int
parseWeight text = do
  let (name, rest) = Char8.splitAt 2 text
      (whole, fraction) = Char8.splitAt 1 rest
      digits = Char8.drop 1 fraction
  guard (CI.mk name == "q=" && whole `elem` ["0", "1"] && Char8.take 1 fraction `elem` ["", "."])
  guard (Char8.length digits <= 3 && Char8.all isDigit digits)
  let weight = 1000 * number whole + number (Char8.take 3 (digits <> "000"))
  guard (weight <= 1000)
  Just weight
  where
    number = maybe 0 fst . Char8.readInt

trim :: ByteString -> ByteString
trim = Char8.dropWhileEnd isBlank . Char8.dropWhile isBlank
  where
    isBlank c = c == ' ' || c == '\t'
