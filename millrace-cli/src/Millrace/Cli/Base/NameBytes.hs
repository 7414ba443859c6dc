-- | Names of files are bytes, and here they are texts. Must not know: servers.
--
-- Arguments, names of files and what a configuration says become texts as UTF-8, whatever the locale is: a service has
-- none. Bytes that are not UTF-8 become surrogates (U+DC80 to U+DCFF), of which the same bytes are made again. So each
-- name is the same file everywhere.
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

-- | Must be called once, before anything has read arguments or the environment, or opened a file.
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

-- | Does the letter stand for a byte that is no part of UTF-8?
isForeignByte :: Char -> Bool
isForeignByte letter = letter >= '\xDC80' && letter <= '\xDCFF'

-- | Reads a text that somebody has written, without the byte order mark that some editors put before it. Throws
-- 'IOException'. Blocks while the disk works.
readTextFile :: FilePath -> IO ByteString
readTextFile path = withoutMark <$> ByteString.readFile path
  where
    withoutMark content = fromMaybe content (ByteString.stripPrefix (ByteString.pack [0xef, 0xbb, 0xbf]) content)
