{-# LANGUAGE OverloadedStrings #-}

-- | Addresses of sockets as text. Must not know: servers.
module Millrace.Cli.Address
  ( renderHost,
    addressUrl,
  )
where

import Data.Bits (shiftR)
import Data.ByteString.Builder
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.List (intersperse, maximumBy)
import Data.Ord (comparing)
import Data.Word (Word16)
import Network.Socket (SockAddr (..), hostAddress6ToTuple, hostAddressToTuple)

-- | The host of an address, without the port, as a log names its clients. An IPv4 address in the form of IPv6, as sockets for
-- both report it, is written as an IPv4 address. The host of a Unix socket is @unix@.
--
-- @since 0.1.0
renderHost :: SockAddr -> Builder
renderHost address = case address of
  SockAddrInet _ host -> case hostAddressToTuple host of
    (a, b, c, d) -> dotted [a, b, c, d]
  SockAddrInet6 _ _ host _ -> case hostAddress6ToTuple host of
    (0, 0, 0, 0, 0, 0xffff, high, low) -> dotted (concatMap bytesOfWord [high, low])
    (a, b, c, d, e, f, g, h) -> compressed [a, b, c, d, e, f, g, h]
  SockAddrUnix _ -> "unix"
  where
    dotted = separated '.' . map word8Dec
    bytesOfWord word = [fromIntegral (word `shiftR` 8), fromIntegral word]
    separated mark = foldr1 (\left right -> left <> char7 mark <> right)

-- RFC 5952: the longest run of at least two zeros is left out, and the first one of several that are equally long.
compressed :: [Word16] -> Builder
compressed groups = case longest of
  (start, count) | count >= 2 -> written (take start groups) <> "::" <> written (drop (start + count) groups)
  _ -> written groups
  where
    written = mconcat . intersperse (char7 ':') . map word16Hex
    longest = maximumBy (comparing snd <> flip (comparing fst)) [(start, zeros start) | start <- [0 .. length groups - 1]]
    zeros start = length (takeWhile (== 0) (drop start groups))

-- | The URL by which a browser finds the server at this address. A Unix socket has no URL: it is written @unix:PATH@, as nginx
-- does, or @unix:\@NAME@ if it is abstract.
--
-- >>> addressUrl (SockAddrInet 8080 (tupleToHostAddress (127, 0, 0, 1)))
-- "http://127.0.0.1:8080"
--
-- @since 0.1.0
addressUrl :: SockAddr -> String
addressUrl address = case address of
  SockAddrUnix ('\0' : name) -> "unix:@" <> name
  SockAddrUnix path -> "unix:" <> path
  SockAddrInet port _ -> "http://" <> host <> ":" <> show port
  SockAddrInet6 port _ _ _ -> "http://" <> (if ':' `elem` host then "[" <> host <> "]" else host) <> ":" <> show port
  where
    host = Lazy.unpack (toLazyByteString (renderHost address))
