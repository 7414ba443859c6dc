{-# LANGUAGE OverloadedStrings #-}

-- | Sends clients from http to https. Must not know: servers, files.
module Millrace.Cli.Redirect (redirecting) where

import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.HostField (nameOfHost)
import Millrace.Cli.Refusal (refusal)
import Millrace.Socket (PortNumber)
import Network.HTTP.Types (badRequest400, hLocation, permanentRedirect308)
import Network.Wai

-- | Answers with the same address on https, at this port. Challenges of ACME go to the application: the issuer of the first
-- certificate asks for them before there is any.
--
-- @since 0.1.0
redirecting :: PortNumber -> Application -> Application
redirecting port application request respond = case pathInfo request of
  ".well-known" : "acme-challenge" : _ -> application request respond
  _ -> respond $ case nameOfHost =<< requestHeaderHost request of
    Nothing -> refusal badRequest400 []
    Just name -> refusal permanentRedirect308 [(hLocation, "https://" <> name <> portOf <> rawPathInfo request <> rawQueryString request)]
  where
    portOf = if port == 443 then "" else ":" <> Char8.pack (show port)
