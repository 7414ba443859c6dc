-- Must not know: the clock.

-- | What was made a moment ago, by number, until it is 200 ms old.
module Keep (Kept, nothingKept, recall, keep, forget) where

import qualified Data.ByteString.Lazy as Lazy
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64)

-- | When all that is old was last removed, and the rest, with the time at which each becomes old. All times are in
-- nanoseconds.
data Kept = Kept !Word64 !(IntMap.IntMap (Word64, Lazy.ByteString))

nothingKept :: Kept
nothingKept = Kept 0 IntMap.empty

-- | With the time now, and the number.
recall :: Word64 -> Int -> Kept -> Maybe Lazy.ByteString
recall now number (Kept _ all') = case IntMap.lookup number all' of
  Just (end, bytes) | now < end -> Just bytes
  _ -> Nothing

keep :: Word64 -> Int -> Lazy.ByteString -> Kept -> Kept
keep now number bytes (Kept swept all')
  | now > swept + 5 * lifetime = Kept now (insert (IntMap.filter ((now <) . fst) all'))
  | otherwise = Kept swept (insert all')
  where
    insert = IntMap.insert number (now + lifetime, bytes)
    lifetime = 200000000

forget :: Int -> Kept -> Kept
forget number (Kept swept all') = Kept swept (IntMap.delete number all')
