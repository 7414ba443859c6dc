-- Must not know: requests.

-- |
-- Dates in header fields (RFC 9110, section 5.6.7).
module Millrace.Http.Date (Seconds, currentSeconds, formatHttpDate, parseHttpDate) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Foreign.Ptr (castPtr)
import Millrace.Http.SystemCalls (currentSeconds, dateLength, readDate, writeDate)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | Seconds since 1970, leap seconds not counted.
type Seconds = Int64

-- | The form that is sent. Times before 1970 are sent as its beginning.
--
-- >>> formatHttpDate 784111777
-- "Sun, 06 Nov 1994 08:49:37 GMT"
formatHttpDate :: Seconds -> ByteString
formatHttpDate seconds = BI.unsafeCreate dateLength (writeDate (max 0 seconds))

-- | Reads all three forms that a recipient must accept. Two digits of a year are of the last such year that is not more
-- than 50 years ahead.
--
-- >>> parseHttpDate "Sunday, 06-Nov-94 08:49:37 GMT"
-- Just 784111777
parseHttpDate :: ByteString -> Maybe Seconds
parseHttpDate text =
  case unsafeDupablePerformIO (BU.unsafeUseAsCStringLen text (\(at, size) -> readDate (castPtr at) size)) of
    -1 -> Nothing
    seconds -> Just seconds
