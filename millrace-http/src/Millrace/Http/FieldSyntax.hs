{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections, requests, responses.

-- | The syntax of fields (RFC 9110, section 5.5 and 5.6): tokens, values and lists.
module Millrace.Http.FieldSyntax
  ( isToken,
    isFieldValue,
    harmless,
    membersMax,
    listMembers,

    -- * The host of an address
    hostText,
  )
where

import Data.Array (Array, listArray, (!))
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as Unsafe
import Data.List (maximumBy)
import Data.Ord (comparing)
import Data.Word (Word16, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, castPtr)
import Network.Socket (SockAddr (..), hostAddress6ToTuple, hostAddressToTuple)
import Numeric (showHex)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | Whether these bytes are a token: the name of a field, a method, the name of a parameter. O(n).
--
-- >>> map isToken ["X-Name", "x name", ""]
-- [True,False,False]
isToken :: ByteString -> Bool
isToken = holds c_isToken

foreign import ccall unsafe "http_is_token"
  c_isToken :: Ptr Word8 -> CSize -> IO CInt

-- | Whether these bytes may be the value of a field: no control characters but the tabulator. O(n).
isFieldValue :: ByteString -> Bool
isFieldValue = holds c_isFieldValue

foreign import ccall unsafe "http_is_field_value"
  c_isFieldValue :: Ptr Word8 -> CSize -> IO CInt

holds :: (Ptr Word8 -> CSize -> IO CInt) -> ByteString -> Bool
holds question bytes =
  unsafeDupablePerformIO $
    Unsafe.unsafeUseAsCStringLen bytes (\(start, size) -> (/= 0) <$> question (castPtr start) (fromIntegral size))
{-# INLINE holds #-}

-- | Replaces every character that a field value may not contain by a space, so that the value cannot end its line.
-- @http_head.c@ does the same for the fields of responses. O(n).
harmless :: ByteString -> ByteString
harmless = Char8.map (\character -> if isAllowed character then character else ' ')
  where
    isAllowed character = character == '\t' || (character >= ' ' && character /= '\DEL')

-- | The most members of a list, with their parameters. No program is known to send a quarter of it. The other side
-- makes a list as long as a head may be, and what is done for each member would be done that often.
membersMax :: Int
membersMax = 128

-- | The members in all lines of a field, without the blanks around them. Empty members are left out. 'Nothing': there
-- are more than 'membersMax', those that are empty and parameters counted. Then nothing was done but to count commas
-- and semicolons.
--
-- >>> listMembers ["a, b;q=1", ",c"]
-- Just ["a","b;q=1","c"]
-- >>> import qualified Data.ByteString.Char8 as Char8
-- >>> listMembers [Char8.replicate 128 ',']
-- Nothing
listMembers :: [ByteString] -> Maybe [ByteString]
listMembers values
  | sum (map membersOf values) > membersMax = Nothing
  | otherwise = Just (filter (not . Char8.null) (map trim (concatMap (Char8.split ',') values)))
  where
    membersOf value = 1 + Char8.count ',' value + Char8.count ';' value
    trim = Char8.dropWhileEnd isBlank . Char8.dropWhile isBlank
    isBlank character = character == ' ' || character == '\t'

------------------------------------------------------------------------------------------------------------------------
-- The host of an address

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
