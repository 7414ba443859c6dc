{-# LANGUAGE OverloadedStrings #-}

-- | What kind of content a file name promises. Must not know: files.
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

-- | The Content-Type of a file of this name: by its extension, in any case of letters. Text is declared to be UTF-8.
-- Unknown extensions are @application/octet-stream@. O(length * log (number of known extensions)).
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

-- | The content coding that a file of this name has by itself: its Content-Type is that of what it holds.
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

-- What mime-types 0.1.1.0 does not have, or has under a name that was replaced.
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
