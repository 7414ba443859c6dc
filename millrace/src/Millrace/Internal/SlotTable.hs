{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- Must not know: operations.

-- | A table with an entry for each slot of a manager's loop: the variable at which a thread parks, or the callback to
-- run.
module Millrace.Internal.SlotTable
  ( SlotTable,
    Callback,
    newSlotTable,
    resultVariable,
    setCallback,
    takeCallback,
    fetchWaiters,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar)
import Control.Monad (replicateM, when)
import Control.Monad.Primitive (RealWorld)
import Data.Primitive.Array (Array, MutableArray (..), arrayFromList, indexArray, newArray, readArray, writeArray)
import Foreign.C.Types (CInt (..))
import GHC.Exts (MutableArray#)
import Millrace.Internal.ChunkedTable
import Millrace.Internal.CoreCalls (Value)

-- | What a manager runs when an operation ends, with its result. It must not block and must not throw.
type Callback = Value -> IO ()

data Slots = Slots !(Array (MVar Value)) !(MutableArray RealWorld Callback)

-- The array can hold the variables of one batch of completions.
data SlotTable = SlotTable {-# UNPACK #-} !(ChunkedTable Slots) {-# UNPACK #-} !(MutableArray RealWorld (MVar Value))

-- | Makes a table for batches of at most this many completions.
newSlotTable :: Int -> IO SlotTable
newSlotTable batchMax = do
  noSignal <- newEmptyMVar
  SlotTable <$> newChunkedTable newSlots <*> newArray batchMax noSignal

newSlots :: IO Slots
newSlots = do
  signals <- replicateM chunkSize newEmptyMVar
  Slots (arrayFromList signals) <$> newArray chunkSize noCallback

noCallback :: Callback
noCallback _ = return ()

-- | The variable from which the owner of the slot's operation takes the result. It is empty whenever the slot is free.
resultVariable :: SlotTable -> Int -> IO (MVar Value)
resultVariable (SlotTable chunks _) slot = do
  Slots signals _ <- chunkFor chunks slot
  return $! indexArray signals (within slot)
{-# INLINE resultVariable #-}

-- | Set it between reserving a slot and starting its operation.
setCallback :: SlotTable -> Int -> Callback -> IO ()
setCallback (SlotTable chunks _) slot callback = do
  Slots _ callbacks <- chunkFor chunks slot
  writeArray callbacks (within slot) callback

-- | Removes the callback from the table. Call it before the slot is released.
takeCallback :: SlotTable -> Int -> IO Callback
takeCallback (SlotTable chunks _) slot = do
  Slots _ callbacks <- chunkFor chunks slot
  callback <- readArray callbacks (within slot)
  writeArray callbacks (within slot) noCallback
  return callback

-- | Fetches the memory that is needed to wake threads into the cache, for a batch of completions at once. The function
-- returns the slot of each completion by its number, or 'Nothing' for a timer. Slots are reused before new ones are
-- made. So if there is only one chunk, few threads have ever waited at a time, and their memory is in the cache anyway.
fetchWaiters :: SlotTable -> Int -> (Int -> IO (Maybe Int)) -> IO ()
fetchWaiters table@(SlotTable chunks batch@(MutableArray signals)) count slotOf = do
  chunksSoFar <- chunkCount chunks
  when (chunksSoFar > 1) $ gather 0 0 >>= c_fetchWaiters signals . fromIntegral
  where
    gather i gathered
      | i >= count = return gathered
      | otherwise = do
        found <- slotOf i
        case found of
          Nothing -> gather (i + 1) gathered
          Just slot -> do
            resultVariable table slot >>= writeArray batch gathered
            gather (i + 1) (gathered + 1 :: Int)
{-# INLINE fetchWaiters #-}

-- No garbage collection can happen between reading the array and following its pointers.
foreign import ccall unsafe "mrh_prefetch_waiters"
  c_fetchWaiters :: MutableArray# RealWorld (MVar Value) -> CInt -> IO ()
