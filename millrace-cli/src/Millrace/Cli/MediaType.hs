{-# LANGUAGE OverloadedStrings #-}

-- | The type of a file's content, by its name. Must not know: files.
module Millrace.Cli.MediaType
  ( mediaType,
    ownCoding,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.CaseInsensitive as CI
import qualified Data.Map.Strict as Map
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Network.Mime (MimeMap, defaultMimeMap, defaultMimeType, mimeByExt)

-- | The Content-Type of a file with this name, by its extension, in upper or lower case. Text is declared as UTF-8. The type for
-- unknown extensions is @application/octet-stream@. O(length * log (number of known extensions)).
--
-- >>> mediaType "Index.HTML"
-- "text/html; charset=utf-8"
--
-- @since 0.1.0
mediaType :: ByteString -> ByteString
mediaType name
  | "text/" `ByteString.isPrefixOf` found = found <> "; charset=utf-8"
  | otherwise = found
  where
    found = mimeByExt extensions defaultMimeType (Text.toLower (Text.decodeUtf8With Text.lenientDecode name))

-- | The content coding that a file with this name always has. The Content-Type of such a file is that of the decoded content.
--
-- >>> ownCoding "logo.svgz"
-- Just "gzip"
--
-- @since 0.1.0
ownCoding :: ByteString -> Maybe ByteString
ownCoding name
  | CI.mk (ByteString.drop (ByteString.length name - 5) name) == ".svgz" = Just "gzip"
  | otherwise = Nothing

extensions :: MimeMap
extensions = Map.union newer defaultMimeMap

-- Types that mime-types 0.1.1.0 lacks, or has under a name that was replaced.
newer :: Map.Map Text ByteString
newer =
  Map.fromList
    [ ("js", "text/javascript"), -- RFC 9239
      ("mjs", "text/javascript"),
      ("avif", "image/avif"),
      ("jxl", "image/jxl"),
      ("map", "application/json"),
      ("webmanifest", "application/manifest+json"),
      ("apng", "image/apng"),
      ("heic", "image/heic"),
      ("heif", "image/heif"),
      ("cjs", "text/javascript"),
      ("geojson", "application/geo+json"),
      ("glb", "model/gltf-binary"),
      ("gltf", "model/gltf+json"),
      ("jsonld", "application/ld+json"),
      ("mpd", "application/dash+xml"),
      ("ndjson", "application/x-ndjson"),
      ("rs", "text/plain"), -- a source text, not application/rls-services+xml
      ("svgz", "image/svg+xml"), -- see 'ownCoding'
      ("toml", "application/toml"),
      ("ts", "video/mp2t"),
      ("yaml", "application/yaml"), -- RFC 9512
      ("yml", "application/yaml")
    ]
