{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: loops, operations.

-- | Words that several threads change without a lock and without allocating: an @IORef@ would allocate a box for each
-- new value. For the packages of Millrace; other programs find the same in packages for atomic counters.
module Millrace.Internal.AtomicWord
  ( AtomicWords,
    newAtomicWords,
    AtomicWord (..),
    newAtomicWord,
    readWord,
    writeWord,
    compareAndSwap,
    fetchAdd,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray (MutableByteArray (..), newByteArray, readByteArray, setByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#, fetchAddIntArray#)
import GHC.IO (IO (..))

-- | An array of words.
type AtomicWords = MutableByteArray RealWorld

-- | Allocates words, which are all 0. O(count).
newAtomicWords :: Int -> IO AtomicWords
newAtomicWords count = do
  array <- newByteArray (8 * count)
  setByteArray array 0 count (0 :: Int)
  return array

-- | The word of an array that has this index.
data AtomicWord = AtomicWord !AtomicWords !Int

-- | Allocates a single word, which is 0.
newAtomicWord :: IO AtomicWord
newAtomicWord = (`AtomicWord` 0) <$> newAtomicWords 1

-- | The present value. No barrier.
readWord :: AtomicWord -> IO Int
readWord (AtomicWord array index) = readByteArray array index
{-# INLINE readWord #-}

-- | Sets the value. No barrier.
writeWord :: AtomicWord -> Int -> IO ()
writeWord (AtomicWord array index) = writeByteArray array index
{-# INLINE writeWord #-}

-- | @compareAndSwap word old new@ replaces the value if it is @old@, and returns whether it was. A full barrier.
compareAndSwap :: AtomicWord -> Int -> Int -> IO Bool
compareAndSwap (AtomicWord (MutableByteArray array) (I# index)) (I# old) (I# new) = IO $ \s ->
  case casIntArray# array index old new s of (# s', found #) -> (# s', I# found == I# old #)
{-# INLINE compareAndSwap #-}

-- | Adds a number, and returns the value before. A full barrier.
--
-- >>> word <- newAtomicWord
-- >>> fetchAdd word 3
-- 0
-- >>> compareAndSwap word 3 5
-- True
-- >>> readWord word
-- 5
fetchAdd :: AtomicWord -> Int -> IO Int
fetchAdd (AtomicWord (MutableByteArray array) (I# index)) (I# amount) = IO $ \s ->
  case fetchAddIntArray# array index amount s of (# s', before #) -> (# s', I# before #)
{-# INLINE fetchAdd #-}
