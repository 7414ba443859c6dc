{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The data that the C code of HTTP\/2 and HTTP\/3 gets for an answer, and its results.
module Millrace.Http.Multiplexed.Rows
  ( -- * Fields
    Rows (..),
    withRowsOf,
    readRows,

    -- * Answers
    ContentLength (..),
    announcedLength,
    FirstBytes (..),
    Extent (..),
    givenLengthAt,

    -- * Results
    WriteOutcome (..),
    ReadResult (..),

    -- * Events
    Event (..),

    -- * Pieces of a body
    Piece,
    newPiece,
    pieceBytes,
    freePiece,
    filePiece,
  )
where

#include "http_response_fields.h"
#include "http_body.h"

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.CaseInsensitive (foldedCase)
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt, CSize (..))
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Network.HTTP.Types (ResponseHeaders)

-- | Fields in memory, for C: a description, space for a result, and the rows. A row is the lengths of name and value,
-- 32 bits each, and their bytes.
newtype Rows = Rows (Ptr Word8)

-- How many bytes come before the rows.
rowsHead :: Int
rowsHead = #{size http_rows} + 8

-- | Where the C code stores the content-length that the fields give.
givenLengthAt :: Rows -> Ptr Int64
givenLengthAt (Rows memory) = memory `plusPtr` #{size http_rows}

-- Describes this many fields at this address, which are at another one and have this many bytes. The memory has
-- 'rowsHead' bytes.
putRows :: Ptr Word8 -> Ptr Word8 -> Int -> Int -> IO Rows
putRows memory rows size count = do
  #{poke http_rows, bytes} memory rows
  #{poke http_rows, length} memory (fromIntegral size :: CSize)
  #{poke http_rows, count} memory (fromIntegral count :: Word32)
  return (Rows memory)
{-# INLINE putRows #-}

-- | Writes fields to memory for the C code. There is space for this many bytes besides.
withRowsOf :: Int -> ResponseHeaders -> (Ptr Word8 -> Rows -> IO a) -> IO a
withRowsOf space fields use = do
  memory <- mallocPlainForeignPtrBytes (rowsHead + space + size)
  let start = unsafeForeignPtrToPtr memory
      first = start `plusPtr` (rowsHead + space)
  putAll first fields
  rows <- putRows start first size (length fields)
  result <- use (start `plusPtr` rowsHead) rows
  touchForeignPtr memory
  return result
  where
    size = sum [8 + B.length (foldedCase name) + B.length value | (name, value) <- fields]
    putAll _ [] = return ()
    putAll at ((name, value) : others) = do
      let lower = foldedCase name
      pokeByteOff at 0 (fromIntegral (B.length lower) :: Word32)
      pokeByteOff at 4 (fromIntegral (B.length value) :: Word32)
      put (at `plusPtr` 8) lower
      put (at `plusPtr` (8 + B.length lower)) value
      putAll (at `plusPtr` (8 + B.length lower + B.length value)) others
{-# INLINE withRowsOf #-}

put :: Ptr Word8 -> ByteString -> IO ()
put at bytes = BU.unsafeUseAsCStringLen bytes $ \(source, count) -> copyBytes at (castPtr source) count
{-# INLINE put #-}

-- | Names and values of rows that fill this many bytes.
readRows :: Ptr Word8 -> Int -> IO [(ByteString, ByteString)]
readRows memory size = go memory
  where
    end = memory `plusPtr` size
    go at
      | at >= end = return []
      | otherwise = do
        nameLength <- fromIntegral <$> (peekByteOff at 0 :: IO Word32)
        valueLength <- fromIntegral <$> (peekByteOff at 4 :: IO Word32)
        name <- B.packCStringLen (castPtr at `plusPtr` 8, nameLength)
        value <- B.packCStringLen (castPtr at `plusPtr` (8 + nameLength), valueLength)
        ((name, value) :) <$> go (at `plusPtr` (8 + nameLength + valueLength))

-- | The content-length of a response.
data ContentLength
  = Exactly !Int
  | -- | The length that the fields give.
    LengthAsGiven
  | NoLength

-- | A content-length as C expects it.
announcedLength :: ContentLength -> Int64
announcedLength size = case size of
  Exactly known -> fromIntegral known
  LengthAsGiven -> #{const HTTP_LENGTH_NONE}
  NoLength -> #{const HTTP_LENGTH_UNKNOWN}
{-# INLINE announcedLength #-}

-- | The first bytes of a body: their address and number, and whether they are the whole body.
data FirstBytes = FirstBytes !(Ptr Word8) !Int !Extent

-- | Whether the first bytes are all.
data Extent = Whole | Beginning
  deriving (Eq)

-- | The result of a call.
data WriteOutcome
  = Done
  | -- | The writer has to wait before it continues.
    Full
  | -- | The stream is closed.
    Gone
  | -- | An error number of "Millrace.Http.Http1.Wire" for response heads.
    BadFields !CInt

-- | The result of reading.
data ReadResult
  = -- | This many bytes; 0 at the end.
    Bytes !Int
  | -- | None yet. The engine will give a notice.
    MustWait
  | Broken

-- | The event that a thread waits for.
data Event = Readable | Writable | Closed

------------------------------------------------------------------------------------------------------------------------
-- Pieces of a body

-- | A piece.
data Piece

foreign import ccall unsafe "http_new_piece"
  c_newPiece :: CSize -> IO (Ptr Piece)

-- | Memory for this many bytes, at most a mebibyte; @nullPtr@ if there is none. The engine must take it, or 'freePiece'
-- must follow.
newPiece :: Int -> IO (Ptr Piece)
newPiece = c_newPiece . fromIntegral

-- | Where the bytes belong.
foreign import ccall unsafe "http_piece_bytes"
  pieceBytes :: Ptr Piece -> IO (Ptr Word8)

-- | Frees a piece that the engine has not taken.
foreign import ccall unsafe "http_free_piece"
  freePiece :: Ptr Piece -> IO ()

-- | The size of the pieces in which files are read.
filePiece :: Int
filePiece = #{const HTTP_FILE_PIECE}
