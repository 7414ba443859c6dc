{-# LANGUAGE OverloadedStrings #-}

-- | Whether a client wants a page (RFC 9110 section 12.5.1). Pure. Must not know: files.
module Millrace.Cli.Accept
  ( acceptsHtml,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.CaseInsensitive (CI)
import qualified Data.CaseInsensitive as CI
import Data.Maybe (listToMaybe, mapMaybe)
import Millrace.Cli.ContentCoding (parseWeight)
import Network.HTTP.Types (RequestHeaders)
import Network.HTTP.Types.Header (hAccept)

-- | Does the client of a request accept @text\/html@? The most specific range that it names decides. A client without an Accept
-- field accepts everything. Malformed elements are ignored. O(length).
--
-- >>> map acceptsHtml [[], [("Accept", "text/html;q=0.8, */*")], [("Accept", "text/html;q=0, */*")], [("Accept", "image/png")]]
-- [True,True,False,False]
--
-- @since 0.1.0
acceptsHtml :: RequestHeaders -> Bool
acceptsHtml headers
  | null values = True
  | otherwise = maybe False (any (> 0)) (listToMaybe (filter (not . null) (map weightsOf ["text/html", "text/*", "*/*"])))
  where
    values = [value | (name, value) <- headers, name == hAccept]
    weights = concatMap (mapMaybe weighed . Char8.split ',') values
    weightsOf range = [weight | (named, weight) <- weights, named == range]

-- A media range and its weight in thousandths. Other parameters, such as level=1, are ignored.
weighed :: ByteString -> Maybe (CI ByteString, Int)
weighed element = (,) (CI.mk range) <$> maybe (Just 1000) parseWeight (listToMaybe (filter isWeight parameters))
  where
    (range, parameters) = case map Char8.strip (Char8.split ';' element) of
      [] -> ("", [])
      first : others -> (first, others)
    isWeight parameter = CI.mk (Char8.take 2 parameter) == "q="
