-- | From one unit of time to the next smaller one.
module Millrace.Internal.Units
  ( thousandfold,
  )
where

-- | Milliseconds in microseconds, or microseconds in nanoseconds. Negative numbers give 0; too large ones give the maximum.
thousandfold :: Int -> Int
thousandfold = (* 1000) . max 0 . min (maxBound `quot` 1000)
{-# INLINE thousandfold #-}
