-- |
-- Listening sockets of the network package. The server works on a duplicate, so that the owner of the socket can
-- still ask it for its name, and close it. Must not know: sessions.
module Millrace.Http.Server.NetworkSocket (duplicate, ours, closeTheirs, awaitClose) where

import Control.Exception (mask_, onException, uninterruptibleMask_)
import Control.Monad (when)
import Foreign.C.Error (throwErrnoIfMinus1)
import Foreign.C.Types (CInt (..))
import Millrace.Socket (Socket, fromDescriptor)
import Millrace.Timer (threadDelay)
import qualified Network.Socket as Network

foreign import ccall unsafe "http_socket_duplicate"
  c_duplicate :: CInt -> IO CInt

-- | Duplicates a descriptor of a socket. The name is that of the function, for the exception. Throws an @IOError@.
duplicate :: String -> CInt -> IO CInt
duplicate name = throwErrnoIfMinus1 ("Network.Wai.Handler.Millrace." ++ name) . c_duplicate

-- | Makes a "Millrace.Socket" from a duplicate of the socket. Throws an @IOError@.
ours :: String -> Network.Socket -> IO Socket
ours name theirs = mask_ $ do
  descriptor <- Network.withFdSocket theirs (duplicate name)
  fromDescriptor descriptor `onException` (Network.mkSocket descriptor >>= closeTheirs)

-- | Closes it. Masked, because GHC's I\/O manager (before base 4.16) takes a lock per capability to close a descriptor.
-- An exception while it waits for the second lock leaves the first one locked, and threads that wait for certain
-- descriptors then wait for ever.
closeTheirs :: Network.Socket -> IO ()
closeTheirs = uninterruptibleMask_ . Network.close

-- | Waits until the socket is closed. There is no notification, so this polls, and may return up to a tenth of a second
-- late.
--
-- Do not wait for the descriptor in GHC's I\/O manager instead, although the network package ends such waits when it
-- closes the socket. The number may belong to another file when the wait begins. The manager then keeps an entry that
-- the kernel has dropped, and closing the number again throws (seen with base 4.15) and leaves locks of the manager
-- locked for good.
awaitClose :: Network.Socket -> IO ()
awaitClose theirs = do
  open <- (>= 0) <$> Network.unsafeFdSocket theirs
  when open (threadDelay 100000 >> awaitClose theirs)
