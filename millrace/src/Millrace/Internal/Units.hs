-- | Numbers in smaller types, without a change of what they mean.
module Millrace.Internal.Units
  ( saturated,
    saturatedWord,
  )
where

import Data.Word (Word32)
import Foreign.C.Types (CInt)

-- | A number for a C function. One that is too large or too small becomes the largest or the smallest that there is:
-- the system then refuses or limits it. Without its upper bits it would be another number.
saturated :: Int -> CInt
saturated = fromIntegral . max (fromIntegral (minBound :: CInt)) . min (fromIntegral (maxBound :: CInt))
{-# INLINE saturated #-}

-- | A number of 32 bits without a sign for a C function. Negative numbers become 0, and too large ones the largest that
-- there is.
saturatedWord :: Int -> Word32
saturatedWord = fromIntegral . max 0 . min (fromIntegral (maxBound :: Word32))
{-# INLINE saturatedWord #-}
