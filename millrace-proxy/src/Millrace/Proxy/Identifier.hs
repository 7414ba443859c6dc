{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | Identifiers of requests, and of traces (W3C Trace Context).
module Millrace.Proxy.Identifier
  ( Identifiers,
    newIdentifiers,
    requestId,
    isRequestId,
    traceParent,
    isTraceParent,
    proxyIdentifier,
  )
where

import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import Data.IORef
import Data.Word (Word64, Word8, byteSwap64)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (pokeByteOff)
import GHC.ByteOrder (ByteOrder (LittleEndian), targetByteOrder)
import System.IO (IOMode (ReadMode), withBinaryFile)

-- | A source of identifiers. They are unique and reveal nothing about the machine, but they can be guessed.
data Identifiers = Identifiers
  { identifierFirst :: !Word64,
    identifierSecond :: !Word64,
    identifierCounter :: !(IORef Word64),
    -- | The identifier of the source itself. The others cannot be computed from it.
    identifierOwn :: !Word64
  }

newIdentifiers :: IO Identifiers
newIdentifiers = do
  random <- withBinaryFile "/dev/urandom" ReadMode (`ByteString.hGet` 32)
  let word at = ByteString.foldl' append 0 (ByteString.take 8 (ByteString.drop at random))
      append high byte = 256 * high + fromIntegral byte
  counter <- newIORef (word 16)
  return (Identifiers (word 0) (word 8) counter (word 24))

-- | The identifier of the source itself: 16 hexadecimal digits.
proxyIdentifier :: Identifiers -> ByteString
proxyIdentifier identifiers = Internal.unsafeCreate 16 (\destination -> pokeHex destination (identifierOwn identifiers))

next :: Identifiers -> IO Word64
next identifiers = atomicModifyIORef' (identifierCounter identifiers) (\count -> (count + 0x9e3779b97f4a7c15, count))

-- A mixture that has an inverse, so that different numbers stay different (the last steps of splitmix64).
mixed :: Word64 -> Word64
mixed number = third `xor` (third `shiftR` 31)
  where
    first = (number `xor` (number `shiftR` 30)) * 0xbf58476d1ce4e5b9
    third = (first `xor` (first `shiftR` 27)) * 0x94d049bb133111eb

-- | A new identifier of a request: 32 hexadecimal digits.
requestId :: Identifiers -> IO ByteString
requestId identifiers = do
  count <- next identifiers
  Internal.create 32 $ \destination -> do
    pokeHex destination (mixed (count `xor` identifierFirst identifiers))
    pokeHex (destination `plusPtr` 16) (mixed (count + identifierSecond identifiers))

-- | A new value of @traceparent@, without the flag that asks for recording.
traceParent :: Identifiers -> IO ByteString
traceParent identifiers = do
  count <- next identifiers
  Internal.create 55 $ \destination -> do
    pokeByteOff destination 0 (48 :: Word8)
    pokeByteOff destination 1 (48 :: Word8)
    pokeByteOff destination 2 (45 :: Word8)
    pokeHex (destination `plusPtr` 3) (mixed (count + identifierFirst identifiers))
    pokeHex (destination `plusPtr` 19) (mixed (count `xor` identifierSecond identifiers))
    pokeByteOff destination 35 (45 :: Word8)
    pokeHex (destination `plusPtr` 36) (max 1 (mixed count))
    pokeByteOff destination 52 (45 :: Word8)
    pokeByteOff destination 53 (48 :: Word8)
    pokeByteOff destination 54 (48 :: Word8)

-- 16 digits, eight at a time.
pokeHex :: Ptr Word8 -> Word64 -> IO ()
pokeHex destination word =
  pokeByteOff destination 0 (digits (word `shiftR` 32)) >> pokeByteOff destination 8 (digits (word .&. 0xffffffff))
  where
    digits =
      inBigEndian . asText . spread 4 0x0f0f0f0f0f0f0f0f . spread 8 0x00ff00ff00ff00ff . spread 16 0x0000ffff0000ffff
    spread by kept value = (value `shiftL` by .|. value) .&. kept
    -- Each byte has a digit's value. 10 and more are letters, whose codes are 39 greater than they would be as further
    -- digits.
    asText values = values + 0x3030303030303030 + 39 * ((values + 0x0606060606060606) `shiftR` 4 .&. 0x0101010101010101)
    inBigEndian value = if targetByteOrder == LittleEndian then byteSwap64 value else value

-- | Whether a client's identifier may be passed on.
isRequestId :: ByteString -> Bool
isRequestId value =
  not (ByteString.null value)
    && ByteString.length value <= 128
    && ByteString.all (\byte -> byte > 32 && byte < 127) value

-- | Whether it is a valid @traceparent@ (W3C Trace Context, section 3.2). Versions after 00 may have more text behind
-- it.
isTraceParent :: ByteString -> Bool
isTraceParent value = case parts of
  version : parts'@[_, _, _]
    | map ByteString.length (version : parts') == [2, 32, 16, 2] ->
      all (ByteString.all isHex) parts && version /= "ff" && isEndOf version && not (any isZero (take 2 parts'))
  _ -> False
  where
    (known, rest) = ByteString.splitAt 55 value
    parts = ByteString.split 45 known
    isEndOf version = ByteString.null rest || version /= "00" && ByteString.head rest == 45
    isHex byte = byte >= 48 && byte <= 57 || byte >= 97 && byte <= 102
    isZero = ByteString.all (== 48)
