-- | Random numbers that a seed decides, so that a run can be repeated.
module TestSupport.Random
  ( Random,
    newRandom,
    below,
    between,
  )
where

import Data.Bits (shiftR, xor)
import Data.IORef
import Data.Word (Word64)

-- | A generator (splitmix) for one thread.
newtype Random = Random (IORef Word64)

-- | Makes a generator from a seed.
newRandom :: Int -> IO Random
newRandom seed = Random <$> newIORef (fromIntegral seed * 0x9e3779b97f4a7c15)

-- | The next number, from 0 to one less than the limit.
below :: Random -> Int -> IO Int
below (Random ref) limit = do
  state <- (+ 0x9e3779b97f4a7c15) <$> readIORef ref
  writeIORef ref $! state
  let a = (state `xor` (state `shiftR` 30)) * 0xbf58476d1ce4e5b9
      b = (a `xor` (a `shiftR` 27)) * 0x94d049bb133111eb
  return $! fromIntegral ((b `xor` (b `shiftR` 31)) `mod` fromIntegral limit)

-- | The next number, from the first bound to the second one. Both are possible.
between :: Random -> Int -> Int -> IO Int
between random low high = (low +) <$> below random (high - low + 1)
