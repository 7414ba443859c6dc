-- |
-- The borrowed buffers that transports receive into, for what stands above a transport. Must not know: HTTP.
module Millrace.Http.Transport.Buffer (Lent, lentSize, lentBytes, lentAt, borrow, giveBack) where

import Millrace.Socket.Lent (Lent, borrow, giveBack, lentAt, lentBytes, lentSize)
