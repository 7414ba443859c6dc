-- | Datagrams to groups of receivers (multicast). The socket has the type @Datagram@, and "Millrace.Socket.Datagram"
-- sends and receives.
--
-- > main = do
-- >   s <- socket AF_INET Datagram defaultProtocol
-- >   setAddressReuse s True
-- >   bind s (SockAddrInet 5353 0)
-- >   joinGroup s (group (SockAddrInet 5353 (tupleToHostAddress (224, 0, 0, 251))))
-- >   forever (recvFrom s 9000 >>= print)
--
-- No function waits. All throw an 'IOError' that names the function and the socket. Only on Linux; sockets of
-- "Millrace.Simulation" refuse all of it (@EOPNOTSUPP@).
--
-- >>> import Millrace
-- >>> import Millrace.Socket.Datagram
-- >>> loopback <- interfaceNamed "lo"
-- >>> receiver <- socket AF_INET Datagram defaultProtocol
-- >>> bind receiver (SockAddrInet 0 0)
-- >>> port <- socketPort receiver
-- >>> let address = SockAddrInet port (tupleToHostAddress (239, 1, 2, 3))
-- >>> joinGroup receiver (group address) {groupInterface = Just loopback}
-- >>> sender <- socket AF_INET Datagram defaultProtocol
-- >>> setGroupInterface sender loopback
-- >>> sendAllTo sender "to all" address
-- >>> fst <$> recvFrom receiver 100
-- "to all"
module Millrace.Socket.Multicast
  ( -- * Receiving
    Group (..),
    group,
    joinGroup,
    leaveGroup,

    -- * Sending
    setGroupInterface,
    setGroupHops,
    getGroupHops,
    setGroupLoopback,
    getGroupLoopback,

    -- * Interfaces
    Interface,
    interfaceNamed,
    interfaceNumber,
  )
where

import Control.Exception (throwIO)
import Control.Monad (void)
import Data.Word (Word32)
import Foreign.C.Error (eNODEV)
import Foreign.C.Types (CInt (..), CUInt (..))
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Internal.Constants.Sockets
import Millrace.Internal.Socket
import Millrace.Operation (failure)
import Network.Socket (SockAddr, ifNameToIndex)

type Membership = CInt -> Word32 -> Ptr SockAddr -> CUInt -> Ptr SockAddr -> CUInt -> IO CInt

foreign import ccall unsafe "mrh_join_group" c_join_group :: Membership

foreign import ccall unsafe "mrh_leave_group" c_leave_group :: Membership

foreign import ccall unsafe "mrh_set_multicast_option" c_set_sending :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_get_multicast_option" c_get_sending :: CInt -> CInt -> IO CInt

-- | A network interface of this machine.
newtype Interface = Interface Word32
  deriving (Eq, Ord, Show)

-- | The interface of a name, such as @eth0@. Throws if there is none (@ENODEV@).
interfaceNamed :: String -> IO Interface
interfaceNamed name =
  ifNameToIndex name
    >>= maybe
      (throwIO (failure "Millrace.Socket.Multicast.interfaceNamed" name eNODEV))
      (return . Interface . fromIntegral)

-- | The system's number of the interface, which is also the scope of IPv6 addresses on its link.
interfaceNumber :: Interface -> Word32
interfaceNumber (Interface number) = number

-- | A group, and the interface and sender of the wanted datagrams.
data Group = Group
  { -- | the group's address; its port is ignored
    groupAddress :: !SockAddr,
    -- | on which interface; 'Nothing' leaves it to the system
    groupInterface :: !(Maybe Interface),
    -- | only datagrams of this sender (RFC 4607); its port is ignored
    groupSource :: !(Maybe SockAddr)
  }
  deriving (Eq, Show)

-- | The group of an address, on the interface that the system chooses, from all senders.
group :: SockAddr -> Group
group address = Group {groupAddress = address, groupInterface = Nothing, groupSource = Nothing}

-- | Lets the socket receive datagrams to the group and to the socket's port. A socket can be in several groups; the
-- system has a limit (@ENOBUFS@). Joining twice is an error (@EADDRINUSE@).
--
-- Linux passes datagrams of a group to all sockets of the machine that are bound to the port and to no other address,
-- as long as any of them has joined it. To receive only the groups of this socket, bind it to the group's address.
joinGroup :: Socket -> Group -> IO ()
joinGroup = changeBy "Millrace.Socket.Multicast.joinGroup" c_join_group

-- | Ends what 'joinGroup' with the same group began. Closing the socket does so, too.
leaveGroup :: Socket -> Group -> IO ()
leaveGroup = changeBy "Millrace.Socket.Multicast.leaveGroup" c_leave_group

changeBy :: String -> Membership -> Socket -> Group -> IO ()
changeBy function change s (Group address interface source) =
  withAddress function s address $ \memory size -> withSource $ \sourceMemory sourceSize ->
    void . onDescriptor function s (", group " ++ show address) $ \descriptor ->
      change
        descriptor
        (maybe 0 interfaceNumber interface)
        memory
        (fromIntegral size)
        sourceMemory
        (fromIntegral sourceSize)
  where
    withSource use = maybe (use nullPtr 0) (\one -> withAddress function s one use) source

-- | The interface on which the socket sends to groups. Otherwise the system chooses one by its routes.
setGroupInterface :: Socket -> Interface -> IO ()
setGroupInterface s (Interface number) =
  setSending "Millrace.Socket.Multicast.setGroupInterface" sendingInterface s (fromIntegral number)

-- | How many networks a datagram to a group may cross: 0 to 255. The default is 1: it stays in the sender's own
-- network.
setGroupHops :: Socket -> Int -> IO ()
setGroupHops = setSending "Millrace.Socket.Multicast.setGroupHops" sendingHops

-- | What 'setGroupHops' has set.
getGroupHops :: Socket -> IO Int
getGroupHops s =
  fromIntegral <$> onDescriptor "Millrace.Socket.Multicast.getGroupHops" s "" (`c_get_sending` sendingHops)

-- | Whether members on this machine get what the socket sends to a group. By default they do.
setGroupLoopback :: Socket -> Bool -> IO ()
setGroupLoopback s isOn = setSending "Millrace.Socket.Multicast.setGroupLoopback" sendingLoopback s (fromEnum isOn)

-- | What 'setGroupLoopback' has set.
getGroupLoopback :: Socket -> IO Bool
getGroupLoopback s =
  (/= 0) <$> onDescriptor "Millrace.Socket.Multicast.getGroupLoopback" s "" (`c_get_sending` sendingLoopback)

setSending :: String -> CInt -> Socket -> Int -> IO ()
setSending function what s value =
  void . onDescriptor function s (", " ++ show value) $ \descriptor ->
    c_set_sending descriptor what (fromIntegral value)
