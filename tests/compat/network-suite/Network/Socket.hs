{-# LANGUAGE PackageImports #-}

-- | Network's interface on Millrace, with sockets that programs which the process starts get, too. Every server and
-- client of network's specs expects that of a new socket; Millrace closes all of its own in such programs.
module Network.Socket (module Names, socket) where

import "millrace-names" Network.Socket as Names hiding (socket)
import qualified "millrace-names" Network.Socket as Millrace (socket)
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Posix.Types (Fd (..))

-- | A socket of this kind.
socket :: Family -> SocketType -> ProtocolNumber -> IO Socket
socket family kind protocol = do
  s <- Millrace.socket family kind protocol
  withFdSocket s (\fd -> setFdOption (Fd fd) CloseOnExec False)
  return s
