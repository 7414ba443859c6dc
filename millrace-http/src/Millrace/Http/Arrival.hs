-- |
-- Whether something has come to a socket that nobody has taken yet. Knows nothing of what it is.
module Millrace.Http.Arrival (hasArrived) where

import Foreign.C.Types (CInt (..))
import Millrace.Operation (whileOpen)
import Millrace.Socket (Socket, socketHandle)

-- | Is there something to receive, or on a listening socket a connection to take? Does not block. A closed socket has
-- nothing.
hasArrived :: Socket -> IO Bool
hasArrived socket = maybe False (/= 0) <$> whileOpen (socketHandle socket) c_pending

foreign import ccall unsafe "http_socket_pending"
  c_pending :: CInt -> IO CInt
