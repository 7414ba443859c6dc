{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | Frames and header blocks of HTTP/2, for clients that also send what no honest client sends. Nothing is checked when
-- frames are made: any length, flag, stream and order is possible.
module Http2Frame
  ( -- * Frames
    Frame (..),
    FrameType (..),
    Flag (..),
    hasFlag,
    encodeFrame,
    encodeAnnouncing,
    decodeFrame,
    preface,
    StreamId,

    -- ** Of each kind
    dataFrame,
    headersFrame,
    continuationFrame,
    priorityFrame,
    resetFrame,
    settingsFrame,
    settingsAck,
    pushPromiseFrame,
    pingFrame,
    pingAck,
    goAwayFrame,
    windowUpdate,
    priorityUpdate,
    Setting (..),
    settingsOf,

    -- ** Errors
    ErrorCode (..),
    errorNumber,
    errorOf,

    -- * Numbers
    word16,
    word32,
    word32At,

    -- * Header blocks
    Fields,
    literal,
    literals,
    remembered,
    neverIndexed,
    indexed,
    named,
    tableSize,
    hpackInteger,
    Decoder,
    newDecoder,
    decodeBlock,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Data.List (find)
import Data.Maybe (fromMaybe)
import Data.Word (Word16, Word32, Word8)
import Foreign.C.Types (CSize (..))
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Ptr (FunPtr, Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek)

------------------------------------------------------------------------------------------------------------------------
-- Frames

type StreamId = Word32

-- | A frame as it is on the wire, with its flags as they are: two kinds of frames use the same bit for different
-- things.
data Frame = Frame
  { frameType :: !FrameType,
    frameFlags :: !Word8,
    frameStream :: !StreamId,
    framePayload :: !ByteString
  }
  deriving (Eq, Show)

data FrameType
  = Data
  | Headers
  | Priority
  | Reset
  | Settings
  | PushPromise
  | Ping
  | GoAway
  | WindowUpdate
  | Continuation
  | PriorityUpdate
  | OtherType !Word8
  deriving (Eq, Show)

typeNumbers :: [(FrameType, Word8)]
typeNumbers =
  zip [Data, Headers, Priority, Reset, Settings, PushPromise, Ping, GoAway, WindowUpdate, Continuation] [0 ..]
    ++ [(PriorityUpdate, 0x10)]

typeNumber :: FrameType -> Word8
typeNumber (OtherType number) = number
typeNumber known = fromMaybe 0 (lookup known typeNumbers)

typeOf :: Word8 -> FrameType
typeOf number = maybe (OtherType number) fst (find ((== number) . snd) typeNumbers)

data Flag = EndStream | Ack | EndHeaders | Padded | WithPriority
  deriving (Eq, Show)

flagBit :: Flag -> Word8
flagBit EndStream = 0x1
flagBit Ack = 0x1
flagBit EndHeaders = 0x4
flagBit Padded = 0x8
flagBit WithPriority = 0x20

flagBits :: [Flag] -> Word8
flagBits = foldr ((.|.) . flagBit) 0

hasFlag :: Flag -> Frame -> Bool
hasFlag flag frame = frameFlags frame .&. flagBit flag /= 0

encodeFrame :: Frame -> ByteString
encodeFrame frame = encodeAnnouncing (B.length (framePayload frame)) frame

-- | Changes the length in the frame's header.
encodeAnnouncing :: Int -> Frame -> ByteString
encodeAnnouncing size (Frame kind flags stream payload) =
  B.concat [B.drop 1 (word32 (fromIntegral size)), B.pack [typeNumber kind, flags], word32 stream, payload]

-- | The first frame of these bytes, and what follows it; Nothing if it is not complete. The reserved bit is dropped.
decodeFrame :: ByteString -> Maybe (Frame, ByteString)
decodeFrame bytes
  | B.length bytes < 9 || B.length bytes < 9 + size = Nothing
  | otherwise =
    Just
      ( Frame (typeOf (B.index bytes 3)) (B.index bytes 4) stream (B.take size (B.drop 9 bytes)),
        B.drop
          (9 + size)
          bytes
      )
  where
    size = fromIntegral (word32At 0 bytes `shiftR` 8)
    stream = word32At 5 bytes .&. 0x7fffffff

-- | The preface of a client, which precedes its SETTINGS.
preface :: ByteString
preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

dataFrame :: StreamId -> [Flag] -> ByteString -> Frame
dataFrame stream flags = Frame Data (flagBits flags) stream

headersFrame :: StreamId -> [Flag] -> ByteString -> Frame
headersFrame stream flags = Frame Headers (flagBits flags) stream

continuationFrame :: StreamId -> [Flag] -> ByteString -> Frame
continuationFrame stream flags = Frame Continuation (flagBits flags) stream

-- | A stream, the stream it depends on, and its weight on the wire.
priorityFrame :: StreamId -> StreamId -> Word8 -> Frame
priorityFrame stream parent weight = Frame Priority 0 stream (word32 parent <> B.singleton weight)

resetFrame :: StreamId -> ErrorCode -> Frame
resetFrame stream code = Frame Reset 0 stream (word32 (errorNumber code))

settingsFrame :: [(Setting, Word32)] -> Frame
settingsFrame settings =
  Frame Settings 0 0 (B.concat [word16 (settingNumber name) <> word32 value | (name, value) <- settings])

settingsAck :: Frame
settingsAck = Frame Settings (flagBit Ack) 0 ""

-- | A stream, the promised one, and a header block.
pushPromiseFrame :: StreamId -> StreamId -> ByteString -> Frame
pushPromiseFrame stream promised block = Frame PushPromise (flagBit EndHeaders) stream (word32 promised <> block)

-- | Eight bytes, in well-formed ones.
pingFrame :: ByteString -> Frame
pingFrame = Frame Ping 0 0

pingAck :: ByteString -> Frame
pingAck = Frame Ping (flagBit Ack) 0

goAwayFrame :: StreamId -> ErrorCode -> ByteString -> Frame
goAwayFrame lastStream code text = Frame GoAway 0 0 (word32 lastStream <> word32 (errorNumber code) <> text)

windowUpdate :: StreamId -> Word32 -> Frame
windowUpdate stream size = Frame WindowUpdate 0 stream (word32 size)

-- | A stream, and the value of its Priority field (RFC 9218, 7.1).
priorityUpdate :: StreamId -> ByteString -> Frame
priorityUpdate stream value = Frame PriorityUpdate 0 0 (word32 stream <> value)

data Setting
  = HeaderTableSize
  | EnablePush
  | MaxConcurrentStreams
  | InitialWindowSize
  | MaxFrameSize
  | MaxHeaderListSize
  | EnableConnectProtocol
  | NoRfc7540Priorities
  | OtherSetting !Word16
  deriving (Eq, Show)

settingNumbers :: [(Setting, Word16)]
settingNumbers =
  zip [HeaderTableSize, EnablePush, MaxConcurrentStreams, InitialWindowSize, MaxFrameSize, MaxHeaderListSize] [1 ..]
    ++ [(EnableConnectProtocol, 8), (NoRfc7540Priorities, 9)]

settingNumber :: Setting -> Word16
settingNumber (OtherSetting number) = number
settingNumber known = fromMaybe 0 (lookup known settingNumbers)

-- | The content of a SETTINGS frame.
settingsOf :: Frame -> [(Setting, Word32)]
settingsOf = go . framePayload
  where
    go bytes
      | B.length bytes < 6 = []
      | otherwise = (setting (word32At 0 bytes `shiftR` 16), word32At 2 bytes) : go (B.drop 6 bytes)
    setting number =
      maybe (OtherSetting (fromIntegral number)) fst (find ((== number) . fromIntegral . snd) settingNumbers)

data ErrorCode
  = NoError
  | ProtocolError
  | InternalError
  | FlowControlError
  | SettingsTimeout
  | StreamClosed
  | FrameSizeError
  | RefusedStream
  | Cancel
  | CompressionError
  | ConnectError
  | EnhanceYourCalm
  | InadequateSecurity
  | Http11Required
  | OtherError !Word32
  deriving (Eq, Show)

errorNumbers :: [(ErrorCode, Word32)]
errorNumbers =
  zip
    [ NoError,
      ProtocolError,
      InternalError,
      FlowControlError,
      SettingsTimeout,
      StreamClosed,
      FrameSizeError,
      RefusedStream,
      Cancel,
      CompressionError,
      ConnectError,
      EnhanceYourCalm,
      InadequateSecurity,
      Http11Required
    ]
    [0 ..]

errorNumber :: ErrorCode -> Word32
errorNumber (OtherError number) = number
errorNumber known = fromMaybe 0 (lookup known errorNumbers)

errorOf :: Word32 -> ErrorCode
errorOf number = maybe (OtherError number) fst (find ((== number) . snd) errorNumbers)

word16 :: Word16 -> ByteString
word16 value = B.pack [fromIntegral (value `shiftR` 8), fromIntegral value]

word32 :: Word32 -> ByteString
word32 value = B.pack [fromIntegral (value `shiftR` shift) | shift <- [24, 16, 8, 0]]

-- | The number at an offset; missing bytes are zeros.
word32At :: Int -> ByteString -> Word32
word32At offset bytes =
  B.foldl' (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 (B.take 4 (B.drop offset bytes <> B.replicate 4 0))

------------------------------------------------------------------------------------------------------------------------
-- Header blocks (RFC 7541). They are written without Huffman coding.

type Fields = [(ByteString, ByteString)]

-- | A field that enters no table. The name is sent as it is, also in upper case.
literal :: (ByteString, ByteString) -> ByteString
literal (name, value) = B.concat ["\0", hpackString name, hpackString value]

literals :: Fields -> ByteString
literals = B.concat . map literal

-- | A field that enters the dynamic table; the latest one is 'indexed' 62.
remembered :: (ByteString, ByteString) -> ByteString
remembered (name, value) = B.concat ["\x40", hpackString name, hpackString value]

neverIndexed :: (ByteString, ByteString) -> ByteString
neverIndexed (name, value) = B.concat ["\x10", hpackString name, hpackString value]

-- | A whole field of the tables; up to 61 is the static one.
indexed :: Int -> ByteString
indexed = hpackInteger 7 0x80

-- | A name of the tables, with a value, which enters no table.
named :: Int -> ByteString -> ByteString
named index value = hpackInteger 4 0 index <> hpackString value

-- | A change of the dynamic table's size.
tableSize :: Int -> ByteString
tableSize = hpackInteger 5 0x20

hpackString :: ByteString -> ByteString
hpackString bytes = hpackInteger 7 0 (B.length bytes) <> bytes

-- | @hpackInteger bits pattern number@: in this many bits of the first byte, whose other bits are given.
hpackInteger :: Int -> Word8 -> Int -> ByteString
hpackInteger bits pattern' number
  | number < limit = B.singleton (pattern' .|. fromIntegral number)
  | otherwise = B.cons (pattern' .|. fromIntegral limit) (rest (number - limit))
  where
    limit = 2 ^ bits - 1 :: Int
    rest left
      | left < 128 = B.singleton (fromIntegral left)
      | otherwise = B.cons (fromIntegral (left `mod` 128) .|. 0x80) (rest (left `div` 128))

-- | The state for decoding a connection's blocks, which must come in order.
newtype Decoder = Decoder (ForeignPtr Decoder)

foreign import ccall unsafe "inflate_new" c_inflateNew :: IO (Ptr Decoder)

foreign import ccall unsafe "&inflate_free" c_inflateFree :: FunPtr (Ptr Decoder -> IO ())

foreign import ccall unsafe "inflate_block"
  c_inflateBlock :: Ptr Decoder -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO Int64

newDecoder :: IO Decoder
newDecoder = do
  decoder <- c_inflateNew
  if decoder == nullPtr then fail "no memory for a decoder" else Decoder <$> newForeignPtr c_inflateFree decoder

-- | The fields of a block; fails for one that is malformed.
decodeBlock :: Decoder -> ByteString -> IO Fields
decodeBlock (Decoder pointer) block =
  withForeignPtr pointer $ \decoder -> BU.unsafeUseAsCStringLen block $ \(bytes, size) -> do
    written <- BI.createAndTrim' capacity $ \target -> do
      result <- c_inflateBlock decoder (castPtr bytes) (fromIntegral size) target (fromIntegral capacity)
      return (0, max 0 (fromIntegral result), result)
    case written of
      (flat, result)
        | result >= 0 -> fieldsOf flat
        | otherwise -> fail ("malformed header block " ++ show block)
  where
    capacity = 131072

-- The lengths are in the machine's own order of bytes.
fieldsOf :: ByteString -> IO Fields
fieldsOf flat
  | B.null flat = return []
  | otherwise = do
    (nameSize, valueSize) <- BU.unsafeUseAsCString flat $ \at ->
      (,) <$> peek (castPtr at :: Ptr Word32) <*> peek (castPtr at `plusPtr` 4 :: Ptr Word32)
    let (name, afterName) = B.splitAt (fromIntegral nameSize) (B.drop 8 flat)
        (value, rest) = B.splitAt (fromIntegral valueSize) afterName
    ((name, value) :) <$> fieldsOf rest
