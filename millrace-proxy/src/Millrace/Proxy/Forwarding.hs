{-# LANGUAGE OverloadedStrings #-}

-- Must not know: connections.

-- | The fields that tell a target about the client: Forwarded (RFC 7239) and its older relatives.
module Millrace.Proxy.Forwarding
  ( Claimed (..),
    claimsNothing,
    inOrder,
    forwardedFields,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Maybe (fromMaybe)
import Millrace.Http.FieldSyntax (hostText, isToken)
import Millrace.Proxy.Field (OwnField, joined, ownField)
import Millrace.Proxy.Settings (Forwarding (..))
import Network.Wai (Request, isSecure, remoteHost, requestHeaderHost)

-- | The client's fields about itself and other proxies. Each list has the values of all fields of one name.
data Claimed = Claimed
  { claimedForwarded :: [ByteString],
    claimedFor :: [ByteString],
    claimedProto :: [ByteString],
    claimedHost :: [ByteString]
  }

-- | No such fields.
claimsNothing :: Claimed
claimsNothing = Claimed [] [] [] []

-- | Reverses the lists, which were gathered in reverse.
inOrder :: Claimed -> Claimed
inOrder (Claimed said for proto host) = Claimed (reverse said) (reverse for) (reverse proto) (reverse host)

-- | The fields for a target.
forwardedFields :: Forwarding -> Request -> Claimed -> [(OwnField, ByteString)]
forwardedFields policy request claimed = case policy of
  ReplaceForwarded -> ours claimsNothing
  AppendForwarded -> ours claimed
  PassForwarded ->
    line forwarded (claimedForwarded claimed)
      ++ line forwardedFor (claimedFor claimed)
      ++ line forwardedProto (claimedProto claimed)
      ++ line forwardedHost (claimedHost claimed)
  where
    line _ [] = []
    line name values = [(name, joined values)]
    client = fromMaybe "unknown" (hostText (remoteHost request))
    proto = if isSecure request then "https" else "http"
    ours said =
      line forwardedFor (claimedFor said ++ [client])
        -- The first proxy knows what the client used.
        ++ line forwardedProto (orOwn [proto] (claimedProto said))
        ++ maybe [] (\name -> line forwardedHost (orOwn [name] (claimedHost said))) (requestHeaderHost request)
        ++ line
          forwarded
          ( claimedForwarded said
              ++ [ ByteString.concat
                     ( "for=" :
                       node :
                       ";proto=" :
                       proto :
                       maybe
                         []
                         (\name -> [";host=", quoted name])
                         (requestHeaderHost request)
                     )
                 ]
          )
    orOwn own values = if null values then own else values
    -- RFC 7239, section 6: an IPv6 address is in brackets, and so in quotes.
    node = if ByteString.elem 58 client then ByteString.concat ["\"[", client, "]\""] else client
    -- A host with a port is not a token. Neither quotes nor backslashes are in a valid one.
    quoted name =
      if isToken name
        then name
        else ByteString.concat ["\"", ByteString.filter (\byte -> byte /= 34 && byte /= 92) name, "\""]

forwarded, forwardedFor, forwardedProto, forwardedHost :: OwnField
forwarded = ownField "Forwarded"
forwardedFor = ownField "X-Forwarded-For"
forwardedProto = ownField "X-Forwarded-Proto"
forwardedHost = ownField "X-Forwarded-Host"
