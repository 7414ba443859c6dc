-- | A table that grows by chunks and never moves an entry, so that threads may read it while it grows.
module Millrace.Internal.ChunkedTable
  ( ChunkedTable,
    newChunkedTable,
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

data ChunkedTable chunk = ChunkedTable !(IORef (Array chunk)) !(MVar ()) !(IO chunk)

chunkBits :: Int
chunkBits = 8

-- | Entries per chunk.
chunkSize :: Int
chunkSize = 1 `shiftL` chunkBits

-- | Makes an empty table. The action makes a chunk.
newChunkedTable :: IO chunk -> IO (ChunkedTable chunk)
newChunkedTable newChunk = do
  chunks <- newIORef (arrayFromList [])
  lock <- newMVar ()
  return (ChunkedTable chunks lock newChunk)

-- | The chunk of an entry. Makes it if it does not exist.
chunkFor :: ChunkedTable chunk -> Int -> IO chunk
chunkFor table@(ChunkedTable ref _ _) entry = do
  chunks <- readIORef ref
  if wanted < sizeofArray chunks then return $! indexArray chunks wanted else grow table wanted
  where
    wanted = entry `unsafeShiftR` chunkBits
{-# INLINE chunkFor #-}

-- | The number of chunks.
chunkCount :: ChunkedTable chunk -> IO Int
chunkCount (ChunkedTable ref _ _) = sizeofArray <$> readIORef ref
{-# INLINE chunkCount #-}

-- | The position of an entry in its chunk.
within :: Int -> Int
within entry = entry .&. (chunkSize - 1)
{-# INLINE within #-}

-- Grows by half, so that growing to n chunks copies O(n) entries in all. Uninterruptible, because the caller has an
-- operation in flight, for which no thread would wait after an exception. The wait is short: a thread that holds the
-- lock only allocates. Many threads may queue for the lock meanwhile. Each must check again whether the table is long
-- enough, or each would make it half as long again.
grow :: ChunkedTable chunk -> Int -> IO chunk
grow (ChunkedTable ref lock newChunk) wanted = uninterruptibleMask_ $
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
