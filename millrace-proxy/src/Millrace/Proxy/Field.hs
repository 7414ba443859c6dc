{-# LANGUAGE OverloadedStrings #-}

-- | The syntax of header fields (RFC 9110, section 5), for requests and responses. Must not know: connections.
module Millrace.Proxy.Field
  ( parseFieldLine,
    isToken,
    isFieldText,
    tokensOf,
    withoutBlanks,
    withoutNamed,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import Data.Word (Word8)
import Network.HTTP.Types (Header)

-- | A field line without its end. A line that begins with a blank continues another one (obsolete folding), and is refused.
parseFieldLine :: ByteString -> Either String Header
parseFieldLine line = case ByteString.elemIndex 58 line of
  Nothing -> Left "a field line without a colon"
  Just index
    | not (isToken name) -> Left "the name of a field is not a token"
    | not (isFieldText value) -> Left "the value of a field has a control character"
    | otherwise -> Right (CI.mk name, value)
    where
      name = Unsafe.unsafeTake index line
      value = withoutBlanks (Unsafe.unsafeDrop (index + 1) line)

-- | Without blanks at its ends.
withoutBlanks :: ByteString -> ByteString
withoutBlanks = ByteString.dropWhileEnd isBlank . ByteString.dropWhile isBlank
  where
    isBlank byte = byte == 32 || byte == 9

-- | The members of a list, in lower case.
tokensOf :: ByteString -> [ByteString]
tokensOf = filter (not . ByteString.null) . map (CI.foldCase . withoutBlanks) . Char8.split ','

-- | Is it a token (RFC 9110, section 5.6.2)?
isToken :: ByteString -> Bool
isToken bytes = not (ByteString.null bytes) && ByteString.all isTokenByte bytes

isTokenByte :: Word8 -> Bool
isTokenByte byte
  | byte >= 97 && byte <= 122 = True
  | byte >= 65 && byte <= 90 = True
  | byte == 45 = True
  | byte >= 48 && byte <= 57 = True
  | otherwise = ByteString.elem byte "!#$%&'*+.^_`|~"

-- | May it be the value of a field (RFC 9110, section 5.5)?
isFieldText :: ByteString -> Bool
isFieldText = ByteString.all (\byte -> byte >= 32 && byte /= 127 || byte == 9)

-- | @withoutNamed options fields@: the fields without those that Connection names with its @options@, because they concern the
-- connection, too (RFC 9110, section 7.6.1).
withoutNamed :: [ByteString] -> [Header] -> [Header]
withoutNamed options fields
  | all (`elem` ["close", "keep-alive", "upgrade"]) options = fields
  | otherwise = filter ((`notElem` options) . CI.foldedCase . fst) fields
