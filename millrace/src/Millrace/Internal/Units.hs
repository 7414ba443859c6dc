-- | From one unit of time to the next smaller one.
module Millrace.Internal.Units
  ( thousandfold,
  )
where

-- | So many milliseconds in microseconds, so many microseconds in nanoseconds: none if negative, and no more than there can
-- be.
thousandfold :: Int -> Int
thousandfold = (* 1000) . max 0 . min (maxBound `quot` 1000)
{-# INLINE thousandfold #-}
