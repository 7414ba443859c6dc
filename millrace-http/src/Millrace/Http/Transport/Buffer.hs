-- |
-- The borrowed buffers that transports receive into, for what stands above a transport. Knows no HTTP.
module Millrace.Http.Transport.Buffer (Lent, lentSize, lentBytes, lentAt, borrow, giveBack) where

import Millrace.Socket.Lent (Lent, borrow, giveBack, lentAt, lentBytes, lentSize)
