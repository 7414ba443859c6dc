-- |
-- The beginning of connection IDs: it says whose a datagram is, of the processes that share a port, and of the
-- endpoints of a process. Must not
-- know: sockets, loops.
module Millrace.Http.Http3.ConnectionIdRouting
  ( Owner (..),
    Process (..),
    Loop (..),
    ownerNumber,
    numberedOwner,
    processesMax,
    loopsMax,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.Int (Int32)
import Data.Word (Word16)

-- | An endpoint.
data Owner = Owner !Process !Loop
  deriving (Eq)

-- | A process, as others know it.
data Process
  = -- | It has a place among those that share the port.
    Placed !Int
  | -- | Nobody knows it.
    Unknown
  deriving (Eq)

-- | An endpoint within its process.
newtype Loop = Loop Int
  deriving (Eq)

-- | The most processes on a port. In a restart there are two.
processesMax :: Int
processesMax = 16

-- | The most endpoints of a process on a port.
loopsMax :: Int
loopsMax = 256

-- | The beginning of the endpoint's connection IDs, as a number of two bytes.
ownerNumber :: Owner -> Word16
ownerNumber (Owner process (Loop loop)) = fromIntegral (beginning .|. loop)
  where
    beginning = case process of
      Placed place -> placedBase .|. place `shiftL` 8
      Unknown -> unknownBase

-- | The owner that has this number, or -1 for none, in its connection IDs, if there can be one. A client chooses the
-- first ID of a connection, so it may name any owner.
numberedOwner :: Int32 -> Maybe Owner
numberedOwner number
  | number < 0 = Nothing
  | base == placedBase = Just (Owner (Placed (value `shiftR` 8 .&. 15)) loop)
  | base == unknownBase && value .&. 0xff00 == unknownBase = Just (Owner Unknown loop)
  | otherwise = Nothing
  where
    value = fromIntegral number :: Int
    base = value .&. 0xf000
    loop = Loop (value .&. 255)

-- Most IDs that clients have chosen begin otherwise.
placedBase, unknownBase :: Int
placedBase = 0x4000
unknownBase = 0x3000
