-- | An endless stream of bytes in which every mistake shows: bytes that are lost, repeated or exchanged.
module TestSupport.ByteStream
  ( bytesAt,
    checkFrom,
    receiveExactlyBy,
    receiveAllBy,
    receiveCountBy,
    receiveUntilBy,
  )
where

import Control.Monad (when)
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Word (Word64)

period :: Int
period = 65521

-- A prime number of bytes without regularity, twice, so that a slice of it can begin anywhere.
twoPeriods :: ByteString
twoPeriods = once <> once
  where
    once =
      fst (ByteString.unfoldrN period (\x -> Just (fromIntegral (x `shiftR` 33), x * 6364136223846793005 + 1)) seed)
    seed = 42 :: Word64
{-# NOINLINE twoPeriods #-}

-- | The bytes of the stream that begin at a position. The second number is their count.
bytesAt :: Int -> Int -> ByteString
bytesAt position count
  | count <= period = ByteString.take count (ByteString.drop (position `mod` period) twoPeriods)
  | otherwise = ByteString.concat (go position count)
  where
    go from left
      | left <= 0 = []
      | otherwise = bytesAt from (min left period) : go (from + period) (left - period)

-- | Fails unless these bytes belong at this position. Returns the position after them.
checkFrom :: Int -> ByteString -> IO Int
checkFrom position bytes
  | bytes == bytesAt position count = return $! position + count
  | otherwise = ioError (userError ("the stream is wrong within " ++ show count ++ " bytes from " ++ show position))
  where
    count = ByteString.length bytes

-- | Receives and checks a number of bytes from a position. Returns the position after them. The function receives at
-- most as many bytes as it is given, and none at the end.
receiveExactlyBy :: (Int -> IO ByteString) -> Int -> Int -> IO Int
receiveExactlyBy receive position count
  | count == 0 = return position
  | otherwise = do
    bytes <- receive (min count 65536)
    when (ByteString.null bytes) $ ioError (userError ("the stream ended at " ++ show position))
    next <- checkFrom position bytes
    receiveExactlyBy receive next (count - ByteString.length bytes)

-- | Receives everything until the end, which is an empty piece.
receiveAllBy :: IO ByteString -> IO ByteString
receiveAllBy receive = ByteString.concat <$> go
  where
    go = receive >>= \bytes -> if ByteString.null bytes then return [] else (bytes :) <$> go

-- | Receives a number of bytes, or fewer at the end. The function receives at most as many bytes as it is given, and
-- none at the end.
receiveCountBy :: (Int -> IO ByteString) -> Int -> IO ByteString
receiveCountBy receive = fmap ByteString.concat . go
  where
    go left
      | left <= 0 = return []
      | otherwise = do
        bytes <- receive (min left 65536)
        if ByteString.null bytes then return [] else (bytes :) <$> go (left - ByteString.length bytes)

-- | Receives until these bytes have come, or until the end, which is an empty piece.
receiveUntilBy :: IO ByteString -> ByteString -> IO ByteString
receiveUntilBy receive awaited = go ByteString.empty
  where
    go earlier
      | awaited `ByteString.isInfixOf` earlier = return earlier
      | otherwise = receive >>= \bytes -> if ByteString.null bytes then return earlier else go (earlier <> bytes)
