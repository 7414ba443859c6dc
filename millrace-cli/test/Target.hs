-- | What proxies pass requests on to: targets that misbehave.
module Target
  ( withOneResponse,
    withSilentTarget,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (bracket)
import Control.Monad (forever)
import qualified Data.ByteString.Char8 as Char8
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network

-- | A target that gives this to whoever asks, and then ends the connection. The action gets its port.
withOneResponse :: String -> (String -> IO a) -> IO a
withOneResponse response use = listening $ \listener port ->
  bracket (forkIO (forever (bracket (fst <$> Network.accept listener) Network.close answer))) killThread (const (use port))
  where
    answer client = Network.recv client 4096 >> Network.sendAll client (Char8.pack response)

-- | A target that takes connections and says nothing. The action gets its port.
withSilentTarget :: (String -> IO a) -> IO a
withSilentTarget use = listening (const use)

listening :: (Network.Socket -> String -> IO a) -> IO a
listening use = bracket (Network.socket Network.AF_INET Network.Stream Network.defaultProtocol) Network.close $ \listener -> do
  Network.bind listener (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
  Network.listen listener 64
  port <- Network.socketPort listener
  use listener (show port)
