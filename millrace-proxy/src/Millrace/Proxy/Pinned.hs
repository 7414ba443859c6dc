{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | Connections that a target has authenticated (NTLM, Negotiate). What is asked on them is asked in the name of one
-- client. So each belongs to the connection of that client, and ends with it. Must not know: sockets.
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
  { pinsKey :: !(Vault.Key Place),
    -- Those of all clients. While there is none, no request looks for its own.
    pinsPlaces :: !(IORef (IntMap Place)),
    pinsNumbers :: !(IORef Int)
  }

-- A client's: at most one. Full, except while somebody looks whether the target has closed it.
data Place = Place !Int !(MVar (Maybe (Member, Link)))

newPins :: IO Pins
newPins = Pins <$> Vault.newKey <*> newIORef IntMap.empty <*> newIORef 0

-- The place of the request's client. Nothing if the client's connection carries many requests at a time.
placeOf :: Pins -> Request -> IO (Maybe Place)
placeOf pins request = belongingOfConnection request (pinsKey pins) make end
  where
    make = do
      number <- atomicModifyIORef' (pinsNumbers pins) (\last' -> (last' + 1, last'))
      place <- Place number <$> newMVar Nothing
      place <$ atomicModifyIORef' (pinsPlaces pins) (\known -> (IntMap.insert number place known, ()))
    end (Place number variable) = do
      atomicModifyIORef' (pinsPlaces pins) (\known -> (IntMap.delete number known, ()))
      readMVar variable >>= mapM_ (linkClose . snd)

-- The place of the request's client, if any client has one.
knownPlace :: Pins -> Request -> IO (Maybe Place)
knownPlace pins request = do
  unused <- IntMap.null <$> readIORef (pinsPlaces pins)
  if unused then return Nothing else placeOf pins request

-- | The target that the client's connection belongs to.
pinnedMember :: Pins -> Request -> IO (Maybe Member)
pinnedMember pins request =
  knownPlace pins request >>= maybe (return Nothing) (\(Place _ variable) -> fmap fst <$> readMVar variable)

-- | Takes the client's connection to this target, if nothing has happened on it since. It is the caller's to close.
-- Does not block. Call it masked.
takePinned :: Pins -> Request -> Member -> IO (Maybe Link)
takePinned pins request member =
  knownPlace pins request >>= maybe (return Nothing) (\(Place _ variable) -> modifyMVar variable taken)
  where
    taken (Just (owner, link)) | memberTarget owner == memberTarget member = (,) Nothing <$> ifQuiet link
    taken held = return (held, Nothing)

-- | Keeps a connection for the client, or closes it if the client's connection carries many requests at a time. Call it
-- masked.
keepPinned :: Pins -> Request -> Member -> Link -> IO ()
keepPinned pins request member link = do
  place <- placeOf pins request
  case place of
    Just (Place _ variable) -> modifyMVar_ variable (\former -> Just (member, link) <$ mapM_ (linkClose . snd) former)
    Nothing -> linkClose link

-- | Closes the connections on which something has happened. Does not block.
tidyPins :: Pins -> IO ()
tidyPins pins = readIORef (pinsPlaces pins) >>= mapM_ (\(Place _ variable) -> modifyMVar_ variable look)
  where
    look (Just (member, link)) = fmap (member,) <$> ifQuiet link
    look Nothing = return Nothing

-- The connection, or Nothing after closing it.
ifQuiet :: Link -> IO (Maybe Link)
ifQuiet link = linkIsQuiet link >>= \quiet -> if quiet then return (Just link) else Nothing <$ linkClose link

-- | Does the request authenticate the connection that it is sent on?
asksForConnection :: Request -> Bool
asksForConnection request = any (isOfConnection hAuthorization) (requestHeaders request)

-- | Does the connection belong to the client from now on, after this response? A target may authenticate it in several
-- steps: the first one is its offer.
pinsConnection :: Request -> ResponseHeaders -> Bool
pinsConnection request fields = asksForConnection request || any (isOfConnection hWWWAuthenticate) fields

-- The schemes that authenticate a connection and not a message (RFC 4559, section 6).
isOfConnection :: HeaderName -> (HeaderName, ByteString) -> Bool
isOfConnection wanted (name, value) =
  name == wanted && any ((`elem` ["ntlm", "negotiate"]) . scheme) (Char8.split ',' value)
  where
    scheme = CI.mk . Char8.takeWhile (/= ' ') . withoutBlanks
