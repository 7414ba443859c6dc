{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | The values of a statement's parameters. Import this module to make instances of 'Parameter' for your types; for all
-- else "Millrace.Postgresql" suffices.
--
-- >>> encodedSize (value (5 :: Int))
-- Just 8
module Millrace.Postgresql.Parameter
  ( Value (..),
    value,
    Parameter (..),
    Format (..),
    fixed,
    bytesOf,
    unsendable,
    Oid,
  )
where

import Control.Exception (throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int16, Int32, Int64)
import Data.Scientific (Scientific)
import Data.Text (Text)
import qualified Data.Text.Encoding as Text
import Data.Time
  ( Day,
    LocalTime (..),
    TimeOfDay,
    UTCTime (..),
    diffDays,
    diffTimeToPicoseconds,
    fromGregorian,
    timeOfDayToTime,
  )
import Data.Word (Word8, byteSwap16, byteSwap32, byteSwap64)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (Storable, poke, sizeOf)
import GHC.Float (castDoubleToWord64, castFloatToWord32)
import Millrace.Postgresql.Internal.Numeric
import Millrace.Postgresql.Internal.PostgresqlProblem (Unsendable (..))
import Millrace.Postgresql.Internal.TypeNumber

-- | A value as it is sent to the server.
data Value = Value
  { -- | The type; 0 if the server decides, by the parameter's position in the statement.
    encodedType :: !Oid,
    encodedFormat :: !Format,
    -- | The number of bytes; 'Nothing' stands for NULL.
    encodedSize :: !(Maybe Int),
    -- | Writes this many bytes.
    encodedPoke :: !(Ptr Word8 -> IO ())
  }

-- | How a value is written.
data Format
  = -- | As text, in the form that a statement has.
    AsText
  | -- | In the binary form of its type.
    AsBinary
  deriving (Eq, Show)

-- | Types that can be parameters.
class Parameter a where
  -- | The value as it is sent.
  encode :: a -> Value

  -- | The type of a NULL instead of it.
  typeOf :: proxy a -> Oid

-- | Makes a value for a parameter.
--
-- > query connection statement [value (10 :: Int), value "electronics"]
value :: Parameter a => a -> Value
value = encode
{-# INLINE value #-}

-- | Makes a value of a fixed size from a word that already has network byte order.
fixed :: Storable w => Oid -> w -> Value
fixed oid word = Value oid AsBinary (Just (sizeOf word)) (\memory -> poke (castPtr memory) word)
{-# INLINE fixed #-}

-- | Makes a value from bytes.
bytesOf :: Oid -> Format -> ByteString -> Value
bytesOf oid format bytes =
  Value oid format (Just (ByteString.length bytes)) $ \memory ->
    unsafeUseAsCStringLen bytes (\(from, size) -> copyBytes memory (castPtr from) size)

-- | Stands for a value that cannot be sent: a statement with it is not sent, and throws
-- 'Millrace.Postgresql.NotSendable' with this reason, for example @"is not a colour"@.
unsendable :: Oid -> Text -> Value
unsendable oid reason = Value oid AsBinary (Just 0) (const (throwIO (Unsendable reason)))

-- | 'Nothing' is NULL.
instance Parameter a => Parameter (Maybe a) where
  encode given = case given of
    Just inner -> encode inner
    Nothing -> Value (typeOf given) AsBinary Nothing (const (return ()))
  typeOf = typeOf . inside
    where
      inside :: proxy (Maybe b) -> Maybe b
      inside _ = Nothing

instance Parameter Bool where
  encode given = fixed oidBool (if given then 1 else 0 :: Word8)
  typeOf _ = oidBool

instance Parameter Int16 where
  encode = fixed oidInt2 . byteSwap16 . fromIntegral
  typeOf _ = oidInt2

instance Parameter Int32 where
  encode = fixed oidInt4 . byteSwap32 . fromIntegral
  typeOf _ = oidInt4

instance Parameter Int64 where
  encode = fixed oidInt8 . byteSwap64 . fromIntegral
  typeOf _ = oidInt8

-- | @bigint@. It can be compared with, and stored in, columns of all integer types.
instance Parameter Int where
  encode = fixed oidInt8 . byteSwap64 . fromIntegral
  typeOf _ = oidInt8

instance Parameter Float where
  encode = fixed oidFloat4 . byteSwap32 . castFloatToWord32
  typeOf _ = oidFloat4

instance Parameter Double where
  encode = fixed oidFloat8 . byteSwap64 . castDoubleToWord64
  typeOf _ = oidFloat8

-- | Of whatever type the statement needs there: text, or for instance a value of an enumeration.
instance Parameter Text where
  encode = bytesOf 0 AsText . Text.encodeUtf8
  typeOf _ = 0

-- | @bytea@.
instance Parameter ByteString where
  encode = bytesOf oidBytea AsBinary
  typeOf _ = oidBytea

instance Parameter Scientific where
  encode = maybe (unsendable oidNumeric "is outside the range of numeric") (bytesOf oidNumeric AsBinary) . numericBytes
  typeOf _ = oidNumeric

instance Parameter Day where
  encode day = case within (diffDays day epoch) of
    Just days -> fixed oidDate (byteSwap32 (fromIntegral (days :: Int32)))
    Nothing -> unsendable oidDate "is outside the range of date"
  typeOf _ = oidDate

instance Parameter TimeOfDay where
  encode time = fixed oidTime (byteSwap64 (fromIntegral (microsecondsOf time)))
  typeOf _ = oidTime

-- | @timestamp@, which has no time zone.
instance Parameter LocalTime where
  encode (LocalTime day time) = timestamp oidTimestamp day (microsecondsOf time)
  typeOf _ = oidTimestamp

-- | @timestamp with time zone@.
instance Parameter UTCTime where
  encode (UTCTime day time) = timestamp oidTimestamptz day (diffTimeToPicoseconds time `div` 1000000)
  typeOf _ = oidTimestamptz

microsecondsOf :: TimeOfDay -> Integer
microsecondsOf time = diffTimeToPicoseconds (timeOfDayToTime time) `div` 1000000

timestamp :: Oid -> Day -> Integer -> Value
timestamp oid day rest = case within (diffDays day epoch * 86400000000 + rest) of
  Just micros -> fixed oid (byteSwap64 (fromIntegral (micros :: Int64)))
  Nothing -> unsendable oid "is outside the range of timestamp"

-- The first and the last number of a type mean infinities.
within :: (Bounded n, Integral n) => Integer -> Maybe n
within number = if number > toInteger lowest && number < toInteger highest then Just result else Nothing
  where
    result = fromInteger number
    lowest = minBound `asTypeOf` result
    highest = maxBound `asTypeOf` result

-- PostgreSQL's.
epoch :: Day
epoch = fromGregorian 2000 1 1
