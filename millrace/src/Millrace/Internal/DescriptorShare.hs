{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets, loops, operations.

-- | How many descriptors servers leave to the rest of their program. For the packages of Millrace.
module Millrace.Internal.DescriptorShare (leftToOthers) where

-- | What connections leave of this many descriptors, which is the process's limit (@ulimit -n@): an eighth, at least 16
-- and at most 1024.
--
-- >>> map leftToOthers [64, 1024, 1000000 :: Int]
-- [16,128,1024]
leftToOthers :: Integral a => a -> a
leftToOthers limit = max 16 (min 1024 (limit `quot` 8))
