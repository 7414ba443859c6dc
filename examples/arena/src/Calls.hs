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
import Data.ByteString.Builder.Prim (BoundedPrim, (>$<))
import Data.ByteString.Builder.Prim.Internal (boundedPrim)
import Data.Int (Int32)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (poke)
import Grpc
import Network.HTTP.Types (hContentType)
import Network.Wai

calls :: Application
calls request
  | rawPathInfo request == "/benchmark.BenchmarkService/GetSum" = unary getSum request
  | otherwise = grpc (`lookup` [("/benchmark.BenchmarkService/StreamSum", streamSum)]) request

isCall :: Request -> Bool
isCall request = maybe False ("application/grpc" `B.isPrefixOf`) (lookup hContentType (requestHeaders request))

getSum :: ByteString -> IO Messages
getSum message = do
  fields <- decoded message
  return (messagesOf encodedReply [field 1 fields + field 2 fields])

streamSum :: Call -> IO ()
streamSum call = do
  fields <- nextMessage call >>= maybe (throwIO (Status InvalidArgument "a message is missing")) decoded
  let reply :: Int -> Int32
      reply number = field 1 fields + field 2 fields + fromIntegral number
  sendMessages call (messagesOf (reply >$< encodedReply) [0 .. max 1 (fromIntegral (field 3 fields)) - 1])

-- Protocol buffers: each field begins with its number and its kind, 0 for a varint. A varint has seven bits in each
-- byte, the lowest first. A field that is 0 is left out.

field :: Word64 -> [(Word64, Word64)] -> Int32
field number = maybe 0 fromIntegral . lookup number

decoded :: ByteString -> IO [(Word64, Word64)]
decoded bytes
  | B.null bytes = return []
  | otherwise = case varint bytes of
    Just (tag, rest)
      | tag .&. 7 == 0,
        Just (value, others) <- varint rest ->
        ((tag `shiftR` 3, value) :) <$> decoded others
    _ -> throwIO (Status InvalidArgument "a message is malformed")

varint :: ByteString -> Maybe (Word64, ByteString)
varint bytes = case B.splitAt (B.length continued + 1) bytes of
  (own, rest) | B.length own == B.length continued + 1, B.length own <= 10 -> Just (B.foldr add 0 own, rest)
  _ -> Nothing
  where
    continued = B.takeWhile (`testBit` 7) bytes
    add byte value = value `shiftL` 7 .|. fromIntegral (byte .&. 0x7f)

-- At most a byte for the field and ten for the number.
encodedReply :: BoundedPrim Int32
encodedReply =
  boundedPrim 11 $ \result start ->
    if result == 0 then return start else poke start 0x08 >> write (fromIntegral result) (start `plusPtr` 1)
  where
    write :: Word64 -> Ptr Word8 -> IO (Ptr Word8)
    write bits at
      | bits < 0x80 = (at `plusPtr` 1) <$ poke at (fromIntegral bits)
      | otherwise = poke at (fromIntegral bits .|. 0x80) >> write (bits `shiftR` 7) (at `plusPtr` 1)
{-# INLINE encodedReply #-}
