{-# LANGUAGE OverloadedStrings #-}

-- Must not know: connections.

-- | The chain of proxies that a request goes through: whether it has come here before (Via), and how much further it
-- may go (Max-Forwards).
module Millrace.Proxy.Chain
  ( ProxyName,
    newProxyName,
    viaText,
    hasBeenAt,
    Onward (..),
    onward,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isDigit)
import Millrace.Proxy.Identifier (Identifiers, proxyIdentifier)
import Network.HTTP.Types (HeaderName, RequestHeaders, methodOptions)
import Network.HTTP.Types.Version (http10, http11)
import Network.Wai (Request, httpVersion, requestHeaders, requestMethod)

-- | The name of a proxy in Via: @millrace-@ and an identifier. Each proxy makes a new one, so that no two proxies share
-- a name, and the name says nothing about the machine.
newtype ProxyName = ProxyName ByteString

newProxyName :: Identifiers -> ProxyName
newProxyName identifiers = ProxyName ("millrace-" <> proxyIdentifier identifiers)

-- | The text that the proxy adds to Via (RFC 9110, section 7.6.3): the version that the client spoke, and the proxy's
-- name.
viaText :: ProxyName -> Request -> ByteString
viaText (ProxyName name) request = version <> name
  where
    version
      | httpVersion request == http11 = "1.1 "
      | httpVersion request == http10 = "1.0 "
      | otherwise = "2 "

-- | Whether the request has come through this proxy before.
hasBeenAt :: ProxyName -> Request -> Bool
hasBeenAt (ProxyName name) request =
  or [name `ByteString.isInfixOf` value | (field, value) <- requestHeaders request, field == "via"]

-- | Whether a request may go further.
data Onward
  = -- | It may: as it is, or with its Max-Forwards reduced by one.
    Onward !Request
  | -- | It may not. The proxy answers it.
    EndsHere
  | -- | Max-Forwards is no number.
    Unclear

-- | Reads Max-Forwards of a request with the method OPTIONS (RFC 9110, section 7.6.2). With other methods that a proxy
-- passes on the field means nothing.
onward :: Request -> Onward
onward request
  | requestMethod request /= methodOptions = Onward request
  | otherwise = case [value | (field, value) <- requestHeaders request, field == maxForwards] of
    [] -> Onward request
    [digits] | isNumber digits -> case Char8.dropWhile (== '0') digits of
      "" -> EndsHere
      significant ->
        Onward request {requestHeaders = reduced (Char8.pack (show (number significant - 1))) (requestHeaders request)}
    _ -> Unclear
  where
    isNumber digits = not (Char8.null digits) && Char8.all isDigit digits
    -- A greater number is reduced to the most that this proxy counts.
    number significant = if Char8.length significant > 9 then 999999999 else maybe 0 fst (Char8.readInt significant)

reduced :: ByteString -> RequestHeaders -> RequestHeaders
reduced digits fields = [(field, if field == maxForwards then digits else value) | (field, value) <- fields]

maxForwards :: HeaderName
maxForwards = "Max-Forwards"
