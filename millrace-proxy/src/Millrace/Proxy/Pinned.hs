{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: sockets.

-- | Connections that a target has authenticated (NTLM, Negotiate). A request on such a connection is made in the
-- name of one client. So each belongs to the connection of that client, and ends with it.
module Millrace.Proxy.Pinned
  ( Pins,
    newPins,
    pinnedMember,
    takePinned,
    keepPinned,
    tidyPins,
    asksForConnection,
    pinsConnection,
  )
where

import Control.Concurrent.MVar
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
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
  { pinsKey :: !(Vault.Key ClientSlot),
    -- The slots of all clients. While there is none, no request looks for its own.
    pinsSlots :: !(IORef (IntMap ClientSlot)),
    pinsNumbers :: !(IORef Int)
  }

-- The pinned connection of a client, at most one. The variable is full, except while a thread looks whether the target
-- has closed the connection.
data ClientSlot = ClientSlot !Int !(MVar (Maybe (Member, Link)))

newPins :: IO Pins
newPins = Pins <$> Vault.newKey <*> newIORef IntMap.empty <*> newIORef 0

-- The slot of the request's client. Nothing if the client's connection carries many requests at a time.
slotOf :: Pins -> Request -> IO (Maybe ClientSlot)
slotOf pins request = belongingOfConnection request (pinsKey pins) make end
  where
    make = do
      number <- atomicModifyIORef' (pinsNumbers pins) (\last' -> (last' + 1, last'))
      slot <- ClientSlot number <$> newMVar Nothing
      slot <$ atomicModifyIORef' (pinsSlots pins) (\known -> (IntMap.insert number slot known, ()))
    end (ClientSlot number variable) = do
      atomicModifyIORef' (pinsSlots pins) (\known -> (IntMap.delete number known, ()))
      readMVar variable >>= mapM_ (linkClose . snd)

-- The slot of the request's client, if any client has one.
knownSlot :: Pins -> Request -> IO (Maybe ClientSlot)
knownSlot pins request = do
  unused <- IntMap.null <$> readIORef (pinsSlots pins)
  if unused then return Nothing else slotOf pins request

-- | The target that the client's connection belongs to.
pinnedMember :: Pins -> Request -> IO (Maybe Member)
pinnedMember pins request =
  knownSlot pins request >>= maybe (return Nothing) (\(ClientSlot _ variable) -> fmap fst <$> readMVar variable)

-- | Takes the client's connection to this target, if nothing has happened on it since. The caller must close it. Does
-- not block. Call it with asynchronous exceptions masked.
takePinned :: Pins -> Request -> Member -> IO (Maybe Link)
takePinned pins request member =
  knownSlot pins request >>= maybe (return Nothing) (\(ClientSlot _ variable) -> modifyMVar variable taken)
  where
    taken (Just (owner, link)) | memberTarget owner == memberTarget member = (,) Nothing <$> ifQuiet link
    taken held = return (held, Nothing)

-- | Keeps a connection for the client, or closes it if the client's connection carries many requests at a time. Call it
-- with asynchronous exceptions masked.
keepPinned :: Pins -> Request -> Member -> Link -> IO ()
keepPinned pins request member link = do
  slot <- slotOf pins request
  case slot of
    Just (ClientSlot _ variable) ->
      modifyMVar_ variable (\former -> Just (member, link) <$ mapM_ (linkClose . snd) former)
    Nothing -> linkClose link

-- | Closes the connections on which something has happened. Does not block.
tidyPins :: Pins -> IO ()
tidyPins pins = readIORef (pinsSlots pins) >>= mapM_ (\(ClientSlot _ variable) -> modifyMVar_ variable look)
  where
    look (Just (member, link)) = fmap (member,) <$> ifQuiet link
    look Nothing = return Nothing

-- The connection, or Nothing after closing it.
ifQuiet :: Link -> IO (Maybe Link)
ifQuiet link = linkIsQuiet link >>= \quiet -> if quiet then return (Just link) else Nothing <$ linkClose link

-- | Whether the request authenticates the connection that it is sent on.
asksForConnection :: Request -> Bool
asksForConnection request = any (isOfConnection hAuthorization) (requestHeaders request)

-- | Whether the connection belongs to the client after this response. A target may authenticate it in several steps:
-- the first one is its offer.
pinsConnection :: Request -> ResponseHeaders -> Bool
pinsConnection request fields = asksForConnection request || any (isOfConnection hWWWAuthenticate) fields

-- The schemes that authenticate a connection and not a message (RFC 4559, section 6).
isOfConnection :: HeaderName -> (HeaderName, ByteString) -> Bool
isOfConnection wanted (name, value) =
  name == wanted && any ((`elem` ["ntlm", "negotiate"]) . scheme) (Char8.split ',' value)
  where
    scheme = CI.mk . Char8.takeWhile (/= ' ') . withoutBlanks
