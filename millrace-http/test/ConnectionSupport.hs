{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of connections share.
module ConnectionSupport
  ( path,
    streamsBody,
    patterned,
    chunked,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Network.HTTP.Types
import Network.Wai
import Numeric (showHex)

path :: Application
path request respond = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))

streamsBody :: Bool -> Application
streamsBody flushesFirst request respond = respond . responseStream status200 [] $ \write flush -> do
  when flushesFirst flush
  strictRequestBody request >>= write . lazyByteString

patterned :: Int -> ByteString
patterned size = B.take size (B.concat (replicate (size `div` 251 + 1) (B.pack [0 .. 250])))

chunked :: Int -> ByteString -> ByteString
chunked size body
  | B.null body = "0\r\n\r\n"
  | otherwise = B.concat [hex (B.length piece), "\r\n", piece, "\r\n", chunked size (B.drop size body)]
  where
    piece = B.take size body
    hex = C8.pack . flip showHex ""
