{-# LANGUAGE CPP #-}
{-# LANGUAGE GADTSyntax #-}

-- | The numbers of the core's operations, made from its table, @operation.def@: 'kindAccept' and so on.
module Millrace.Internal.Kind where

import Foreign.C.Types (CInt)

{- ORMOLU_DISABLE -}

-- A C comment between two words joins them, because GHC runs the preprocessor in its traditional mode.
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) Kind/**/HASKELL :: Kind;

-- | In the order of the table, which gives them their numbers.
data Kind where {
#include "operation.def"
  } deriving (Enum)

#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) \
kind/**/HASKELL :: CInt; kind/**/HASKELL = kindNumber Kind/**/HASKELL

#include "operation.def"

{- ORMOLU_ENABLE -}

kindNumber :: Kind -> CInt
kindNumber = fromIntegral . fromEnum
{-# INLINE kindNumber #-}
