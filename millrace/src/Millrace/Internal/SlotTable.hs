{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | What a manager knows of each slot of its loop: where a thread parks for it, and what to run instead.
--
-- It knows nothing of operations.
module Millrace.Internal.SlotTable
  ( SlotTable
  , Callback
  , newSlotTable
  , parkingPlace
  , setCallback
  , takeCallback
  , fetchWaiters
  ) where

import Control.Concurrent.MVar (MVar, newEmptyMVar)
import Control.Monad (replicateM, when)
import Control.Monad.Primitive (RealWorld)
import Data.Int (Int64)
import Data.Primitive.Array (Array (..), MutableArray, arrayFromList, indexArray, newArray, readArray, writeArray)
import Data.Word (Word32)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import GHC.Exts (Array#)

import Millrace.Internal.Chunks
import Millrace.Internal.Foreign (Completion)

-- | What a manager runs when an operation ends, given its result. It must not block and must not throw.
type Callback = Int64 -> IO ()

data Slots = Slots !(Array (MVar Int64)) !(MutableArray RealWorld Callback)

newtype SlotTable = SlotTable (Chunks Slots)

newSlotTable :: IO SlotTable
newSlotTable = SlotTable <$> newChunks newSlots

newSlots :: IO Slots
newSlots = do
  places <- replicateM chunkSize newEmptyMVar
  Slots (arrayFromList places) <$> newArray chunkSize noCallback

noCallback :: Callback
noCallback _ = return ()

-- | Where the thread that owns the slot's operation takes its result. Empty whenever the slot is free.
parkingPlace :: SlotTable -> Int -> IO (MVar Int64)
parkingPlace (SlotTable chunks) slot = do
  Slots places _ <- chunkFor chunks slot
  return $! indexArray places (within slot)
{-# INLINE parkingPlace #-}

-- | To be set between reserving a slot and starting its operation.
setCallback :: SlotTable -> Int -> Callback -> IO ()
setCallback (SlotTable chunks) slot callback = do
  Slots _ callbacks <- chunkFor chunks slot
  writeArray callbacks (within slot) callback

-- | To be taken before the slot is released. The table lets go of it.
takeCallback :: SlotTable -> Int -> IO Callback
takeCallback (SlotTable chunks) slot = do
  Slots _ callbacks <- chunkFor chunks slot
  callback <- readArray callbacks (within slot)
  writeArray callbacks (within slot) noCallback
  return callback

-- | Asks for the memory that waking the threads takes whose operations have completed, so many of them. Slots are given out
-- again before there are new ones: with a single chunk few threads have ever waited, and what they need is in the cache.
fetchWaiters :: SlotTable -> Ptr Completion -> Int -> IO ()
fetchWaiters (SlotTable chunks) completions count = do
  chunksSoFar <- chunkCount chunks
  when (chunksSoFar > 1) $ forChunks chunks $ \first (Slots (Array places) _) ->
    c_fetchWaiters places (fromIntegral first) (fromIntegral chunkSize) completions (fromIntegral count)

-- No collection comes between looking at an array and following what is in it.
foreign import ccall unsafe "mrh_fetch_waiters"
  c_fetchWaiters :: Array# (MVar Int64) -> Word32 -> Word32 -> Ptr Completion -> CInt -> IO ()
