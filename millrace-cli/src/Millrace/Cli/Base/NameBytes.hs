-- Must not know: servers.

-- | Converts names of files between bytes, as the system has them, and texts.
--
-- Arguments, names of files and texts of a configuration are decoded as UTF-8, whatever the locale is: a service has
-- none. Bytes that are not UTF-8 become surrogates (U+DC80 to U+DCFF), and are encoded as the same bytes again. So each
-- name means the same file everywhere.
module Millrace.Cli.Base.NameBytes
  ( useNamesAsBytes,
    nameBytes,
    isForeignByte,
    readTextFile,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (Builder, charUtf8, toLazyByteString, word8)
import Data.ByteString.Lazy (toStrict)
import Data.Maybe (fromMaybe)
import GHC.IO.Encoding (mkTextEncoding, setFileSystemEncoding)

-- | Sets the encoding of file names. Must be called once, before anything has read arguments or the environment, or
-- opened a file.
useNamesAsBytes :: IO ()
useNamesAsBytes = mkTextEncoding "UTF-8//ROUNDTRIP" >>= setFileSystemEncoding

-- | The bytes of a name. O(length).
--
-- >>> nameBytes "r\246\xDCFF"
-- "r\195\182\255"
nameBytes :: String -> ByteString
nameBytes = toStrict . toLazyByteString . foldMap written
  where
    written :: Char -> Builder
    written letter
      | isForeignByte letter = word8 (fromIntegral (fromEnum letter))
      | otherwise = charUtf8 letter

-- | Whether the letter stands for a byte that is not valid in UTF-8.
isForeignByte :: Char -> Bool
isForeignByte letter = letter >= '\xDC80' && letter <= '\xDCFF'

-- | Reads a text that somebody has written, without the byte order mark that some editors put before it. Throws
-- 'IOException'. Blocks while the disk works.
readTextFile :: FilePath -> IO ByteString
readTextFile path = withoutMark <$> ByteString.readFile path
  where
    withoutMark content = fromMaybe content (ByteString.stripPrefix (ByteString.pack [0xef, 0xbb, 0xbf]) content)
