{-# LANGUAGE OverloadedStrings #-}

-- | How the host of an address is written, wherever people or programs read it: in logs, and in the fields by which
-- proxies tell who the client is. Must not know: connections, requests.
module Millrace.Http.HostText (hostText) where

import Data.Array (Array, listArray, (!))
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.List (maximumBy)
import Data.Ord (comparing)
import Data.Word (Word16, Word8)
import Network.Socket (SockAddr (..), hostAddress6ToTuple, hostAddressToTuple)
import Numeric (showHex)

-- | The host of an address, without the port, the zone, and brackets. IPv6 is written as RFC 5952 says. An IPv4 address
-- in the form of IPv6 (@::ffff:192.0.2.1@), as sockets for both report it, is written as the IPv4 address, because it
-- is one: a client has the same name whatever the server listens on. 'Nothing' for a Unix socket.
--
-- >>> import Network.Socket (SockAddr (..), tupleToHostAddress6)
-- >>> hostText (SockAddrInet6 80 0 (tupleToHostAddress6 (0x2001, 0xdb8, 0, 0, 1, 0, 0, 1)) 0)
-- Just "2001:db8::1:0:0:1"
hostText :: SockAddr -> Maybe ByteString
hostText address = case address of
  SockAddrInet _ host -> case hostAddressToTuple host of
    (a, b, c, d) -> Just (dotted a b c d)
  SockAddrInet6 _ _ host _ -> case hostAddress6ToTuple host of
    (0, 0, 0, 0, 0, 0xffff, high, low) ->
      Just
        (dotted (fromIntegral (high `shiftR` 8)) (fromIntegral high) (fromIntegral (low `shiftR` 8)) (fromIntegral low))
    (a, b, c, d, e, f, g, h) -> Just (compressed [a, b, c, d, e, f, g, h])
  SockAddrUnix _ -> Nothing

dotted :: Word8 -> Word8 -> Word8 -> Word8 -> ByteString
dotted a b c d = B.concat [decimals ! a, ".", decimals ! b, ".", decimals ! c, ".", decimals ! d]

decimals :: Array Word8 ByteString
decimals = listArray (0, 255) [C8.pack (show number) | number <- [0 .. 255 :: Int]]
{-# NOINLINE decimals #-}

-- The longest run of at least two zeros is left out, and the first one of several that are equally long (RFC 5952,
-- section 4.2).
compressed :: [Word16] -> ByteString
compressed groups = case longest of
  (start, count) | count >= 2 -> B.concat [written (take start groups), "::", written (drop (start + count) groups)]
  _ -> written groups
  where
    written = B.intercalate ":" . map (\number -> C8.pack (showHex number ""))
    longest =
      maximumBy (comparing snd <> flip (comparing fst)) [(start, zeros start) | start <- [0 .. length groups - 1]]
    zeros start = length (takeWhile (== 0) (drop start groups))
