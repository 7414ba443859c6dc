-- |
-- A listening socket of the network package that a server serves: on a duplicate, so that whoever has the socket can
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

-- | Another descriptor of the same socket, for a function of this name. Throws an @IOError@.
duplicate :: String -> CInt -> IO CInt
duplicate name = throwErrnoIfMinus1 ("Network.Wai.Handler.Millrace." ++ name) . c_duplicate

-- | A socket of ours on a duplicate. Throws an @IOError@.
ours :: String -> Network.Socket -> IO Socket
ours name theirs = mask_ $ do
  descriptor <- Network.withFdSocket theirs (duplicate name)
  fromDescriptor descriptor `onException` (Network.mkSocket descriptor >>= closeTheirs)

-- | Closes it. GHC's I\/O manager (before base 4.16) takes a lock for each capability to do so, and an exception that comes
-- while it waits for the second leaves the first one locked: threads that wait for certain descriptors then do so for ever.
closeTheirs :: Network.Socket -> IO ()
closeTheirs = uninterruptibleMask_ . Network.close

-- | Waits until somebody has closed the socket, which nobody tells: returns a tenth of a second later.
--
-- To wait for the descriptor in GHC's I\/O manager, which ends such waits when the network package closes it, is a trap:
-- the number may mean something else already when the wait begins. The manager then keeps an entry that the kernel has
-- dropped, and closing the number again throws (seen with base 4.15), with locks of the manager's taken for good.
awaitClose :: Network.Socket -> IO ()
awaitClose theirs = do
  open <- (>= 0) <$> Network.unsafeFdSocket theirs
  when open (threadDelay 100000 >> awaitClose theirs)
