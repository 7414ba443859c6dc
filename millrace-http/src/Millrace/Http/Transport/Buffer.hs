-- |
-- The borrowed buffers that transports receive into, for what stands above a transport. Must not know: HTTP.
module Millrace.Http.Transport.Buffer (Borrowed, borrowedSize, borrowedBytes, borrowedAt, borrow, giveBack) where

import Millrace.Socket.Borrowed (Borrowed, borrow, borrowedAt, borrowedBytes, borrowedSize, giveBack)
