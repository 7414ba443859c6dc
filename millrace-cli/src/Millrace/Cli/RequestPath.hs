{-# LANGUAGE OverloadedStrings #-}

-- | From the path in a request to names below a directory. Pure: touches no file system.
--
-- A path is split at its slashes, then each segment is percent-decoded once, then checked. The order matters: what
-- is checked is exactly what will be opened, and an encoded slash is a character of a name (which no file has)
-- instead of a separator.
--
-- A segment "." means nothing (RFC 3986 section 5.2.4) and is left out: a client should have done that, but apt, for one,
-- asks for @\/repository\/.\/Packages@ when its source is @http:\/\/host\/repository .\/@. No name hides behind it. A segment ".." is
-- refused: what is before it would have to be forgotten unseen.
module Millrace.Cli.RequestPath
  ( RequestPath (..),
    Refusal (..),
    parseRequestPath,
    isCanonical,
    isServable,
    encodeSegment,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Word (Word8)

-- | Names below the root.
--
-- @since 0.1.0
data RequestPath = RequestPath
  { -- | each a plain name: not empty, no dot in front (but @.well-known@), no slash, no NUL
    pathSegments :: [ByteString],
    -- | it ended in a slash
    pathIsDirectory :: Bool
  }
  deriving (Eq, Show)

-- | Why a path names nothing.
--
-- @since 0.1.0
data Refusal
  = -- | no path at all, a broken percent-encoding, or a NUL: 400
    Malformed
  | -- | a name that is never served: 404
    Unservable
  deriving (Eq, Show)

-- | The names in the path of a request target (without its query).
--
-- Refused are names that begin with a dot except @.well-known@ (RFC 8615), and so @..@ segments; empty segments; and
-- backslashes, which some clients and systems take for slashes.
--
-- >>> parseRequestPath "/./a%20b/"
-- Right (RequestPath {pathSegments = ["a b"], pathIsDirectory = True})
--
-- @since 0.1.0
parseRequestPath :: ByteString -> Either Refusal RequestPath
parseRequestPath target = case Char8.split '/' target of
  "" : encoded@(_ : _) -> do
    names <- traverse decodeSegment encoded
    let isDirectory = last names `elem` ["", "."]
        segments = filter (/= ".") (if isDirectory then init names else names)
    if all isServable segments then Right (RequestPath segments isDirectory) else Left Unservable
  _ -> Left Malformed

-- | Whether no other path stands for the same names: nothing in it is encoded, and no segment means nothing. O(length).
--
-- @since 0.1.0
isCanonical :: ByteString -> Bool
isCanonical path = Char8.notElem '%' path && not ("/./" `ByteString.isInfixOf` path) && not ("/." `ByteString.isSuffixOf` path)

-- | Whether a decoded name is one that is served. O(length).
--
-- @since 0.1.0
isServable :: ByteString -> Bool
isServable name = case Char8.uncons name of
  Nothing -> False
  Just ('.', _) -> name == ".well-known"
  Just _ -> Char8.all (\c -> c /= '/' && c /= '\\') name

decodeSegment :: ByteString -> Either Refusal ByteString
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

-- | A name as a segment of a URI. Everything but the unreserved characters of RFC 3986 section 2.3 is encoded.
--
-- @since 0.1.0
encodeSegment :: ByteString -> ByteString
encodeSegment name
  | ByteString.all isUnreserved name = name
  | otherwise = ByteString.concatMap encodeByte name
  where
    encodeByte byte
      | isUnreserved byte = ByteString.singleton byte
      | otherwise = ByteString.pack [0x25, digit (byte `shiftR` 4), digit (byte .&. 15)]
    digit value = if value < 10 then 0x30 + value else 0x37 + value
    isUnreserved byte =
      (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
        || byte `ByteString.elem` "-._~"
