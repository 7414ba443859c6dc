{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files, servers.

-- | The different ways in which programs read the path of a request. Pure.
--
-- Behind a proxy is a program that reads the path once more, in its own way. Tomcat and others cut a part at its first
-- @;@ before anything else. Some take an encoded slash for a slash, decode twice, cut at an encoded @?@, or leave out
-- blanks and dots at the end of a part. So a rule for a path is safe only if all of these readings fall under it.
module Millrace.Cli.Files.Readings (readings) where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isHexDigit)
import qualified Data.Set as Set
import Network.HTTP.Types (urlDecode)

-- | The parts of a path in each reading. Empty parts do not count. First comes the one of RFC 3986, with encoded
-- slashes as slashes. 'Nothing' for a path that is refused: one with a part that is @.@ or @..@, a backslash
-- or a NUL in any reading, with a @%@ that encodes nothing, or encoded more than three times. A usual path has one
-- reading, and costs O(length).
--
-- >>> readings "/%61dmin//x"
-- Just [["admin","x"]]
-- >>> readings "/admin;v=1/x"
-- Just [["admin;v=1","x"],["admin","x"]]
-- >>> map readings ["/a/..;/admin", "/a/%2e%2E/b", "/a%5Cb", "/100%"]
-- [Nothing,Nothing,Nothing,Nothing]
readings :: ByteString -> Maybe [[ByteString]]
readings path
  | Char8.any (`elem` ("%;" :: String)) path = do
    guard (isDecodable path && decodings !! 3 == decodings !! 2)
    plainOnes (partsOf (slashed whole) : map partsOf (reachable [whole, decoded (map cut raw)]))
  | otherwise = plainOnes [partsOf raw]
  where
    raw = Char8.split '/' path
    whole = decoded raw
    decodings = iterate decoded whole

-- The readings, and those in which blanks and dots at the ends of parts are left out.
plainOnes :: [[ByteString]] -> Maybe [[ByteString]]
plainOnes found = different <$ guard (all (all isPlain) different)
  where
    different = distinct (found <> map (partsOf . map trimmed) found)
    isPlain part = part `notElem` [".", ".."] && Char8.all (\letter -> letter /= '\\' && letter /= '\0') part

distinct :: Ord a => [a] -> [a]
distinct = go Set.empty
  where
    go _ [] = []
    go seen (one : others)
      | one `Set.member` seen = go seen others
      | otherwise = one : go (Set.insert one seen) others

partsOf :: [ByteString] -> [ByteString]
partsOf = filter (not . ByteString.null)

-- The readings that result from decoding once more, separating at slashes, and cutting, in any order. Each of them
-- makes them shorter, or changes nothing.
reachable :: [[ByteString]] -> [[ByteString]]
reachable = go []
  where
    go seen [] = reverse seen
    go seen (one : others)
      | one `elem` seen = go seen others
      | otherwise = go (one : seen) (others <> [decoded one, slashed one, map cut one])

decoded, slashed :: [ByteString] -> [ByteString]
decoded = map (urlDecode False)
slashed = concatMap (Char8.split '/')

cut :: ByteString -> ByteString
cut = Char8.takeWhile (`notElem` (";?#" :: String))

-- Without blanks, dots and what Unicode calls blanks (U+0085, U+00A0) at the end. "." and ".." stay.
trimmed :: ByteString -> ByteString
trimmed part = if part `elem` [".", ".."] then part else go part
  where
    go left = case ByteString.unsnoc left of
      Just (before, byte)
        | byte <= 0x20 || byte == 0x2e || byte == 0x7f -> go before
        | byte == 0x85 || byte == 0xa0 -> withoutBlank left before (ByteString.unsnoc before)
      _ -> left
    withoutBlank left before beforeIt = case beforeIt of
      Just (start, 0xc2) -> go start
      Just (_, byte) | byte >= 0x80 -> left
      _ -> go before

isDecodable :: ByteString -> Bool
isDecodable path = all (ByteString.all isHex . ByteString.take 2) codes && all ((>= 2) . ByteString.length) codes
  where
    codes = drop 1 (Char8.split '%' path)
    isHex = isHexDigit . toEnum . fromIntegral
