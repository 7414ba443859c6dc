{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files.

-- | Finds the type of a file's content by its name.
module Millrace.Cli.Files.MediaType
  ( mediaType,
    ownCoding,
    isCompressible,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Network.Mime (MimeMap, defaultMimeMap, defaultMimeType, mimeByExt)

-- | The Content-Type of a file with this name, by its extension, in upper or lower case. Text is declared as UTF-8. The
-- type for unknown extensions is @application/octet-stream@. O(length * log (number of known extensions)).
--
-- >>> mediaType "Index.HTML"
-- "text/html; charset=utf-8"
mediaType :: ByteString -> ByteString
mediaType name
  | "text/" `ByteString.isPrefixOf` found = found <> "; charset=utf-8"
  | otherwise = found
  where
    found = mimeByExt extensions defaultMimeType (Text.toLower (Text.decodeUtf8With Text.lenientDecode name))

-- | The content coding that a file with this name always has. The Content-Type of such a file is that of the decoded
-- content.
--
-- >>> ownCoding "logo.svgz"
-- Just "gzip"
ownCoding :: ByteString -> Maybe ByteString
ownCoding name
  | CI.mk (ByteString.drop (ByteString.length name - 5) name) == ".svgz" = Just "gzip"
  | otherwise = Nothing

-- | Whether content of this type becomes smaller when it is compressed. Images, sounds, videos, archives and most fonts
-- are compressed already. O(length + log (number of known types)).
--
-- >>> let types = ["text/html; charset=utf-8", "application/ld+json", "image/svg+xml", "image/png", "font/woff2"]
-- >>> map isCompressible types
-- [True,True,True,False,False]
isCompressible :: ByteString -> Bool
isCompressible contentType =
  "text/" `ByteString.isPrefixOf` name
    || "+json" `ByteString.isSuffixOf` name
    || "+xml" `ByteString.isSuffixOf` name
    || Set.member name compressible
  where
    name = Char8.takeWhile (/= ';') contentType

compressible :: Set.Set ByteString
compressible =
  Set.fromList
    [ "application/ecmascript",
      "application/javascript",
      "application/json",
      "application/postscript",
      "application/rtf",
      "application/toml",
      "application/vnd.ms-fontobject",
      "application/wasm",
      "application/x-javascript",
      "application/x-ndjson",
      "application/x-sh",
      "application/x-sql",
      "application/x-subrip",
      "application/x-tex",
      "application/xml",
      "application/xml-dtd",
      "application/yaml",
      "font/otf",
      "font/ttf",
      "image/bmp",
      "image/vnd.microsoft.icon",
      "image/x-icon",
      "model/gltf-binary"
    ]

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
