-- Must not know: servers.

-- |
-- How large the datagrams to clients may be: what the machine's interfaces send in one packet.
module Millrace.Http.Http3.PacketSize (largestDatagram) where

import Control.Exception (IOException, try)
import Data.Maybe (mapMaybe)
import Millrace.Directory (Entry (..), list)
import Network.Socket (SockAddr (..), hostAddressToTuple)
import Text.Read (readMaybe)

-- What every network of Ethernet carries, in bytes: the default of the engine.
ordinaryDatagram :: Int
ordinaryDatagram = 1452

-- | The largest datagram that is worth a try with clients of a server at this address, in bytes. Whether a path carries
-- it, and whether the client takes it, each connection finds out. More than 1,452 bytes only if an interface has larger
-- packets: those of loopback are for a server that only this machine reaches.
largestDatagram :: SockAddr -> IO Int
largestDatagram address = do
  found <- try (list interfaces >>= mapM sizeOf . filter counts . map entryName)
  return
    ( either
        none
        (\sizes -> maximum (ordinaryDatagram : map (min most . subtract heads) (mapMaybe readMaybe sizes)))
        found
    )
  where
    none :: IOException -> Int
    none _ = ordinaryDatagram
    interfaces = "/sys/class/net"
    sizeOf name = readFile (interfaces ++ "/" ++ name ++ "/mtu")
    counts name = (name == "lo") == isLoopback
    isLoopback = case address of
      SockAddrInet _ host -> (\(first, _, _, _) -> first == 127) (hostAddressToTuple host)
      SockAddrInet6 _ _ host _ -> host == (0, 0, 0, 1)
      _ -> False
    -- Of IPv6 and UDP.
    heads = 48
    -- Larger ones were hardly cheaper.
    most = 16332
