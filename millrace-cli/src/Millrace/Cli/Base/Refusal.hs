{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files, servers.

-- | Answers that say no more than their status.
module Millrace.Cli.Base.Refusal
  ( refusal,
    asRefusal,
    noSniffing,
  )
where

import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as Char8
import Network.HTTP.Types
import Network.Wai (Response, responseBuilder, responseHeaders, responseStatus)

-- | Keeps browsers from guessing that an upload named .txt is a page with scripts.
noSniffing :: Header
noSniffing = ("X-Content-Type-Options", "nosniff")

-- | A short text that says the status: its number and its name. The fields are added.
refusal :: Status -> ResponseHeaders -> Response
refusal status headers = responseBuilder status (described <> headers) (byteString body)
  where
    described = [(hContentType, "text/plain; charset=utf-8"), noSniffing, (hContentLength, lengthOf body)]
    lengthOf = Char8.pack . show . ByteString.length
    body = Char8.pack (show (statusCode status)) <> " " <> statusMessage status <> "\n"

-- | The refusal with the status and the fields of a response, which may have another text.
asRefusal :: Response -> Response
asRefusal response = refusal (responseStatus response) (filter ((`notElem` described) . fst) (responseHeaders response))
  where
    described = [hContentType, hContentLength, fst noSniffing]
