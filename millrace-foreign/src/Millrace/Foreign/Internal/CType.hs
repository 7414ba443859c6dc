{-# LANGUAGE DefaultSignatures #-}

-- | The types that can be passed to and returned from C functions.
module Millrace.Foreign.Internal.CType
  ( CKind (..),
    kindCode,
    Passable (..),
  )
where

import Data.Bits (Bits, isSigned)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types
import Foreign.Ptr (FunPtr, IntPtr, Ptr, WordPtr)
import Foreign.StablePtr (StablePtr)
import Foreign.Storable (Storable (sizeOf))
import System.Posix.Types

-- | The constructors must have the order of @mrf_kind@ in @cbits\/kind.h@.
data CKind
  = KindVoid
  | KindFloat
  | KindDouble
  | KindPointer
  | KindInt8
  | KindInt16
  | KindInt32
  | KindInt64
  | KindWord8
  | KindWord16
  | KindWord32
  | KindWord64
  deriving (Enum)

-- | The number of the kind in @kind.h@.
kindCode :: CKind -> CInt
kindCode = fromIntegral . fromEnum

-- | Types that fit a register: numbers, pointers, and @()@ for a function without result. For your newtype of one of
-- them: @deriving newtype (Storable, Passable)@.
class Storable a => Passable a where
  -- | Does not evaluate its argument.
  kindOf :: a -> CKind
  default kindOf :: Bits a => a -> CKind
  kindOf unused = case (isSigned unused, sizeOf unused) of
    (True, 1) -> KindInt8
    (True, 2) -> KindInt16
    (True, 4) -> KindInt32
    (True, _) -> KindInt64
    (False, 1) -> KindWord8
    (False, 2) -> KindWord16
    (False, 4) -> KindWord32
    (False, _) -> KindWord64

instance Passable () where kindOf _ = KindVoid

instance Passable Float where kindOf _ = KindFloat

instance Passable CFloat where kindOf _ = KindFloat

instance Passable Double where kindOf _ = KindDouble

instance Passable CDouble where kindOf _ = KindDouble

instance Passable (Ptr a) where kindOf _ = KindPointer

instance Passable (FunPtr a) where kindOf _ = KindPointer

instance Passable (StablePtr a) where kindOf _ = KindPointer

instance Passable CTime where kindOf _ = KindInt64

instance Passable CClock where kindOf _ = KindInt64

instance Passable CUSeconds where kindOf _ = KindWord32

instance Passable CSUSeconds where kindOf _ = KindInt64

instance Passable Int

instance Passable Int8

instance Passable Int16

instance Passable Int32

instance Passable Int64

instance Passable Word

instance Passable Word8

instance Passable Word16

instance Passable Word32

instance Passable Word64

instance Passable IntPtr

instance Passable WordPtr

instance Passable CBool

instance Passable CChar

instance Passable CSChar

instance Passable CUChar

instance Passable CShort

instance Passable CUShort

instance Passable CInt

instance Passable CUInt

instance Passable CLong

instance Passable CULong

instance Passable CLLong

instance Passable CULLong

instance Passable CSize

instance Passable CPtrdiff

instance Passable CIntPtr

instance Passable CUIntPtr

instance Passable CIntMax

instance Passable CUIntMax

instance Passable CWchar

instance Passable CSigAtomic

instance Passable CSsize

instance Passable COff

instance Passable CMode

instance Passable CPid

instance Passable CUid

instance Passable CGid

instance Passable CDev

instance Passable CIno

instance Passable CNlink

instance Passable CRLim

instance Passable CBlkSize

instance Passable CBlkCnt

instance Passable CFsBlkCnt

instance Passable CFsFilCnt

instance Passable CClockId

instance Passable CId

instance Passable CKey

instance Passable CTcflag

instance Passable CSocklen

instance Passable CNfds

instance Passable Fd
