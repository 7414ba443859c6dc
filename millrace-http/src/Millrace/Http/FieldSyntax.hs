-- | The syntax of fields (RFC 9110, section 5.5 and 5.6): tokens, values and lists. Must not know: connections,
-- requests, responses.
module Millrace.Http.FieldSyntax (isToken, isFieldValue, harmless, membersMax, listMembers) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, castPtr)
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
