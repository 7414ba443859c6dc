{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- Must not know: the rest of Millrace.

-- | Numbers that many threads add to, without a lock and without allocating. Each capability has its row in separate
-- cache lines, so that processors do not take them from each other.
module Millrace.Cli.Observe.PerCpuCounter
  ( PerCpuCounter,
    newPerCpuCounter,
    Row,
    ownRow,
    addTo,
    add,
    amounts,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Monad (void)
import GHC.Exts (Int (..), isTrue#, myThreadId#, threadStatus#, (*#), (<#))
import GHC.IO (IO (..))
import Millrace.Internal.AtomicWord

-- | Numbers, counted from 0.
data PerCpuCounter = PerCpuCounter
  { counterCount :: !Int,
    counterRows :: !Int,
    -- | From one row to the next, in numbers.
    counterStride :: !Int,
    counterNumbers :: !AtomicWords
  }

-- | This many numbers, all 0.
newPerCpuCounter :: Int -> IO PerCpuCounter
newPerCpuCounter count = do
  rows <- getNumCapabilities
  -- Two cache lines at least are between the numbers of two rows: processors fetch them in pairs.
  let stride = (count + 31) `div` 16 * 16
  PerCpuCounter count rows stride <$> newAtomicWords (rows * stride)

-- | The row of the capability on which the thread runs. If the thread moves to another one, it can go on adding to this
-- row.
data Row = Row !Int !AtomicWords

-- | The row of this capability. Does not block.
ownRow :: PerCpuCounter -> IO Row
ownRow (PerCpuCounter _ (I# rows) (I# stride) numbers) = IO $ \state -> case myThreadId# state of
  (# known, thread #) -> case threadStatus# thread known of
    (# found, _, capability, _ #) ->
      -- There may be more capabilities than there were.
      (# found, Row (if isTrue# (capability <# rows) then I# (capability *# stride) else 0) numbers #)
{-# INLINE ownRow #-}

-- | Adds to the number at an index, which must exist. Atomic.
addTo :: Row -> Int -> Int -> IO ()
addTo (Row start numbers) index amount = void (fetchAdd (AtomicWord numbers (start + index)) amount)

-- | Adds to one number of the row of this capability. Atomic. For several numbers call 'ownRow' once.
add :: PerCpuCounter -> Int -> Int -> IO ()
add counter index amount = ownRow counter >>= \row -> addTo row index amount

-- | All the numbers. Each addition that ended before the call is in them. O(numbers * capabilities).
amounts :: PerCpuCounter -> IO [Int]
amounts counter =
  mapM
    (\index -> sum <$> mapM (\row -> at (row * counterStride counter + index)) [0 .. counterRows counter - 1])
    [0 .. counterCount counter - 1]
  where
    at index = readWord (AtomicWord (counterNumbers counter) index)
