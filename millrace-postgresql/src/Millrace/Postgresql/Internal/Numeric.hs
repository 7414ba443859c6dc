-- Must not know: sockets.

-- | The binary form of PostgreSQL's @numeric@: digits to the base 10,000.
module Millrace.Postgresql.Internal.Numeric (numericBytes, fromNumeric) where

import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Lazy as Lazy
import Data.Int (Int16)
import Data.Scientific (Scientific, base10Exponent, coefficient, normalize, scientific)
import Data.Word (Word16)

-- | Four 16-bit numbers (the count of digits, the power of 10,000 of the first one, the sign, how many decimal places
-- to show), and the digits. Nothing if the value has more digits before or behind the point than these numbers can
-- express, or the server accepts.
numericBytes :: Scientific -> Maybe ByteString
numericBytes value
  | any (> 32767) [count, weight] || weight < -32768 || places > 16383 = Nothing
  | otherwise =
    Just . Lazy.toStrict . Builder.toLazyByteString $
      foldMap (Builder.int16BE . fromIntegral) [count, weight, sign, places] <> foldMap Builder.int16BE digits
  where
    normal = normalize value
    -- The exponent becomes a multiple of four, so that each of these digits is one of the server's.
    power = base10Exponent normal `div` 4
    scaled = abs (coefficient normal) * 10 ^ (base10Exponent normal - 4 * power)
    digits = reverse (toDigits scaled)
    count = length digits
    weight = count - 1 + power
    sign = if coefficient normal < 0 then 0x4000 else 0 :: Int
    places = max 0 (negate (base10Exponent normal))
    toDigits 0 = []
    toDigits n = fromIntegral (n `mod` 10000) : toDigits (n `div` 10000)

-- | Nothing for infinities, for not-a-number, and for bytes that are not a @numeric@.
fromNumeric :: ByteString -> Maybe Scientific
fromNumeric bytes = case words16 bytes of
  count : weight : sign : _places : digits
    | length digits == fromIntegral count,
      all (< 10000) digits,
      sign == 0 || sign == 0x4000 ->
      let value = foldl (\sum' digit -> sum' * 10000 + fromIntegral digit) 0 digits :: Integer
          power = 4 * (fromIntegral (fromIntegral weight :: Int16) - fromIntegral count + 1)
       in Just (scientific (if sign == 0 then value else negate value) power)
  _ -> Nothing

words16 :: ByteString -> [Word16]
words16 bytes
  | ByteString.length bytes < 2 = []
  | otherwise =
    (fromIntegral (ByteString.index bytes 0) `shiftL` 8 .|. fromIntegral (ByteString.index bytes 1)) :
    words16 (ByteString.drop 2 bytes)
