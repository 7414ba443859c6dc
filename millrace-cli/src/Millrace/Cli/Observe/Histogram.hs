-- Must not know: HTTP.

-- | Counts durations in buckets on a logarithmic scale, from 4 µs to 67 s, two for each doubling. Pure.
module Millrace.Cli.Observe.Histogram
  ( bucketCount,
    bucketOf,
    bucketEnds,
    percentile,
  )
where

import Data.Bits (countLeadingZeros, unsafeShiftR, (.&.))
import Data.Word (Word64)

-- | The number of buckets. The last one has no upper end.
bucketCount :: Int
bucketCount = 2 * (lastPower - firstPower) + 2

-- Of two, in microseconds.
firstPower, lastPower :: Int
firstPower = 2
lastPower = 26

-- | The upper ends of the other buckets in microseconds. A duration that is an upper end is in that bucket.
--
-- >>> take 6 bucketEnds
-- [4,6,8,12,16,24]
bucketEnds :: [Word64]
bucketEnds = concat [[2 ^ power, 3 * 2 ^ (power - 1)] | power <- [firstPower .. lastPower - 1]] ++ [2 ^ lastPower]

-- | The index of the bucket for a duration in nanoseconds. O(1), a few instructions.
--
-- >>> map bucketOf [0, 4000, 4001, 6000, 6001, maxBound]
-- [0,0,1,1,2,49]
bucketOf :: Word64 -> Int
bucketOf nanoseconds
  | nanoseconds <= 1000 * 2 ^ firstPower = 0
  | otherwise = min (bucketCount - 1) (2 * (power - firstPower) + 1 + upperHalf)
  where
    -- One less than the microseconds, rounded up: so that an end belongs to the bucket below it.
    below = (nanoseconds - 1) `quot` 1000
    power = 63 - countLeadingZeros below
    upperHalf = fromIntegral ((below `unsafeShiftR` (power - 1)) .&. 1)

-- | @percentile share counts@: the microseconds within which this share of what is counted was done, or 'Nothing' if
-- nothing is counted. The error is at most that of a bucket: within one, everything is taken to be spread evenly. A
-- duration in the last bucket counts as the beginning of that bucket. O(buckets).
--
-- >>> percentile 0.5 (replicate 49 0 ++ [1])
-- Just 67108864
percentile :: Double -> [Int] -> Maybe Word64
percentile share counts
  | total == 0 = Nothing
  | otherwise = go 0 (zip3 (0 : bucketEnds) (map Just bucketEnds ++ [Nothing]) counts)
  where
    total = sum counts
    wanted = share * fromIntegral total
    go :: Double -> [(Word64, Maybe Word64, Int)] -> Maybe Word64
    go _ [] = Nothing
    go before ((low, high, count) : others)
      | count > 0 && before + fromIntegral count >= wanted = Just (maybe low (within low) high)
      | otherwise = go (before + fromIntegral count) others
      where
        within from to = from + round (fromIntegral (to - from) * (wanted - before) / fromIntegral count)
