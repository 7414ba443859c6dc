{-# LANGUAGE OverloadedStrings #-}

-- Must not know: connections.

-- | The syntax of header fields (RFC 9110, section 5), for requests and responses.
module Millrace.Proxy.Field
  ( optionsOf,
    tokensOf,
    names,
    joined,
    withoutBlanks,
    withoutNamed,
    OwnField (..),
    ownField,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import qualified Data.Set as Set
import Data.Word (Word8)
import Foreign.C.Types (CSize (..))
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Http.FieldSyntax (listMembers, membersMax)
import Network.HTTP.Types (Header)

-- | Removes blanks from both ends.
withoutBlanks :: ByteString -> ByteString
withoutBlanks = ByteString.dropWhileEnd isBlank . ByteString.dropWhile isBlank
  where
    isBlank byte = byte == 32 || byte == 9

-- | The members of the list that these values of a field make, in lower case. 'Nothing': the list is too long to be
-- read ('listMembers').
tokensOf :: [ByteString] -> Maybe [ByteString]
tokensOf values = case values of
  [] -> Just []
  [value] | value == "keep-alive" || value == "close" -> Just [value]
  _ -> map inLowerCase <$> listMembers values

-- | The members of the field Connection, in lower case. 'Left' if the list is too long to be read: it cannot be
-- ignored, because the fields that it names must not be passed on.
optionsOf :: [ByteString] -> Either String [ByteString]
optionsOf = maybe (Left ("Connection names more than " <> show membersMax <> " options")) Right . tokensOf

-- | Whether the list has this member, which is in lower case. A list that is too long has none.
names :: [ByteString] -> ByteString -> Bool
names values member = maybe False (member `elem`) (tokensOf values)

-- 'CI.foldCase' calls a function for each byte.
inLowerCase :: ByteString -> ByteString
inLowerCase bytes = Internal.unsafeCreate (ByteString.length bytes) $ \destination ->
  Unsafe.unsafeUseAsCStringLen bytes (\(start, size) -> c_foldCase destination (castPtr start) (fromIntegral size))

foreign import ccall unsafe "proxy_fold_case"
  c_foldCase :: Ptr Word8 -> Ptr Word8 -> CSize -> IO ()

-- | Joins the values of a field. A single one is not copied.
joined :: [ByteString] -> ByteString
joined [value] = value
joined values = ByteString.intercalate ", " values

-- | @withoutNamed options fields@: the fields without those that Connection names with its @options@, because they
-- concern the connection, too (RFC 9110, section 7.6.1).
withoutNamed :: [ByteString] -> [Header] -> [Header]
withoutNamed options fields
  | all (`elem` ["close", "keep-alive", "upgrade"]) options = fields
  | otherwise = filter ((`Set.notMember` named) . CI.foldedCase . fst) fields
  where
    named = Set.fromList options

-- | The name of a field that the proxy writes itself, ready for both versions of HTTP.
data OwnField = OwnField
  { -- | The bytes before the value in a head of HTTP\/1.1: the end of the previous line, the name, and the colon.
    ownLine :: !ByteString,
    -- | In lower case.
    ownName :: !ByteString
  }

-- | Make it once, not for each request.
ownField :: ByteString -> OwnField
ownField name = OwnField (ByteString.concat ["\r\n", name, ": "]) (CI.foldCase name)
