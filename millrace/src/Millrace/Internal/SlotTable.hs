-- | What a manager knows of each slot of its loop: where a thread parks for it, and what to run instead.
--
-- The table grows by chunks and never moves an entry, so that threads may read it while it grows. It knows nothing of
-- operations.
module Millrace.Internal.SlotTable
  ( SlotTable
  , Callback
  , newSlotTable
  , parkingPlace
  , setCallback
  , callbackAt
  ) where

import Control.Concurrent.MVar (MVar, newEmptyMVar, newMVar, withMVar)
import Control.Exception (uninterruptibleMask_)
import Control.Monad (replicateM)
import Data.Bits (shiftL, shiftR, (.&.))
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.Primitive.Array
  (Array, MutableArray, arrayFromList, indexArray, newArray, readArray, sizeofArray, writeArray)
import Control.Monad.Primitive (RealWorld)

-- | What a manager runs when an operation ends, given its result. It must not block and must not throw.
type Callback = Int64 -> IO ()

data Chunk = Chunk !(Array (MVar Int64)) !(MutableArray RealWorld Callback)

data SlotTable = SlotTable !(IORef (Array Chunk)) !(MVar ())

chunkBits :: Int
chunkBits = 8

newSlotTable :: IO SlotTable
newSlotTable = SlotTable <$> newIORef (arrayFromList []) <*> newMVar ()

newChunk :: IO Chunk
newChunk = do
  places <- replicateM size newEmptyMVar
  Chunk (arrayFromList places) <$> newArray size (const (return ()))
  where size = 1 `shiftL` chunkBits

chunkFor :: SlotTable -> Int -> IO Chunk
chunkFor table@(SlotTable ref _) slot = do
  chunks <- readIORef ref
  if wanted < sizeofArray chunks then return $! indexArray chunks wanted else grow table wanted
  where wanted = slot `shiftR` chunkBits
{-# INLINE chunkFor #-}

-- Uninterruptible, because callers have an operation in flight that nobody would wait for if an exception came now. It
-- does not wait long: whoever holds the lock only allocates.
grow :: SlotTable -> Int -> IO Chunk
grow (SlotTable ref lock) wanted = uninterruptibleMask_ $ withMVar lock $ \() -> do
  chunks <- readIORef ref
  fresh <- replicateM (wanted + 1 - sizeofArray chunks) newChunk
  let grown = arrayFromList (foldr (:) fresh chunks)
  writeIORef ref grown
  return $! indexArray grown wanted
{-# NOINLINE grow #-}

within :: Int -> Int
within slot = slot .&. (1 `shiftL` chunkBits - 1)

-- | Where the thread that owns the slot's operation takes its result. Empty whenever the slot is free.
parkingPlace :: SlotTable -> Int -> IO (MVar Int64)
parkingPlace table slot = do
  Chunk places _ <- chunkFor table slot
  return $! indexArray places (within slot)
{-# INLINE parkingPlace #-}

-- | To be set between reserving a slot and starting its operation. It stays until the slot is used again.
setCallback :: SlotTable -> Int -> Callback -> IO ()
setCallback table slot callback = do
  Chunk _ callbacks <- chunkFor table slot
  writeArray callbacks (within slot) callback

callbackAt :: SlotTable -> Int -> IO Callback
callbackAt table slot = do
  Chunk _ callbacks <- chunkFor table slot
  readArray callbacks (within slot)
