{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | The Host field of a request.
module Millrace.Cli.Base.HostField (nameOfHost) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8

-- | Removes the port from the value of a Host field. An IPv6 address stays in brackets. 'Nothing' if there is no name.
--
-- >>> map nameOfHost ["a.org:80", "[::1]:80", "[::1", ""]
-- [Just "a.org",Just "[::1]",Nothing,Nothing]
nameOfHost :: ByteString -> Maybe ByteString
nameOfHost host
  | Char8.null name = Nothing
  | otherwise = Just name
  where
    name = case Char8.uncons host of
      Just ('[', _) -> let (address, rest) = Char8.break (== ']') host in if Char8.null rest then "" else address <> "]"
      _ -> Char8.takeWhile (/= ':') host
