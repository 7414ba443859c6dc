{-# LANGUAGE OverloadedStrings #-}

-- | What kind of content a file name promises. Knows nothing of file contents.
module Millrace.Cli.MediaType
  ( mediaType
  ) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
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

extensions :: MimeMap
extensions = Map.union newer defaultMimeMap

-- What mime-types 0.1.1.0 does not have, or has under a name that was replaced.
newer :: Map.Map Text ByteString
newer =
  Map.fromList
    [ ("js", "text/javascript") -- RFC 9239
    , ("mjs", "text/javascript")
    , ("avif", "image/avif")
    , ("jxl", "image/jxl")
    , ("map", "application/json")
    , ("webmanifest", "application/manifest+json")
    ]
