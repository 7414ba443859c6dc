{-# LANGUAGE OverloadedStrings #-}

-- | Answers that say no more than their status. Must not know: files, servers.
module Millrace.Cli.Base.Refusal
  ( refusal,
    noSniffing,
  )
where

import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as Char8
import Network.HTTP.Types
import Network.Wai (Response, responseBuilder)

-- | Keeps browsers from guessing that an upload named .txt is a page with scripts.
noSniffing :: Header
noSniffing = ("X-Content-Type-Options", "nosniff")

-- | A short text that says the status.
refusal :: Status -> ResponseHeaders -> Response
refusal status headers = responseBuilder status (described <> headers) (byteString body)
  where
    described = [(hContentType, "text/plain; charset=utf-8"), noSniffing, (hContentLength, lengthOf body)]
    lengthOf = Char8.pack . show . ByteString.length
    body = Char8.pack (show (statusCode status)) <> " " <> statusMessage status <> "\n"
