-- | Millrace, in one import: sockets, receiving and sending, timers, deadlines.
--
-- For the parts see "Millrace.Socket", "Millrace.Socket.ByteString", "Millrace.Socket.File",
-- "Millrace.Socket.Borrowed", "Millrace.Socket.Datagram", "Millrace.File", "Millrace.Timer", "Millrace.Deadline",
-- "Millrace.Wait", "Millrace.Manager", and "Millrace.Operation" for what they are made of.
module Millrace
  ( module Millrace.Deadline,
    module Millrace.Socket,
    module Millrace.Socket.ByteString,
    module Millrace.Socket.File,
    module Millrace.Timer,
    module Millrace.Wait,
  )
where

import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.File
import Millrace.Timer
import Millrace.Wait
