-- | Runs the C parsers over input that arrives in pieces. Every call sees a copy of what has arrived whose end lies
-- right before unreadable memory.
module WireSupport
  ( HeadOutcome (..),
    parsePieces,
    parsePiecesAllowing,
    dechunkPieces,
    foreseen,
    piecesAt,
    bytewise,
    guarded,
    withParser,
  )
where

import Control.Exception (bracket)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Millrace.Http.Http1.Wire

foreign import ccall unsafe "guard_copy"
  c_guardCopy :: Ptr Word8 -> CSize -> IO (Ptr Word8)

foreign import ccall unsafe "guard_free"
  c_guardFree :: Ptr Word8 -> CSize -> IO ()

guarded :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
guarded bytes = bracketed . uncurry
  where
    bracketed = bracket copy (\(at, size) -> c_guardFree at (fromIntegral size))
    copy = BU.unsafeUseAsCStringLen bytes $ \(at, size) -> do
      result <- c_guardCopy (castPtr at) (fromIntegral size)
      if result == nullPtr then ioError (userError "no guarded memory") else return (result, size)

-- | Everything that the parser returns about a head.
data HeadOutcome
  = Incomplete
  | Refused Int
  | Parsed
      { parsedSize :: Int,
        parsedMethod :: ByteString,
        parsedPath :: ByteString,
        parsedQuery :: ByteString,
        parsedFlags :: Word32,
        parsedLength :: Int64,
        parsedFields :: [(Int, ByteString, ByteString)],
        parsedHost :: Int
      }
  deriving (Eq, Show)

-- | The outcome if these pieces arrive one after the other.
parsePieces :: [ByteString] -> IO HeadOutcome
parsePieces = parsePiecesAllowing 0

-- | 'parsePieces' with a parser that accepts some deviations.
parsePiecesAllowing :: Word32 -> [ByteString] -> IO HeadOutcome
parsePiecesAllowing allowed pieces =
  allocaBytes parserSize $ \parser -> allocaBytes (fieldsMax * fieldSize) $ \fields -> do
    initParser parser fields fieldsMax 51200 8192 allowed
    go parser fields (drop 1 (scanl B.append B.empty pieces))
  where
    fieldsMax = 128
    go _ _ [] = return Incomplete
    go parser fields (arrived : rest) = do
      result <- guarded arrived (runParser parser)
      case compare result 0 of
        LT -> return (Refused result)
        EQ -> go parser fields rest
        GT -> outcome parser fields arrived result

outcome :: Ptr Parser -> Ptr FieldLine -> ByteString -> Int -> IO HeadOutcome
outcome parser fields bytes size = do
  count <- headFieldCount parser
  Parsed size
    <$> (cut <$> headMethodSlice parser)
    <*> (cut <$> headPathSlice parser)
    <*> (cut <$> headQuerySlice parser)
    <*> headFlags parser
    <*> headContentLength parser
    <*> mapM field [0 .. count - 1]
    <*> headHost parser
  where
    cut (offset, len) = B.take len (B.drop offset bytes)
    field index = do
      let at = fields `plusPtr` (index * fieldSize)
      (,,) <$> fieldName at <*> (cut <$> fieldNameSlice at) <*> (cut <$> fieldValueSlice at)

-- | The data of a chunked body and what follows it, or the error.
dechunkPieces :: [ByteString] -> IO (Either Int (Maybe (ByteString, ByteString)))
dechunkPieces pieces = allocaBytes chunksSize $ \chunks -> do
  initChunks chunks TrailersSkipped
  go chunks [] B.empty pieces
  where
    go chunks done held arriving = do
      result <- guarded held (nextChunk chunks)
      consumed <- chunksConsumed chunks
      let rest = B.drop consumed held
      case compare result 0 of
        GT -> go chunks (B.take result rest : done) (B.drop result rest) arriving
        EQ -> case arriving of
          [] -> return (Right Nothing)
          piece : more -> go chunks done piece more
        LT
          | result == chunksEnd -> return (Right (Just (B.concat (reverse done), B.append rest (B.concat arriving))))
          | otherwise -> return (Left result)

-- | The result of 'foreseeChunks' for this beginning of a chunked body.
foreseen :: ByteString -> IO Int
foreseen bytes =
  allocaBytes chunksSize $ \chunks -> initChunks chunks TrailersSkipped >> guarded bytes (foreseeChunks chunks)

-- | Two pieces.
piecesAt :: Int -> ByteString -> [ByteString]
piecesAt position bytes = [B.take position bytes, B.drop position bytes]

-- | One byte at a time.
bytewise :: ByteString -> [ByteString]
bytewise = map B.singleton . B.unpack

-- | A parser with the server's limits.
withParser :: (Ptr Parser -> IO a) -> IO a
withParser use = allocaBytes parserSize $ \parser -> allocaBytes (128 * fieldSize) $ \fields -> do
  initParser parser fields 128 51200 8192 0
  use parser
