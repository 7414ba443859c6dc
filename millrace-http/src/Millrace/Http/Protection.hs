-- |
-- How the connections of a server become protected ones, say by TLS. Must not know: HTTP.
--
-- The server waits for a client's first byte as it waits for a request: without memory, and under the same limits. Then this says
-- what the client is and does the handshake, in the connection's own thread, so that accepting goes on meanwhile.
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
  { -- | Is this the first byte of a handshake?
    protectionBeginsWith :: !(Word8 -> Bool),
    -- | Does the handshake with a client from which these bytes have come, and returns the functions of the protected connection.
    -- They close the socket, too. If it throws, the socket stays the server's.
    protectionHandshake :: !(ByteString -> Socket -> IO Functions),
    protectionOthers :: !Others
  }

-- | What becomes of a client that does no handshake.
data Others
  = -- | It is served on a connection that is not protected.
    ServedAsTheyAre
  | -- | It gets these bytes, and the connection ends. This is reported.
    AnsweredWith !ByteString !SomeException
