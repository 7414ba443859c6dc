-- |
-- The copy of a request's head that belongs to the request: a table of fields, and the text that they are slices of.
-- All protocols
-- make their requests of it. Must not know: connections, responses.
module Millrace.Http.HeadCopy (HeadCopy (..), slice, valueAt, fieldsOf, methodNumbered) where

import Data.Array (Array, listArray)
import Data.Array.Base (unsafeAt)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Internal as BI
import Data.CaseInsensitive (CI)
import qualified Data.CaseInsensitive as CI
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import GHC.ForeignPtr (touchForeignPtr)
import Millrace.Http.Http1.Wire
import Network.HTTP.Types (RequestHeaders)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | The copy of a head: its memory, where the text begins behind the table of fields, and the number of fields.
data HeadCopy = HeadCopy !(ForeignPtr Word8) !Int !Int

-- | A part of the text: its offset and length.
slice :: HeadCopy -> Int -> Int -> ByteString
slice (HeadCopy memory text _) offset = BI.fromForeignPtr memory (text + offset)
{-# INLINE slice #-}

-- | The value of the field with this index plus 1.
valueAt :: HeadCopy -> Int -> Maybe ByteString
valueAt _ 0 = Nothing
valueAt copy index = Just (snd (fieldAt copy (index - 1)))

-- | All fields. Names and values are made when they are looked at.
fieldsOf :: HeadCopy -> RequestHeaders
fieldsOf copy@(HeadCopy _ _ count) = go 0
  where
    go index
      | index == count = []
      | otherwise = fieldAt copy index : go (index + 1)

fieldAt :: HeadCopy -> Int -> (CI ByteString, ByteString)
fieldAt copy@(HeadCopy memory _ _) index = unsafeDupablePerformIO $ do
  let field = castPtr (unsafeForeignPtrToPtr memory) `plusPtr` (index * fieldSize) :: Ptr FieldLine
  number <- fieldName field
  (nameOffset, nameLength) <- fieldNameSlice field
  (valueOffset, valueLength) <- fieldValueSlice field
  touchForeignPtr memory
  let name = if number == 0 then CI.mk (slice copy nameOffset nameLength) else unsafeAt knownNames number
      value = slice copy valueOffset valueLength
  return (name, value)

-- The spelling and the folded form of each known name, made once.
knownNames :: Array Int (CI ByteString)
knownNames = listArray (0, nameCount - 1) [CI.mk (C8.pack (nameText number)) | number <- [0 .. nameCount - 1]]
{-# NOINLINE knownNames #-}

methods :: Array Int ByteString
methods = listArray (0, length methodNames) (C8.empty : map snd methodNames)
{-# NOINLINE methods #-}

-- | The method with this number.
methodNumbered :: Int -> ByteString
methodNumbered = unsafeAt methods
{-# INLINE methodNumbered #-}
