-- Must not know: sockets, loops.

-- |
-- The beginning of connection IDs. It names an endpoint: a process that shares the port, and an endpoint of that
-- process. So datagrams can be given to the endpoint that has their connection.
module Millrace.Http.Http3.ConnectionIdRouting
  ( EndpointId (..),
    Process (..),
    Loop (..),
    endpointIdNumber,
    endpointIdFrom,
    processesMax,
    loopsMax,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.Int (Int32)
import Data.Word (Word16)

-- | An endpoint.
data EndpointId = EndpointId !Process !Loop
  deriving (Eq)

-- | A process, as the other processes on the port know it.
data Process
  = -- | It has this slot among those that share the port.
    InSlot !Int
  | -- | It has none, so others cannot send to it.
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
endpointIdNumber :: EndpointId -> Word16
endpointIdNumber (EndpointId process (Loop loop)) = fromIntegral (beginning .|. loop)
  where
    beginning = case process of
      InSlot slot -> slotBase .|. slot `shiftL` 8
      Unknown -> unknownBase

-- | The endpoint whose connection IDs begin with this number, if there can be one; -1: there is none. A client chooses
-- the first ID of a connection, so it may name any endpoint.
endpointIdFrom :: Int32 -> Maybe EndpointId
endpointIdFrom number
  | number < 0 = Nothing
  | base == slotBase = Just (EndpointId (InSlot (value `shiftR` 8 .&. 15)) loop)
  | base == unknownBase && value .&. 0xff00 == unknownBase = Just (EndpointId Unknown loop)
  | otherwise = Nothing
  where
    value = fromIntegral number :: Int
    base = value .&. 0xf000
    loop = Loop (value .&. 255)

-- Most IDs that clients have chosen begin otherwise.
slotBase, unknownBase :: Int
slotBase = 0x4000
unknownBase = 0x3000
