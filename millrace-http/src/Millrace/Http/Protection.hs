-- |
-- How the connections of a server become protected, for example by TLS. Must not know: HTTP.
--
-- The server waits for a client's first byte as it waits for a request: without buffers, and under the same limits.
-- Then 'Protection' decides by that byte, and does the handshake in the connection's own thread, so that it does not
-- delay other connections.
--
-- Exposed for other packages of Millrace. Not covered by the version policy.
module Millrace.Http.Protection
  ( Protection (..),
    Others (..),
  )
where

import Control.Exception (SomeException)
import Data.ByteString (ByteString)
import Data.Word (Word8)
import Millrace.Http.Transport (Functions)
import Millrace.Socket (Socket)

-- | How connections are protected.
data Protection = Protection
  { -- | Whether this is the first byte of a handshake.
    protectionBeginsWith :: !(Word8 -> Bool),
    -- | Does the handshake with a client that has sent these bytes, and returns the functions of the protected
    -- connection, which also close the socket. If it throws, the server closes the socket.
    protectionHandshake :: !(ByteString -> Socket -> IO Functions),
    protectionOthers :: !Others
  }

-- | How to treat a client that sends no handshake.
data Others
  = -- | Serve it without protection.
    ServedAsTheyAre
  | -- | Send it these bytes, end the connection, and report it.
    AnsweredWith !ByteString !SomeException
