-- |
-- Listening sockets for a port and a host preference. Knows nothing of serving.
module Millrace.Http.Listener (openListener) where

import Control.Exception (IOException, bracketOnError, catch)
import Control.Monad (when)
import Data.List (sortOn)
import Data.Streaming.Network.Internal (HostPreference (..))
import Millrace.Socket

-- | Binds and listens on the first address of the host preference that can be bound. Throws the 'IOError' of the last
-- one that could not.
openListener :: Int -> HostPreference -> IO Socket
openListener port preference = do
  addresses <- getAddrInfo (Just hints) host (Just (show port))
  tryAll (ordered addresses)
  where
    hints = defaultHints {addrFlags = [AI_PASSIVE], addrSocketType = Stream}
    host = case preference of
      Host name -> Just name
      _ -> Nothing
    isIPv4 = (== AF_INET) . addrFamily
    isIPv6 = (== AF_INET6) . addrFamily
    ordered = case preference of
      HostIPv4 -> sortOn (not . isIPv4)
      HostIPv4Only -> filter isIPv4
      HostIPv6 -> sortOn (not . isIPv6)
      HostIPv6Only -> filter isIPv6
      _ -> id
    tryAll [] = ioError (userError ("No address to listen on for " ++ show preference ++ " port " ++ show port))
    tryAll [address] = listenOn preference address
    tryAll (address : rest) = listenOn preference address `catch` orElse (tryAll rest)
    orElse :: IO Socket -> IOException -> IO Socket
    orElse next _ = next

listenOn :: HostPreference -> AddrInfo -> IO Socket
listenOn preference address =
  bracketOnError (socket (addrFamily address) (addrSocketType address) (addrProtocol address)) close $ \listener -> do
    setSocketOption listener ReuseAddr 1
    -- "Any" on IPv6 takes IPv4 as well, whatever the system's default.
    whenIPv6 (setSocketOption listener IPv6Only (if preference == HostIPv6Only then 1 else 0))
    bind listener (addrAddress address)
    listen listener backlog
    return listener
  where
    whenIPv6 action = when (addrFamily address == AF_INET6) (action `catch` ignore)
    ignore :: IOException -> IO ()
    ignore _ = return ()

-- The kernel reduces it to net.core.somaxconn.
backlog :: Int
backlog = max 2048 maxListenQueue
