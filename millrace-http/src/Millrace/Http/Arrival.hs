-- |
-- Whether something has come to a socket that nobody has taken yet. Knows nothing of what it is.
module Millrace.Http.Arrival (hasArrived) where

import Foreign.C.Types (CInt (..))
import Millrace.Socket (Socket, withFdSocket)

-- | Is there something to receive, or on a listening socket a connection to take? Does not block. Throws an @IOError@ if
-- the socket is closed.
hasArrived :: Socket -> IO Bool
hasArrived socket = (/= 0) <$> withFdSocket socket c_pending

foreign import ccall unsafe "http_socket_pending"
  c_pending :: CInt -> IO CInt
