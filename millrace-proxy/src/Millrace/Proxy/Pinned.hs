{-# LANGUAGE OverloadedStrings #-}

-- | Connections that a target has authenticated (NTLM, Negotiate). What is asked on them is asked in the name of one client. So each
-- belongs to the connection of that client, and ends with it. Must not know: sockets.
module Millrace.Proxy.Pinned
  ( Pins,
    newPins,
    pinnedMember,
    takePinned,
    keepPinned,
    asksForConnection,
    pinsConnection,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef
import qualified Data.Vault.Lazy as Vault
import Millrace.Proxy.Field (withoutBlanks)
import Millrace.Proxy.Link (Link (..))
import Millrace.Proxy.Member (Member (..))
import Network.HTTP.Types (HeaderName, ResponseHeaders, hAuthorization)
import Network.HTTP.Types.Header (hWWWAuthenticate)
import Network.Wai (Request, requestHeaders)
import Network.Wai.Handler.Millrace (belongingOfConnection)

-- | The pinned connections of a proxy.
data Pins = Pins
  { pinsKey :: !(Vault.Key Place),
    -- Has there been one? Until then no request looks for its own.
    pinsAreUsed :: !(IORef Bool)
  }

-- A client's: at most one.
type Place = IORef (Maybe (Member, Link))

newPins :: IO Pins
newPins = Pins <$> Vault.newKey <*> newIORef False

-- The place of the request's client. Nothing if the client's connection carries many requests at a time.
placeOf :: Pins -> Request -> IO (Maybe Place)
placeOf pins request = belongingOfConnection request (pinsKey pins) (newIORef Nothing) $ \place ->
  readIORef place >>= mapM_ (linkClose . snd)

-- | The target that the client's connection belongs to.
pinnedMember :: Pins -> Request -> IO (Maybe Member)
pinnedMember pins request = do
  used <- readIORef (pinsAreUsed pins)
  if used then placeOf pins request >>= maybe (return Nothing) (fmap (fmap fst) . readIORef) else return Nothing

-- | Takes the client's connection to this target, if nothing has happened on it since. It is the caller's to close. Does not block. Call it
-- masked.
takePinned :: Pins -> Request -> Member -> IO (Maybe Link)
takePinned pins request member = do
  used <- readIORef (pinsAreUsed pins)
  place <- if used then placeOf pins request else return Nothing
  held <- maybe (return Nothing) readIORef place
  case (place, held) of
    (Just found, Just (owner, link)) | memberTarget owner == memberTarget member -> do
      writeIORef found Nothing
      quiet <- linkIsQuiet link
      if quiet then return (Just link) else Nothing <$ linkClose link
    _ -> return Nothing

-- | Keeps a connection for the client, or closes it if the client's connection carries many requests at a time. Call it masked.
keepPinned :: Pins -> Request -> Member -> Link -> IO ()
keepPinned pins request member link = do
  writeIORef (pinsAreUsed pins) True
  place <- placeOf pins request
  former <- case place of
    Just found -> atomicModifyIORef' found (\held -> (Just (member, link), fmap snd held))
    Nothing -> return (Just link)
  mapM_ linkClose former

-- | Does the request authenticate the connection that it is sent on?
asksForConnection :: Request -> Bool
asksForConnection request = any (isOfConnection hAuthorization) (requestHeaders request)

-- | Does the connection belong to the client from now on, after this response? A target may authenticate it in several steps: the first
-- one is its offer.
pinsConnection :: Request -> ResponseHeaders -> Bool
pinsConnection request fields = asksForConnection request || any (isOfConnection hWWWAuthenticate) fields

-- The schemes that authenticate a connection and not a message (RFC 4559, section 6).
isOfConnection :: HeaderName -> (HeaderName, ByteString) -> Bool
isOfConnection wanted (name, value) = name == wanted && any ((`elem` ["ntlm", "negotiate"]) . scheme) (Char8.split ',' value)
  where
    scheme = CI.mk . Char8.takeWhile (/= ' ') . withoutBlanks
