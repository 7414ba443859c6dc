{-# LANGUAGE CPP #-}
{-# OPTIONS_GHC -Wno-dodgy-exports #-}

-- | Millrace, in one import: sockets, receiving and sending, servers and clients by name, timers, deadlines.
--
-- > import Millrace
-- >
-- > main :: IO ()
-- > main = withServer defaultServer (passive "7000") $ \connection -> recv connection 4096 >>= sendAll connection
--
-- Some names are those of @base@: import "Millrace.Concurrent" in place of "Control.Concurrent",
-- "Control.Concurrent.STM" and "System.Timeout". The other modules, by task:
--
-- [Servers and clients] "Millrace.Socket.Connect" and "Millrace.Name" (here), "Millrace.Pool" for connections that are
--   used again, "Millrace.Signal" for SIGTERM
-- [Bytes that come and go] "Millrace.Stream": lines, frames, copying, limits
-- [Sockets] "Millrace.Socket", "Millrace.Socket.ByteString", "Millrace.Socket.File" (here); "Millrace.Socket.Datagram",
--   "Millrace.Socket.Batch", "Millrace.Socket.Gso" and "Millrace.Socket.Multicast" for UDP; "Millrace.Socket.Unix",
--   "Millrace.Socket.Option"
-- [Files] "Millrace.File", "Millrace.File.Buffered", "Millrace.File.Access", "Millrace.File.Temporary",
--   "Millrace.Directory", "Millrace.Watch", "Millrace.Log"
-- [Programs] "Millrace.Process", "Millrace.Pipe", "Millrace.Terminal", "Millrace.Splice"
-- [Threads] "Millrace.Concurrent": those of base and stm, with the times and waits of Millrace
-- [Time] "Millrace.Duration", "Millrace.Deadline", "Millrace.Timer" (here)
-- [Tests] "Millrace.Simulation": a machine with faults, in memory
-- [Below all of these] "Millrace.Wait" (here), "Millrace.Socket.Borrowed", "Millrace.Operation", "Millrace.Manager"
module Millrace
  ( module Millrace.Deadline,
    module Millrace.Socket,
    module Millrace.Socket.ByteString,
    module ByName,
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
#if defined(linux_HOST_OS) && !defined(mingw32_HOST_OS)
import Millrace.Name as ByName (Query (..), host, passive)
import Millrace.Socket.Connect as ByName
#else
-- Nothing is exported in its place.
import Prelude as ByName ()
#endif
