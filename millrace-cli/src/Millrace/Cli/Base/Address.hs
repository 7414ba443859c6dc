{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | Addresses of sockets as text.
module Millrace.Cli.Base.Address
  ( renderHost,
    addressUrl,
    authority,
  )
where

import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import Millrace.Http.FieldSyntax (hostText)
import Network.Socket (PortNumber, SockAddr (..))

-- | The host of an address, as a log names its clients: 'hostText', and @unix@ for a Unix socket.
renderHost :: SockAddr -> Builder
renderHost = maybe "unix" byteString . hostText

-- | The URL by which a browser finds the server at this address. A Unix socket has no URL: it is written @unix:PATH@,
-- as nginx does, or @unix:\@NAME@ if it is abstract.
--
-- >>> addressUrl (SockAddrInet 8080 (tupleToHostAddress (127, 0, 0, 1)))
-- "http://127.0.0.1:8080"
addressUrl :: SockAddr -> String
addressUrl address = case address of
  SockAddrUnix ('\0' : name) -> "unix:@" <> name
  SockAddrUnix path -> "unix:" <> path
  SockAddrInet port _ -> "http://" <> host <> ":" <> show port
  SockAddrInet6 port _ _ _ -> "http://" <> (if ':' `elem` host then "[" <> host <> "]" else host) <> ":" <> show port
  where
    host = maybe "" Char8.unpack (hostText address)

-- | A host and a port as in a URL.
--
-- >>> authority "::1" 80
-- "[::1]:80"
authority :: String -> PortNumber -> String
authority host port
  | ':' `elem` host = "[" <> host <> "]:" <> show port
  | otherwise = host <> ":" <> show port
