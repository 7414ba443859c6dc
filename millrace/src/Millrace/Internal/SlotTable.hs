{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | What a manager knows of each slot of its loop: where a thread parks for it, and what to run instead.
--
-- Must not know: operations.
module Millrace.Internal.SlotTable
  ( SlotTable,
    Callback,
    newSlotTable,
    parkingPlace,
    setCallback,
    takeCallback,
    fetchWaiters,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar)
import Control.Monad (replicateM, when)
import Control.Monad.Primitive (RealWorld)
import Data.Int (Int64)
import Data.Primitive.Array (Array, MutableArray (..), arrayFromList, indexArray, newArray, readArray, writeArray)
import Foreign.C.Types (CInt (..))
import GHC.Exts (MutableArray#)
import Millrace.Internal.Chunks

-- | What a manager runs when an operation ends, given its result. It must not block and must not throw.
type Callback = Int64 -> IO ()

data Slots = Slots !(Array (MVar Int64)) !(MutableArray RealWorld Callback)

-- With room for the places of one batch of completions.
data SlotTable = SlotTable {-# UNPACK #-} !(Chunks Slots) {-# UNPACK #-} !(MutableArray RealWorld (MVar Int64))

-- | For batches of at most so many completions.
newSlotTable :: Int -> IO SlotTable
newSlotTable batchMax = do
  noPlace <- newEmptyMVar
  SlotTable <$> newChunks newSlots <*> newArray batchMax noPlace

newSlots :: IO Slots
newSlots = do
  places <- replicateM chunkSize newEmptyMVar
  Slots (arrayFromList places) <$> newArray chunkSize noCallback

noCallback :: Callback
noCallback _ = return ()

-- | Where the thread that owns the slot's operation takes its result. Empty whenever the slot is free.
parkingPlace :: SlotTable -> Int -> IO (MVar Int64)
parkingPlace (SlotTable chunks _) slot = do
  Slots places _ <- chunkFor chunks slot
  return $! indexArray places (within slot)
{-# INLINE parkingPlace #-}

-- | To be set between reserving a slot and starting its operation.
setCallback :: SlotTable -> Int -> Callback -> IO ()
setCallback (SlotTable chunks _) slot callback = do
  Slots _ callbacks <- chunkFor chunks slot
  writeArray callbacks (within slot) callback

-- | To be taken before the slot is released. The table lets go of it.
takeCallback :: SlotTable -> Int -> IO Callback
takeCallback (SlotTable chunks _) slot = do
  Slots _ callbacks <- chunkFor chunks slot
  callback <- readArray callbacks (within slot)
  writeArray callbacks (within slot) noCallback
  return callback

-- | Asks for the memory that waking threads takes, for so many completions at once. The function tells the slot of each
-- by its number, or less than 0 if it has none. Slots are given out again before there are new ones: with a single chunk
-- few threads have ever waited, and what they need is in the cache.
fetchWaiters :: SlotTable -> Int -> (Int -> IO Int) -> IO ()
fetchWaiters table@(SlotTable chunks batch@(MutableArray places)) count slotOf = do
  chunksSoFar <- chunkCount chunks
  when (chunksSoFar > 1) $ gather 0 0 >>= c_fetchWaiters places . fromIntegral
  where
    gather i gathered
      | i >= count = return gathered
      | otherwise = do
        slot <- slotOf i
        if slot < 0
          then gather (i + 1) gathered
          else do
            parkingPlace table slot >>= writeArray batch gathered
            gather (i + 1) (gathered + 1 :: Int)
{-# INLINE fetchWaiters #-}

-- No collection comes between looking at an array and following what is in it.
foreign import ccall unsafe "mrh_fetch_waiters"
  c_fetchWaiters :: MutableArray# RealWorld (MVar Int64) -> CInt -> IO ()
