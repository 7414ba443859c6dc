{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files.

-- | Whether a client wants a page or JSON (RFC 9110 section 12.5.1). Pure.
module Millrace.Cli.Files.Accept
  ( acceptsHtml,
    prefersJson,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.CaseInsensitive (CI)
import qualified Data.CaseInsensitive as CI
import Data.List (find)
import Data.Maybe (fromMaybe, mapMaybe)
import Millrace.Cli.Files.ContentCoding (parseWeight)
import Millrace.Http.FieldSyntax (listMembers)
import Network.HTTP.Types (RequestHeaders)
import Network.HTTP.Types.Header (hAccept)

-- | Whether the client of a request accepts @text\/html@. The most specific range that it names decides. A client
-- without an Accept field accepts everything. Malformed elements are ignored, and so is a list that is too long
-- ('listMembers').
--
-- >>> let accept value = [("Accept", value)]
-- >>> map acceptsHtml [[], accept "text/html;q=0.8, */*", accept "text/html;q=0, */*", accept "image/png"]
-- [True,True,False,False]
acceptsHtml :: RequestHeaders -> Bool
acceptsHtml headers = hAccept `notElem` map fst headers || weight > 0
  where
    (weight, _) = preference headers html

-- | Whether the client prefers @application\/json@ to @text\/html@. Of two types with the same weight it prefers the
-- one that it names more exactly: a program that sends @application\/json, *\/*@ means JSON. If it prefers neither, the
-- answer is no.
--
-- >>> let accept value = [("Accept", value)]
-- >>> map prefersJson [accept "application/json", accept "text/html, application/json;q=0.9", accept "*/*"]
-- [True,False,False]
-- >>> prefersJson [("Accept", "application/json, text/plain, */*")]
-- True
prefersJson :: RequestHeaders -> Bool
prefersJson headers = preference headers ["application/json", "application/*", "*/*"] > preference headers html

-- The ranges that a type is in, the most specific first.
html :: [CI ByteString]
html = ["text/html", "text/*", "*/*"]

-- The weight that the client gives to a type with these ranges, in thousandths, and how specific the range is that has
-- it.
preference :: RequestHeaders -> [CI ByteString] -> (Int, Int)
preference headers ranges = case filter (not . null . snd) (zip [3, 2, 1] (map weightsOf ranges)) of
  (specificity, found) : _ | maximum found > 0 -> (maximum found, specificity)
  _ -> (0, 0)
  where
    weights = mapMaybe weighed (fromMaybe [] (listMembers [value | (name, value) <- headers, name == hAccept]))
    weightsOf range = [weight | (named, weight) <- weights, named == range]

-- A media range and its weight in thousandths. Other parameters, such as level=1, are ignored.
weighed :: ByteString -> Maybe (CI ByteString, Int)
weighed element = (,) (CI.mk range) <$> maybe (Just 1000) parseWeight (find isWeight parameters)
  where
    (range, parameters) = case map Char8.strip (Char8.split ';' element) of
      [] -> ("", [])
      first : others -> (first, others)
    isWeight parameter = CI.mk (Char8.take 2 parameter) == "q="
