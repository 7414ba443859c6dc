{-# LANGUAGE OverloadedStrings #-}

-- | benchmark.BenchmarkService: a call of one answer, and one of many.
--
-- > service BenchmarkService {
-- >   rpc GetSum (SumRequest) returns (SumReply);
-- >   rpc StreamSum (StreamRequest) returns (stream SumReply);
-- > }
-- > message SumRequest { int32 a = 1; int32 b = 2; }
-- > message StreamRequest { int32 a = 1; int32 b = 2; int32 count = 3; }
-- > message SumReply { int32 result = 1; }
module Calls (calls, isCall) where

import Control.Exception (throwIO)
import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Int (Int32)
import Data.Word (Word64, Word8)
import Grpc
import Network.HTTP.Types (hContentType)
import Network.Wai

calls :: Application
calls request
  | rawPathInfo request == "/benchmark.BenchmarkService/GetSum" = unary getSum request
  | otherwise = grpc (`lookup` [("/benchmark.BenchmarkService/StreamSum", streamSum)]) request

isCall :: Request -> Bool
isCall request = maybe False ("application/grpc" `B.isPrefixOf`) (lookup hContentType (requestHeaders request))

getSum :: ByteString -> IO ByteString
getSum message = do
  fields <- decoded message
  return (reply (field 1 fields + field 2 fields))

streamSum :: Call -> IO ()
streamSum call = do
  fields <- nextMessage call >>= maybe (throwIO (Status InvalidArgument "a message is missing")) decoded
  let first = field 1 fields + field 2 fields
  sendMessages call (map (reply . (first +)) [0 .. max 1 (field 3 fields) - 1])

-- Protocol buffers: each field begins with its number and its kind, 0 for a varint. A varint has seven bits in each byte, the lowest
-- first. A field that is 0 is left out.

field :: Word64 -> [(Word64, Word64)] -> Int32
field number = maybe 0 fromIntegral . lookup number

decoded :: ByteString -> IO [(Word64, Word64)]
decoded bytes
  | B.null bytes = return []
  | otherwise = case varint bytes of
    Just (tag, rest) | tag .&. 7 == 0, Just (value, others) <- varint rest -> ((tag `shiftR` 3, value) :) <$> decoded others
    _ -> throwIO (Status InvalidArgument "a message is malformed")

varint :: ByteString -> Maybe (Word64, ByteString)
varint bytes = case B.splitAt (B.length continued + 1) bytes of
  (own, rest) | B.length own == B.length continued + 1, B.length own <= 10 -> Just (B.foldr add 0 own, rest)
  _ -> Nothing
  where
    continued = B.takeWhile (`testBit` 7) bytes
    add byte value = value `shiftL` 7 .|. fromIntegral (byte .&. 0x7f)

reply :: Int32 -> ByteString
reply result = if result == 0 then "" else B.pack (0x08 : written (fromIntegral result))
  where
    written :: Word64 -> [Word8]
    written bits
      | bits < 0x80 = [fromIntegral bits]
      | otherwise = (fromIntegral bits .|. 0x80) : written (bits `shiftR` 7)
