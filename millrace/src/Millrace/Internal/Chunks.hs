-- | A table that grows by chunks and never moves an entry, so that threads may read it while it grows.
module Millrace.Internal.Chunks
  ( Chunks,
    newChunks,
    chunkFor,
    chunkCount,
    chunkSize,
    within,
  )
where

import Control.Concurrent.MVar (MVar, newMVar, withMVar)
import Control.Exception (uninterruptibleMask_)
import Control.Monad (replicateM)
import Data.Bits (shiftL, unsafeShiftR, (.&.))
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.Primitive.Array (Array, arrayFromList, indexArray, sizeofArray)

data Chunks chunk = Chunks !(IORef (Array chunk)) !(MVar ()) !(IO chunk)

chunkBits :: Int
chunkBits = 8

-- | Entries per chunk.
chunkSize :: Int
chunkSize = 1 `shiftL` chunkBits

-- | An empty table, and how to make a chunk.
newChunks :: IO chunk -> IO (Chunks chunk)
newChunks newChunk = do
  chunks <- newIORef (arrayFromList [])
  lock <- newMVar ()
  return (Chunks chunks lock newChunk)

-- | The chunk of an entry. Makes it if it does not exist.
chunkFor :: Chunks chunk -> Int -> IO chunk
chunkFor table@(Chunks ref _ _) entry = do
  chunks <- readIORef ref
  if wanted < sizeofArray chunks then return $! indexArray chunks wanted else grow table wanted
  where
    wanted = entry `unsafeShiftR` chunkBits
{-# INLINE chunkFor #-}

-- | How many chunks there are.
chunkCount :: Chunks chunk -> IO Int
chunkCount (Chunks ref _ _) = sizeofArray <$> readIORef ref
{-# INLINE chunkCount #-}

-- | Where in its chunk an entry is.
within :: Int -> Int
within entry = entry .&. (chunkSize - 1)
{-# INLINE within #-}

-- Grows by half, so that growing to n chunks copies O(n) entries in all. Uninterruptible, because the caller has an
-- operation in flight, for which no thread would wait after an exception. The wait is short: a thread that holds the
-- lock only allocates. Many threads may queue for the lock meanwhile. Each must check again whether the table is long
-- enough, or each would make it half as long again.
grow :: Chunks chunk -> Int -> IO chunk
grow (Chunks ref lock newChunk) wanted = uninterruptibleMask_ $
  withMVar lock $ \() -> do
    chunks <- readIORef ref
    let count = sizeofArray chunks
    if wanted < count
      then return $! indexArray chunks wanted
      else do
        fresh <- replicateM (max (wanted + 1) (count + count `div` 2) - count) newChunk
        let grown = arrayFromList (foldr (:) fresh chunks)
        writeIORef ref grown
        return $! indexArray grown wanted
{-# NOINLINE grow #-}
