{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- Must not know: sockets.

-- | How rows become values of a program. Import this module to make instances of 'Column' for your types; for all else
-- "Millrace.Postgresql" suffices.
--
-- >>> rowWidth ((,) <$> (column :: Row Int) <*> (column :: Row Bool))
-- 2
module Millrace.Postgresql.Row
  ( Row,
    rowWidth,
    column,
    checked,
    Column (..),
    Decoder (..),
    sized,

    -- * For the package itself
    Cell,
    Cells,
    cellSize,
    Mismatch (..),
    readerFor,
    jsonDecoder,
  )
where

import Control.Exception (Exception, throwIO)
import Control.Monad ((>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Data.Int (Int16, Int32, Int64)
import Data.Scientific (Scientific, toRealFloat)
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import Data.Time
  ( Day,
    LocalTime (..),
    TimeOfDay,
    UTCTime (..),
    addDays,
    fromGregorian,
    picosecondsToDiffTime,
    timeToTimeOfDay,
  )
import Data.Word (Word16, Word8, byteSwap16, byteSwap32, byteSwap64)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff)
import GHC.Float (castWord32ToFloat, castWord64ToDouble, float2Double)
import Millrace.Postgresql.Internal.Numeric
import Millrace.Postgresql.Internal.TypeNumber

-- | A reader of rows. Its parts are columns, in their order.
--
-- > data Item = Item Int Text (Maybe Day)
-- >
-- > item :: Row Item
-- > item = Item <$> column <*> column <*> column
data Row a = Row !Int (Int -> (Int -> Oid) -> Either Mismatch (Cells -> IO a))

instance Functor Row where
  fmap change (Row width reader) =
    Row width (\first types -> (\get cells -> change <$> get cells) <$> reader first types)
  {-# INLINE fmap #-}

instance Applicative Row where
  pure result = Row 0 (\_ _ -> Right (\_ -> return result))
  Row widthF readerF <*> Row widthX readerX = Row (widthF + widthX) $ \first types -> do
    getF <- readerF first types
    getX <- readerX (first + widthF) types
    return (\cells -> getF cells <*> getX cells)
  {-# INLINE (<*>) #-}

-- | The number of its columns.
rowWidth :: Row a -> Int
rowWidth (Row width _) = width

-- | The values of one row: a pointer and a length each.
type Cells = Ptr Cell

-- | @mrp_cell@.
data Cell

-- | The size of a cell, in bytes.
cellSize :: Int
cellSize = 16

-- | A column (from 0) that is not as expected, and how.
data Mismatch = Mismatch !Int !Text
  deriving (Show)

instance Exception Mismatch

-- | The action that reads a row whose columns have these types.
readerFor :: Row a -> (Int -> Oid) -> Either Mismatch (Cells -> IO a)
readerFor (Row _ reader) = reader 0

-- | The next column.
column :: forall a. Column a => Row a
column = Row 1 $ \index types -> case decoder (types index) of
  Nothing ->
    Left
      ( Mismatch
          index
          ( Text.pack
              ( "it has the type "
                  ++ nameOf (types index)
                  ++ ", but the program reads "
                  ++ expected (Nothing :: Maybe a)
              )
          )
      )
  Just (Decoder decode) -> Right $ \cells -> do
    let cell = cells `plusPtr` (index * cellSize)
        refuse reason = throwIO (Mismatch index (Text.pack reason))
    size <- peekByteOff cell 8 :: IO Int64
    if size < 0
      then maybe (refuse "it is NULL, which the program does not expect; use Maybe") return whenNull
      else do
        bytes <- peek (castPtr cell)
        decode refuse bytes (fromIntegral size)
{-# INLINE column #-}

-- | Adds a check, or a conversion that can fail, to a reader. 'Left' is the reason, for the exception.
--
-- > colour = checked column (\name -> maybe (Left "no colour") Right (colourNamed name))
checked :: Row a -> (a -> Either Text b) -> Row b
checked (Row width reader) check = Row width $ \first types -> do
  get <- reader first types
  return (get >=> either (throwIO . Mismatch first) return . check)

-- | Makes a value from its binary form. Its arguments are a function that refuses the value with a reason, the address
-- of the bytes, and their number. It must check the number before it reads, because a server may send any number of
-- bytes. 'sized' does that.
newtype Decoder a = Decoder ((forall b. String -> IO b) -> Ptr Word8 -> Int -> IO a)

instance Functor Decoder where
  fmap change (Decoder decode) = Decoder (\refuse bytes size -> change <$> decode refuse bytes size)

-- | @sized oid size decode@ makes values of a type whose binary form has this size, and refuses a value of another
-- size.
sized :: Oid -> Int -> ((forall b. String -> IO b) -> Ptr Word8 -> IO a) -> Decoder a
sized oid wanted decode = Decoder $ \refuse bytes size ->
  if size == wanted then decode refuse bytes else refuse (wrongSize oid size ("not " ++ show wanted))
{-# INLINE sized #-}

wrongSize :: Oid -> Int -> String -> String
wrongSize oid size wanted = "a value of the type " ++ nameOf oid ++ " came with " ++ show size ++ " bytes, " ++ wanted
{-# NOINLINE wrongSize #-}

-- | Types that columns can have.
class Column a where
  -- | The decoder of one of PostgreSQL's types; 'Nothing' for types that it cannot decode.
  decoder :: Oid -> Maybe (Decoder a)

  -- | The name of the type in messages.
  expected :: proxy a -> String

  -- | The meaning of NULL; 'Nothing' if there must not be a NULL.
  whenNull :: Maybe a
  whenNull = Nothing

instance Column a => Column (Maybe a) where
  decoder oid = fmap Just <$> decoder oid
  expected = expected . inside
    where
      inside :: proxy (Maybe b) -> Maybe b
      inside _ = Nothing
  whenNull = Just Nothing

instance Column Bool where
  decoder oid
    | oid == oidBool = Just (sized oid 1 (\_ bytes -> (/= 0) <$> peek bytes))
    | otherwise = Nothing
  expected _ = "a boolean"

-- | All integer types.
instance Column Int where
  decoder oid
    | oid == oidInt4 = Just (sized oid 4 (\_ bytes -> fromIntegral <$> int32 bytes))
    | oid == oidInt8 = Just (sized oid 8 (\_ bytes -> fromIntegral <$> int64 bytes))
    | oid == oidInt2 = Just (sized oid 2 (\_ bytes -> fromIntegral <$> int16 bytes))
    | otherwise = Nothing
  expected _ = "an integer"

-- | All integer types.
instance Column Int64 where
  decoder oid = fmap fromIntegral <$> (decoder oid :: Maybe (Decoder Int))
  expected _ = "an integer"

-- | @integer@ and @smallint@.
instance Column Int32 where
  decoder oid
    | oid == oidInt4 = Just (sized oid 4 (\_ bytes -> int32 bytes))
    | oid == oidInt2 = Just (sized oid 2 (\_ bytes -> fromIntegral <$> int16 bytes))
    | otherwise = Nothing
  expected _ = "an integer of at most 32 bits"

instance Column Int16 where
  decoder oid
    | oid == oidInt2 = Just (sized oid 2 (\_ bytes -> int16 bytes))
    | otherwise = Nothing
  expected _ = "an integer of 16 bits"

-- | @double precision@, @real@, and @numeric@, which is rounded.
instance Column Double where
  decoder oid
    | oid == oidFloat8 = Just (sized oid 8 (\_ bytes -> castWord64ToDouble . byteSwap64 <$> peek (castPtr bytes)))
    | oid == oidFloat4 =
      Just (sized oid 4 (\_ bytes -> float2Double . castWord32ToFloat . byteSwap32 <$> peek (castPtr bytes)))
    | otherwise = fmap (toRealFloat :: Scientific -> Double) <$> decoder oid
  expected _ = "a number"

instance Column Float where
  decoder oid
    | oid == oidFloat4 = Just (sized oid 4 (\_ bytes -> castWord32ToFloat . byteSwap32 <$> peek (castPtr bytes)))
    | otherwise = Nothing
  expected _ = "a number of single precision"

-- | @numeric@, and all integer types.
instance Column Scientific where
  decoder oid
    | oid == oidNumeric = Just (Decoder numeric)
    | otherwise = fmap fromIntegral <$> (decoder oid :: Maybe (Decoder Int))
    where
      -- Four numbers of two bytes, of which the first counts the digits, and the digits, of two bytes each.
      numeric :: (forall b. String -> IO b) -> Ptr Word8 -> Int -> IO Scientific
      numeric refuse bytes size
        | size < 8 = refuse (wrongSize oid size "fewer than 8")
        | otherwise = do
          digits <- fromIntegral . byteSwap16 <$> (peek (castPtr bytes) :: IO Word16)
          if size /= 8 + 2 * digits
            then
              refuse
                (wrongSize oid size ("not " ++ show (8 + 2 * digits) ++ " as its " ++ show digits ++ " digits need"))
            else packed bytes size >>= maybe (refuse "it is infinite or not a number") return . fromNumeric
  expected _ = "a number"

-- | All text types, and JSON.
instance Column Text where
  decoder oid
    | oid `elem` textTypes = Just (Decoder (\refuse bytes size -> viewed bytes size >>= utf8 refuse))
    | otherwise = ofJson <$> jsonDecoder oid
    where
      ofJson (Decoder json) = Decoder (\refuse bytes size -> json refuse bytes size >>= utf8 refuse)
  expected _ = "text"

utf8 :: (forall b. String -> IO b) -> ByteString -> IO Text
utf8 refuse = either (const (refuse "it is not valid UTF-8")) return . Text.decodeUtf8'

-- | @bytea@; and the bytes of all text types, in UTF-8.
instance Column ByteString where
  decoder oid
    | oid == oidBytea || oid `elem` textTypes = Just (Decoder (\_ bytes size -> packed bytes size))
    | otherwise = Nothing
  expected _ = "bytes"

-- | The text of the types @json@ and @jsonb@.
jsonDecoder :: Oid -> Maybe (Decoder ByteString)
jsonDecoder oid
  | oid == oidJson = Just (Decoder (\_ bytes size -> packed bytes size))
  -- Its first byte is the version of the format.
  | oid == oidJsonb = Just (Decoder jsonb)
  | otherwise = Nothing
  where
    jsonb :: (forall b. String -> IO b) -> Ptr Word8 -> Int -> IO ByteString
    jsonb refuse _ 0 = refuse (wrongSize oid 0 "not at least 1")
    jsonb refuse bytes size = do
      version <- peek bytes
      if version == 1 then packed (bytes `plusPtr` 1) (size - 1) else refuse "its version of jsonb is unknown"

instance Column Day where
  decoder oid
    | oid == oidDate = Just (sized oid 4 date)
    | otherwise = Nothing
    where
      date :: (forall b. String -> IO b) -> Ptr Word8 -> IO Day
      date refuse bytes = do
        days <- int32 bytes
        if days == maxBound || days == minBound then refuse infinite else return (addDays (fromIntegral days) epoch)
  expected _ = "a date"

instance Column TimeOfDay where
  decoder oid
    | oid == oidTime = Just (sized oid 8 (\_ bytes -> timeOfDay <$> int64 bytes))
    | otherwise = Nothing
  expected _ = "a time of day"

instance Column LocalTime where
  decoder oid
    | oid == oidTimestamp = Just (moment oid (\days micros -> LocalTime days (timeOfDay micros)))
    | otherwise = Nothing
  expected _ = "a timestamp without time zone"

instance Column UTCTime where
  decoder oid
    | oid == oidTimestamptz =
      Just (moment oid (\days micros -> UTCTime days (picosecondsToDiffTime (fromIntegral micros * 1000000))))
    | otherwise = Nothing
  expected _ = "a timestamp with time zone"

moment :: Oid -> (Day -> Int64 -> a) -> Decoder a
moment oid make =
  sized
    oid
    8
    (\refuse bytes -> int64 bytes >>= \micros -> if isInfinite' micros then refuse infinite else return (at micros))
  where
    isInfinite' micros = micros == maxBound || micros == minBound
    at micros = let (days, rest) = micros `divMod` 86400000000 in make (addDays (fromIntegral days) epoch) rest

infinite :: String
infinite = "it is infinite"

timeOfDay :: Int64 -> TimeOfDay
timeOfDay micros = timeToTimeOfDay (picosecondsToDiffTime (fromIntegral micros * 1000000))

-- PostgreSQL's.
epoch :: Day
epoch = fromGregorian 2000 1 1

textTypes :: [Oid]
textTypes = [oidText, oidVarchar, oidBpchar, oidName, oidUnknown, oidChar, oidXml]

int16 :: Ptr Word8 -> IO Int16
int16 bytes = fromIntegral . byteSwap16 <$> peek (castPtr bytes)

int32 :: Ptr Word8 -> IO Int32
int32 bytes = fromIntegral . byteSwap32 <$> peek (castPtr bytes)

int64 :: Ptr Word8 -> IO Int64
int64 bytes = fromIntegral . byteSwap64 <$> peek (castPtr bytes)

-- Copies the bytes.
packed :: Ptr Word8 -> Int -> IO ByteString
packed bytes size = ByteString.packCStringLen (castPtr bytes, size)

-- Refers to the bytes without copying them. The caller must not keep the result.
viewed :: Ptr Word8 -> Int -> IO ByteString
viewed bytes size = unsafePackCStringLen (castPtr bytes, size)
