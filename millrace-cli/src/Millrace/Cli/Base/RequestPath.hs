{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files.

-- | Turns the path of a request into names below a directory. Pure.
--
-- A path is split at its slashes. Then each segment is percent-decoded once, and then it is checked. The order matters:
-- the names that are checked are exactly those that will be opened. An encoded slash is a character of a name, which no
-- file has, and not a separator.
--
-- A segment "." means nothing (RFC 3986 section 5.2.4) and is left out. The client should have left it out, but apt,
-- for example, asks for @\/repository\/.\/Packages@ when its source is @http:\/\/host\/repository .\/@. A segment ".."
-- is refused: it would remove the segment before it without looking that up, and that may be a link.
module Millrace.Cli.Base.RequestPath
  ( RequestPath (..),
    PathRefusal (..),
    parseRequestPath,
    isCanonical,
    isServable,
    encodeSegment,
    encodeBeyondAscii,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Word (Word8)

-- | Names below the root.
data RequestPath = RequestPath
  { -- | Plain names: not empty, without a leading dot (except @.well-known@), without slashes and NULs.
    pathSegments :: [ByteString],
    -- | Whether the path ended in a slash.
    pathIsDirectory :: Bool
  }
  deriving (Eq, Show)

-- | The reason why a path names no file.
data PathRefusal
  = -- | Not a path, a broken percent-encoding, or a NUL: 400.
    Malformed
  | -- | A name that is never served: 404.
    Unservable
  deriving (Eq, Show)

-- | Splits the path of a request target (without its query) into names.
--
-- It refuses names that begin with a dot, except @.well-known@ (RFC 8615), and so @..@ segments. It also refuses empty
-- segments, and backslashes, which some clients and systems take for slashes.
--
-- >>> parseRequestPath "/./a%20b/"
-- Right (RequestPath {pathSegments = ["a b"], pathIsDirectory = True})
parseRequestPath :: ByteString -> Either PathRefusal RequestPath
parseRequestPath target = case Char8.split '/' target of
  "" : encoded@(_ : _) -> do
    names <- traverse decodeSegment encoded
    let isDirectory = last names `elem` ["", "."]
        segments = filter (/= ".") (if isDirectory then init names else names)
    if all isServable segments then Right (RequestPath segments isDirectory) else Left Unservable
  _ -> Left Malformed

-- | Whether this is the plain form of a path: nothing in it is encoded, and it has no segment ".". O(length).
isCanonical :: ByteString -> Bool
isCanonical path =
  Char8.notElem '%' path && not ("/./" `ByteString.isInfixOf` path) && not ("/." `ByteString.isSuffixOf` path)

-- | Whether files with this decoded name are served. O(length).
isServable :: ByteString -> Bool
isServable name = case Char8.uncons name of
  Nothing -> False
  Just ('.', _) -> name == ".well-known"
  Just _ -> Char8.all (\c -> c /= '/' && c /= '\\') name

decodeSegment :: ByteString -> Either PathRefusal ByteString
decodeSegment encoded
  | Char8.elem '%' encoded = decode (ByteString.unpack encoded) >>= withoutNul . ByteString.pack
  | otherwise = withoutNul encoded
  where
    decode (0x25 : high : low : rest) = case (hexadecimal high, hexadecimal low) of
      (Just h, Just l) -> (h `shiftL` 4 .|. l :) <$> decode rest
      _ -> Left Malformed
    decode (0x25 : _) = Left Malformed
    decode (byte : rest) = (byte :) <$> decode rest
    decode [] = Right []
    withoutNul name
      | ByteString.elem 0 name = Left Malformed
      | otherwise = Right name

hexadecimal :: Word8 -> Maybe Word8
hexadecimal byte
  | byte >= 0x30 && byte <= 0x39 = Just (byte - 0x30)
  | byte >= 0x41 && byte <= 0x46 = Just (byte - 0x37)
  | byte >= 0x61 && byte <= 0x66 = Just (byte - 0x57)
  | otherwise = Nothing

-- | Encodes a path or a query for the field Location: some clients send bytes beyond ASCII, which must be encoded
-- there.
--
-- >>> encodeBeyondAscii "/%20\228"
-- "/%20%E4"
encodeBeyondAscii :: ByteString -> ByteString
encodeBeyondAscii text =
  if ByteString.all isAscii text
    then text
    else ByteString.concatMap (\byte -> if isAscii byte then ByteString.singleton byte else percent byte) text
  where
    isAscii byte = byte < 0x80

-- | Encodes a name as a segment of a URI: all characters except the unreserved ones of RFC 3986 section 2.3.
encodeSegment :: ByteString -> ByteString
encodeSegment name
  | ByteString.all isUnreserved name = name
  | otherwise = ByteString.concatMap encodeByte name
  where
    encodeByte byte = if isUnreserved byte then ByteString.singleton byte else percent byte
    isUnreserved byte =
      (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
        || byte `ByteString.elem` "-._~"

percent :: Word8 -> ByteString
percent byte = ByteString.pack [0x25, digit (byte `shiftR` 4), digit (byte .&. 15)]
  where
    digit value = if value < 10 then 0x30 + value else 0x37 + value
