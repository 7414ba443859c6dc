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

-- | The chunk of an entry. Makes it if need be.
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

-- By half, so that a table of n chunks has been copied O(n) in all. Uninterruptible, because callers have an operation in
-- flight that nobody would wait for if an exception came now. It does not wait long: whoever holds the lock only
-- allocates. It may lose its turn at that, and many others come here meanwhile: they must find it done, or each of them
-- would make the table half as long again.
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
