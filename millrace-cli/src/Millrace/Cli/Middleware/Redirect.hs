{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | Sends clients from http to https.
module Millrace.Cli.Middleware.Redirect (redirecting) where

import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAlphaNum, isAscii)
import Millrace.Cli.Base.HostField (nameOfHost)
import Millrace.Cli.Base.Refusal (refusal)
import Millrace.Cli.Base.RequestPath (encodeBeyondAscii)
import Millrace.Socket (PortNumber)
import Network.HTTP.Types (badRequest400, hLocation, permanentRedirect308)
import Network.Wai

-- | Answers with the same address on https, at this port. Challenges of ACME go to the application: the issuer of the
-- first certificate asks for them before there is any. Only plain names may follow. Otherwise the
-- application could take the path for another one, such as one with @..@, and answer it without encryption.
redirecting :: PortNumber -> Application -> Application
redirecting port application request respond
  | isChallenge (rawPathInfo request) = application request respond
  | otherwise = respond $ case nameOfHost =<< requestHeaderHost request of
    Nothing -> refusal badRequest400 []
    Just name ->
      refusal
        permanentRedirect308
        [(hLocation, "https://" <> name <> portOf <> encodeBeyondAscii (rawPathInfo request <> rawQueryString request))]
  where
    isChallenge path = maybe False (areNames . Char8.split '/') (Char8.stripPrefix "/.well-known/acme-challenge/" path)
    areNames parts = not (null parts) && all isPlain parts
    isPlain part = not (Char8.null part) && part `notElem` [".", ".."] && Char8.all isOfName part
    isOfName letter = isAscii letter && isAlphaNum letter || letter `elem` ("-._~" :: String)
    portOf = if port == 443 then "" else ":" <> Char8.pack (show port)
