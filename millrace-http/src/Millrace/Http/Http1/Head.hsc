-- Must not know: sockets, WAI.

-- |
-- Writes the head of a response, and the framing of its body, into the connection's output.
module Millrace.Http.Http1.Head
  ( -- * Heads
    Head,
    headSize,
    HeadText (..),
    Composition (..),
    FieldProblem (..),
    composeHeadAt,
    headNoRoom,
    headBadName,
    headBadCoding,
    headBadLength,
    headAt,
    headGivenLength,
    headSaysClose,

    -- * Framing
    Framing (..),
    ConnectionOption (..),
    putFraming,
    framingMax,
    chunkHeadLength,
    putChunkHead,
    putChunkSize,
  )
where

#include "http_head.h"

import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as BI
import Data.CaseInsensitive (original)
import Data.Int (Int64)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr, minusPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.ForeignPtr (touchForeignPtr)
import Millrace.Http.Field (Unboxed (..))
import Network.HTTP.Types (ResponseHeaders)

-- | A response head being written, @headSize@ bytes of memory.
data Head

-- | Bytes of a 'Head'.
headSize :: Int
headSize = #{size http_head}

-- | What a head contains besides its fields.
data HeadText = HeadText
  { headStatus :: !Int,
    headReason :: !ByteString,
    -- | The line of the field Server, CR LF included. If it is empty, no Server is sent, even if it is among the
    -- fields.
    headServerLine :: !ByteString
  }

-- | The result of composing a head.
data Composition
  = Complete
  | -- | The head does not fit.
    NoRoom
  | -- | The status is not from 100 to 999.
    BadStatus
  | -- | The field with this index cannot be sent.
    BadField !FieldProblem !Int

-- | Why a field cannot be sent.
data FieldProblem
  = -- | Its name is not a token.
    BadName
  | -- | It is a Transfer-Encoding other than chunked.
    BadCoding
  | -- | It is a Content-Length that is not a number, or that differs from an earlier one.
    BadLength

foreign import ccall unsafe "http_head_compose" c_compose :: Ptr Head -> IO CInt

-- | @composeHeadAt head at limit text fields@ writes the status line, the fields, Date and Server at @at@, by one call.
-- Nothing is written at or beyond @limit@. If evaluating a field throws, nothing was written that counts.
composeHeadAt :: Ptr Head -> Ptr Word8 -> Ptr Word8 -> HeadText -> ResponseHeaders -> IO Composition
composeHeadAt writer at limit (HeadText status reason serverLine) fields = tabulate 0 linesEnd fields
  where
    -- The table of fields lies at the end of the memory and grows downwards. The head grows towards it.
    linesEnd = limit `plusPtr` negate ((limit `minusPtr` nullPtr) .&. 7)
    tabulate :: Int -> Ptr Word8 -> ResponseHeaders -> IO Composition
    tabulate count line [] = compose count line
    tabulate count line ((name, value) : rest)
      | next < at = return NoRoom
      | otherwise = do
        #{poke http_head_line, name} next (startOf (original name))
        #{poke http_head_line, name_length} next (B.length (original name))
        #{poke http_head_line, value} next (startOf value)
        #{poke http_head_line, value_length} next (B.length value)
        tabulate (count + 1) next rest
      where
        next = line `plusPtr` negate #{size http_head_line}
    compose count lowest
      | lowest < at = return NoRoom
      | otherwise = do
        #{poke http_head, at} writer at
        #{poke http_head, limit} writer lowest
        #{poke http_head, reason} writer (startOf reason)
        #{poke http_head, reason_length} writer (B.length reason)
        #{poke http_head, lines_end} writer linesEnd
        #{poke http_head, line_count} writer count
        #{poke http_head, server_line} writer (startOf serverLine)
        #{poke http_head, server_line_length} writer (B.length serverLine)
        #{poke http_head, status} writer (fromIntegral status :: Word32)
        #{poke http_head, options} writer (if B.null serverLine then #{const HTTP_HEAD_DROP_SERVER} else 0 :: Word32)
        result <- c_compose writer
        touch reason
        touch serverLine
        touchFields fields
        composition writer result
{-# INLINE composeHeadAt #-}

composition :: Ptr Head -> CInt -> IO Composition
composition writer result = case result of
  #{const HTTP_HEAD_OK} -> return Complete
  #{const HTTP_HEAD_NO_ROOM} -> return NoRoom
  #{const HTTP_HEAD_BAD_STATUS} -> return BadStatus
  #{const HTTP_HEAD_BAD_NAME} -> failed BadName
  #{const HTTP_HEAD_BAD_CODING} -> failed BadCoding
  _ -> failed BadLength
  where
    failed problem = BadField problem . fromIntegral <$> (#{peek http_head, failed} writer :: IO Word32)

-- | Results of C's writers of heads, also of HTTP\/2's.
headNoRoom, headBadName, headBadCoding, headBadLength :: CInt
headNoRoom = #{const HTTP_HEAD_NO_ROOM}
headBadName = #{const HTTP_HEAD_BAD_NAME}
headBadCoding = #{const HTTP_HEAD_BAD_CODING}
headBadLength = #{const HTTP_HEAD_BAD_LENGTH}

-- The address is valid until 'touch'. All fields were evaluated when their addresses were taken, so what is touched is
-- what they were evaluated to.
startOf :: ByteString -> Ptr Word8
startOf bytes = case BI.toForeignPtr bytes of
  (memory, offset, _) -> unsafeForeignPtrToPtr memory `plusPtr` offset
{-# INLINE startOf #-}

touch :: ByteString -> IO ()
touch bytes = case BI.toForeignPtr bytes of
  (memory, _, _) -> touchForeignPtr memory
{-# INLINE touch #-}

touchFields :: ResponseHeaders -> IO ()
touchFields [] = return ()
touchFields ((name, value) : rest) = touch (original name) >> touch value >> touchFields rest

-- | Where the next byte goes.
headAt :: Ptr Head -> IO (Ptr Word8)
headAt = #{peek http_head, at}
{-# INLINE headAt #-}

-- | The Content-Length that was among the fields.
headGivenLength :: Ptr Head -> IO (Maybe Int)
headGivenLength writer = given <$> #{peek http_head, content_length} writer
  where
    given :: Int64 -> Maybe Int
    given count = if count < 0 then Nothing else Just (fromIntegral count)
{-# INLINE headGivenLength #-}

-- | Was @Connection: close@ among the fields?
headSaysClose :: Ptr Head -> IO Bool
headSaysClose writer = says <$> #{peek http_head, flags} writer
  where
    says :: Word32 -> Bool
    says flags = flags .&. #{const HTTP_HEAD_CLOSE} /= 0
{-# INLINE headSaysClose #-}

foreign import ccall unsafe "http_put_framing"
  c_putFraming :: Ptr Word8 -> CInt -> CInt -> Word64 -> IO CSize

-- | How the client recognises the end of a body.
data Framing
  = -- | By its length: Content-Length.
    Counted !Int
  | -- | By the last chunk.
    Chunked
  | -- | There is no body, or the end of the connection ends it.
    Unframed
  deriving (Eq)

instance Unboxed Framing where
  toWord (Counted count) = count
  toWord Chunked = -1
  toWord Unframed = -2
  {-# INLINE toWord #-}
  fromWord number
    | number >= 0 = Counted number
    | number == -1 = Chunked
    | otherwise = Unframed
  {-# INLINE fromWord #-}

-- | The content of the field Connection that the server adds.
data ConnectionOption = SayNothing | SayClose | SayKeepAlive

-- | @putFraming at option framing@ writes Connection, the framing and the empty line, at most 'framingMax' bytes, and
-- returns their number.
putFraming :: Ptr Word8 -> ConnectionOption -> Framing -> IO Int
putFraming at option framing = fromIntegral <$> c_putFraming at optionNumber framingNumber size
  where
    optionNumber = case option of
      SayNothing -> #{const HTTP_CONNECTION_UNSAID}
      SayClose -> #{const HTTP_CONNECTION_CLOSE}
      SayKeepAlive -> #{const HTTP_CONNECTION_KEEP_ALIVE}
    framingNumber = case framing of
      Counted _ -> #{const HTTP_FRAMING_LENGTH}
      Chunked -> #{const HTTP_FRAMING_CHUNKED}
      Unframed -> #{const HTTP_FRAMING_NONE}
    size = case framing of
      Counted count -> fromIntegral count
      _ -> 0
{-# INLINE putFraming #-}

-- | Most bytes that 'putFraming' writes.
framingMax :: Int
framingMax = #{const HTTP_FRAMING_MAX}

-- | Bytes that 'putChunkHead' writes.
chunkHeadLength :: Int
chunkHeadLength = #{const HTTP_CHUNK_HEAD_LENGTH}

foreign import ccall unsafe "http_put_chunk_head"
  c_putChunkHead :: Ptr Word8 -> Word32 -> IO ()

-- | The size line of a chunk of less than 1 MiB, of a fixed width.
putChunkHead :: Ptr Word8 -> Int -> IO ()
putChunkHead at = c_putChunkHead at . fromIntegral

foreign import ccall unsafe "http_put_chunk_size"
  c_putChunkSize :: Ptr Word8 -> Word64 -> IO CSize

-- | The size line of a chunk of any length; returns the number of bytes written, at most 18.
putChunkSize :: Ptr Word8 -> Int -> IO Int
putChunkSize at size = fromIntegral <$> c_putChunkSize at (fromIntegral size)
