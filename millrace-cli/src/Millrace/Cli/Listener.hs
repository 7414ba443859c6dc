-- | A listening socket from a host and a port. Knows nothing of HTTP but how a URL names an address.
module Millrace.Cli.Listener
  ( withListener
  , addressUrl
  ) where

import Control.Exception (bracket, bracketOnError, throwIO, try)
import Foreign.C (Errno (..), eACCES, eADDRINUSE, eADDRNOTAVAIL)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Failure
import Millrace.Socket

-- | Listens on the first address of a host that can be had, and closes the socket afterwards. Host names are looked
-- up, which may block for as long as the resolver takes. Throws 'Failure'.
--
-- @since 0.1.0
withListener :: String -> PortNumber -> (Socket -> IO a) -> IO a
withListener host port = bracket (resolve host port >>= firstOf) close
  where
    firstOf addresses = case addresses of
      [] -> throwIO (unknownHost host "it has no address")
      [address] -> listenOn address >>= either (throwIO . cannotListen host port) pure
      address : others -> listenOn address >>= either (const (firstOf others)) pure

resolve :: String -> PortNumber -> IO [AddrInfo]
resolve host port = try (getAddrInfo (Just hints) (Just host) (Just (show port))) >>= either (throwIO . reason) pure
  where
    hints = defaultHints {addrFlags = [AI_PASSIVE], addrSocketType = Stream}
    reason exception = unknownHost host (ioe_description (exception :: IOException))

listenOn :: AddrInfo -> IO (Either IOException Socket)
listenOn address = try . bracketOnError open close $ \listener -> do
  -- A server that is started again must not wait for the old connections' TIME-WAIT to pass.
  setSocketOption listener ReuseAddr 1
  bind listener (addrAddress address)
  listen listener backlog
  pure listener
  where
    open = socket (addrFamily address) (addrSocketType address) (addrProtocol address)
    backlog = 4096 -- the kernel takes the smaller of this and net.core.somaxconn

unknownHost :: String -> String -> Failure
unknownHost host reason =
  Failure
    { failureAttempt = "listen on " <> host
    , failureReason = reason
    , failureRemedy = "--host takes an address of this machine, or a name for one: 127.0.0.1, ::1, localhost."
    }

cannotListen :: String -> PortNumber -> IOException -> Failure
cannotListen host port exception = Failure ("listen on " <> authority host port) reason remedy
  where
    (reason, remedy)
      | is eADDRINUSE =
          ( "the port is in use"
          , "Stop the program that listens there, or choose another port with --port (0 takes any free one)."
          )
      | is eACCES =
          ( "permission denied"
          , "Ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one with --port."
          )
      | is eADDRNOTAVAIL =
          ( "this machine has no such address"
          , "Choose one of its own with --host, or 0.0.0.0 or :: for all of them."
          )
      | otherwise = (ioe_description exception, "Try another --host or --port.")
    is (Errno number) = ioe_errno exception == Just number

-- | Where a browser finds the server at this address.
--
-- >>> addressUrl (SockAddrInet 8080 (tupleToHostAddress (127, 0, 0, 1)))
-- "http://127.0.0.1:8080"
--
-- @since 0.1.0
addressUrl :: SockAddr -> String
addressUrl address = "http://" <> show address -- network shows them as URLs do: 127.0.0.1:80, [::1]:80

authority :: String -> PortNumber -> String
authority host port
  | ':' `elem` host = "[" <> host <> "]:" <> show port
  | otherwise = host <> ":" <> show port
