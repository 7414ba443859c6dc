{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- | Numbers that many threads add to, without a lock and without allocating. Must not know: the rest of Millrace.
module Millrace.Cli.Tally
  ( Tally,
    newTally,
    add,
    amounts,
  )
where

import Control.Monad (void)
import GHC.Exts (Int (..), MutableByteArray#, RealWorld, fetchAddIntArray#, newByteArray#, setByteArray#, (*#))
import GHC.IO (IO (..))

-- | A row of numbers, counted from 0.
--
-- @since 0.1.0
data Tally = Tally !Int (MutableByteArray# RealWorld)

-- | A row of so many numbers, all 0.
--
-- @since 0.1.0
newTally :: Int -> IO Tally
newTally (I# count) = IO $ \state -> case newByteArray# bytes state of
  (# allocated, array #) -> case setByteArray# array 0# bytes 0# allocated of
    cleared -> (# cleared, Tally (I# count) array #)
  where
    bytes = count *# 8#

-- | Adds to the number at an index, which must exist. Atomic.
--
-- @since 0.1.0
add :: Tally -> Int -> Int -> IO ()
add tally index amount = void (exchange tally index amount)

-- Adds, and returns the number from before.
exchange :: Tally -> Int -> Int -> IO Int
exchange (Tally _ array) (I# index) (I# amount) = IO $ \state -> case fetchAddIntArray# array index amount state of
  (# done, before #) -> (# done, I# before #)

-- | All the numbers. Each is the value at some moment during the call.
--
-- @since 0.1.0
amounts :: Tally -> IO [Int]
amounts tally@(Tally count _) = mapM (\index -> exchange tally index 0) [0 .. count - 1]
