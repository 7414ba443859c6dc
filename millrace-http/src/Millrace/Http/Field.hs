{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- Must not know: connections, requests.

-- |
-- Records of unboxed words whose fields have types.
--
-- The state of a connection and of a request changes with every request. In an @IORef@ each change would allocate a box
-- and mark the reference for the collector, so the state is kept in words of plain memory. A 'Field' gives such a word
-- the type of its content. Everything here is inlined: reading a field is one load.
module Millrace.Http.Field
  ( Field (..),
    Record (..),
    Unboxed (..),
    readField,
    writeField,
    modifyField,

    -- * Records of words with names
    Words,
    newWords,
    named,
    atomicWord,
  )
where

import Data.Maybe (fromMaybe)
import Data.Primitive.ByteArray (readByteArray, writeByteArray)
import Foreign.Ptr (IntPtr (..), Ptr, intPtrToPtr, ptrToIntPtr)
import Millrace.Deadline (Deadline, deadlineFromNanoseconds, deadlineNanoseconds)
import Millrace.Internal.AtomicWord (AtomicWord (..), AtomicWords, newAtomicWords)

-- | A field of a record: a word with an @a@, at this offset in bytes.
newtype Field record a = Field Int

-- | Records that have words at offsets.
class Record record where
  readWord :: record -> Int -> IO Int
  writeWord :: record -> Int -> Int -> IO ()

-- | Values that fit into a word.
class Unboxed a where
  toWord :: a -> Int
  fromWord :: Int -> a

-- | The content of a field.
readField :: (Record record, Unboxed a) => record -> Field record a -> IO a
readField record (Field offset) = fromWord <$> readWord record offset
{-# INLINE readField #-}

-- | Writes a field.
writeField :: (Record record, Unboxed a) => record -> Field record a -> a -> IO ()
writeField record (Field offset) value = writeWord record offset (toWord value)
{-# INLINE writeField #-}

-- | Changes a field with a function. Not atomic.
modifyField :: (Record record, Unboxed a) => record -> Field record a -> (a -> a) -> IO ()
modifyField record field change = readField record field >>= writeField record field . change
{-# INLINE modifyField #-}

-- | A record in the heap. The constructors of @name@ name its words, in their order.
newtype Words name = Words AtomicWords

instance Record (Words name) where
  readWord (Words words') offset = readByteArray words' (offset `quot` wordSize)
  {-# INLINE readWord #-}
  writeWord (Words words') offset = writeByteArray words' (offset `quot` wordSize)
  {-# INLINE writeWord #-}

wordSize :: Int
wordSize = 8

-- | A record whose words are all 0.
newWords :: forall name. (Bounded name, Enum name) => IO (Words name)
newWords = Words <$> newAtomicWords (1 + fromEnum (maxBound :: name))
{-# INLINE newWords #-}

-- | The word with this name, as a field. The type of its content must be the same everywhere.
named :: Enum name => name -> Field (Words name) a
named name = Field (wordSize * fromEnum name)
{-# INLINE named #-}

-- | The word with this name, to be changed by several threads.
atomicWord :: Enum name => name -> Words name -> AtomicWord
atomicWord name (Words words') = AtomicWord words' (fromEnum name)
{-# INLINE atomicWord #-}

instance Unboxed Int where
  toWord = id
  {-# INLINE toWord #-}
  fromWord = id
  {-# INLINE fromWord #-}

instance Unboxed Bool where
  toWord value = if value then 1 else 0
  {-# INLINE toWord #-}
  fromWord = (/= 0)
  {-# INLINE fromWord #-}

instance Unboxed (Ptr a) where
  toWord address = let IntPtr number = ptrToIntPtr address in number
  {-# INLINE toWord #-}
  fromWord = intPtrToPtr . IntPtr
  {-# INLINE fromWord #-}

instance Unboxed Deadline where
  toWord = fromIntegral . deadlineNanoseconds
  {-# INLINE toWord #-}
  fromWord = deadlineFromNanoseconds . fromIntegral
  {-# INLINE fromWord #-}

-- | A count or an offset, which is never negative.
instance Unboxed (Maybe Int) where
  toWord = fromMaybe (-1)
  {-# INLINE toWord #-}
  fromWord number = if number < 0 then Nothing else Just number
  {-# INLINE fromWord #-}
