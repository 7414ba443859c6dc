-- Must not know: sockets, HTTP.

-- | Limits of the times that a client waits.
module Millrace.HttpClient.Limits
  ( Limits (..),
    defaultLimits,
  )
where

import Millrace.Deadline

-- | Limits of the times that a client waits for the network. These limits are deadlines of operations. http-client's
-- own response timeout counts, too.
data Limits = Limits
  { -- | For a connection to be ready: the name is looked up, an address answers, a proxy agrees, and the handshake of
    -- TLS is done.
    connectLimit :: !Duration,
    -- | For each part of a response: it counts from one received part to the next one, and from the request to the
    -- first one.
    receiveLimit :: !Duration,
    -- | For each part of a request to be taken by the system, whose buffer empties when the server receives.
    sendLimit :: !Duration
  }

-- | 30 seconds for a connection, and no limit for the rest.
defaultLimits :: Limits
defaultLimits = Limits {connectLimit = seconds 30, receiveLimit = unlimited, sendLimit = unlimited}
