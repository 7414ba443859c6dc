-- | Options of sockets, and the layouts of @datagrams.h@, @gso_batches.h@ and @passing.h@, as the C compiler sees them.
module Millrace.Internal.Constants.Sockets where

import Foreign.C.Types (CInt)
import Network.Socket (SocketOption (SockOpt))

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include "datagrams.h"
#include "passing.h"
#include "gso_batches.h"

optionKeepAlive, optionKeepAliveIdle, optionKeepAliveInterval, optionKeepAliveProbes :: SocketOption
optionKeepAlive = SockOpt #{const SOL_SOCKET} #{const SO_KEEPALIVE}
optionKeepAliveIdle = SockOpt #{const IPPROTO_TCP} #{const TCP_KEEPIDLE}
optionKeepAliveInterval = SockOpt #{const IPPROTO_TCP} #{const TCP_KEEPINTVL}
optionKeepAliveProbes = SockOpt #{const IPPROTO_TCP} #{const TCP_KEEPCNT}

optionNoDelay, optionUserTimeout, optionFastOpen, optionReusePort, optionReuseAddress, optionOnlyIPv6 :: SocketOption
optionNoDelay = SockOpt #{const IPPROTO_TCP} #{const TCP_NODELAY}
optionUserTimeout = SockOpt #{const IPPROTO_TCP} #{const TCP_USER_TIMEOUT}
optionFastOpen = SockOpt #{const IPPROTO_TCP} #{const TCP_FASTOPEN}
optionReusePort = SockOpt #{const SOL_SOCKET} #{const SO_REUSEPORT}
optionReuseAddress = SockOpt #{const SOL_SOCKET} #{const SO_REUSEADDR}
optionOnlyIPv6 = SockOpt #{const IPPROTO_IPV6} #{const IPV6_V6ONLY}

optionSendBuffer, optionReceiveBuffer, optionLinger, optionPassCredentials, optionPeerCredentials :: SocketOption
optionSendBuffer = SockOpt #{const SOL_SOCKET} #{const SO_SNDBUF}
optionReceiveBuffer = SockOpt #{const SOL_SOCKET} #{const SO_RCVBUF}
optionLinger = SockOpt #{const SOL_SOCKET} #{const SO_LINGER}
optionPassCredentials = SockOpt #{const SOL_SOCKET} #{const SO_PASSCRED}
optionPeerCredentials = SockOpt #{const SOL_SOCKET} #{const SO_PEERCRED}

-- | @struct linger@: its size, and where its two numbers are.
lingerSize, lingerIsOn, lingerSeconds :: Int
lingerSize = #{size struct linger}
lingerIsOn = #{offset struct linger, l_onoff}
lingerSeconds = #{offset struct linger, l_linger}

batchMost :: Int
batchMost = #{const MRH_BATCH}

-- | @mrh_outgoing@.
outgoingSize, outgoingBytes, outgoingLength, outgoingAddress, outgoingAddressLength :: Int
outgoingSize = #{size mrh_outgoing}
outgoingBytes = #{offset mrh_outgoing, bytes}
outgoingLength = #{offset mrh_outgoing, size}
outgoingAddress = #{offset mrh_outgoing, address}
outgoingAddressLength = #{offset mrh_outgoing, address_length}

-- | @mrh_incoming@.
incomingSize, incomingAddress, incomingAddressLength, incomingLength, incomingSegment :: Int
incomingSize = #{size mrh_incoming}
incomingAddress = #{offset mrh_incoming, address}
incomingAddressLength = #{offset mrh_incoming, address_length}
incomingLength = #{offset mrh_incoming, size}
incomingSegment = #{offset mrh_incoming, segment}

gsoBatchesMost, gsoStride :: Int
gsoBatchesMost = #{const MRH_GSO_BATCHES}
gsoStride = #{const MRH_GSO_STRIDE}

-- | @mrh_gso_batch@.
gsoSize, gsoPeer, gsoPeerLength, gsoLocal, gsoLocalLength :: Int
gsoSize = #{size mrh_gso_batch}
gsoPeer = #{offset mrh_gso_batch, peer}
gsoPeerLength = #{offset mrh_gso_batch, peer_length}
gsoLocal = #{offset mrh_gso_batch, local}
gsoLocalLength = #{offset mrh_gso_batch, local_length}
gsoStart, gsoLength, gsoSegmentAt, gsoEcnAt :: Int
gsoStart = #{offset mrh_gso_batch, bytes}
gsoLength = #{offset mrh_gso_batch, size}
gsoSegmentAt = #{offset mrh_gso_batch, segment}
gsoEcnAt = #{offset mrh_gso_batch, ecn}

sendingInterface, sendingHops, sendingLoopback :: CInt
sendingInterface = #{const MRH_MULTICAST_INTERFACE}
sendingHops = #{const MRH_MULTICAST_HOPS}
sendingLoopback = #{const MRH_MULTICAST_LOOPBACK}

passedMost :: Int
passedMost = #{const MRH_PASSED_MAX}

-- | @mrh_credentials@, three numbers of 32 bits.
credentialsSize :: Int
credentialsSize = #{size mrh_credentials}

-- | @mrh_arrived@.
arrivedSize, arrivedCount, arrivedIsPartly, arrivedHasCredentials, arrivedCredentials, arrivedPassed :: Int
arrivedSize = #{size mrh_arrived}
arrivedCount = #{offset mrh_arrived, count}
arrivedIsPartly = #{offset mrh_arrived, is_truncated}
arrivedHasCredentials = #{offset mrh_arrived, has_credentials}
arrivedCredentials = #{offset mrh_arrived, credentials}
arrivedPassed = #{offset mrh_arrived, passed}
