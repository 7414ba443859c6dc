{-# LANGUAGE TupleSections #-}

-- |
-- What applications keep for as long as a client's connection is open. Must not know: protocols.
module Millrace.Http.Belongings (Belongings, newBelongings, belonging, endBelongings) where

import Control.Exception (finally, mask_)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import Data.Vault.Lazy (Key, Vault)
import qualified Data.Vault.Lazy as Vault

-- | The things of one connection, and the action that ends them.
newtype Belongings = Belongings (IORef Held)

data Held = Held !Vault !(IO ())

-- | None yet.
newBelongings :: IO Belongings
newBelongings = Belongings <$> newIORef none

none :: Held
none = Held Vault.empty (return ())

-- | @belonging belongings key make end@: the thing with this key. It is made when it is first asked for. The action
-- @end@ runs with it when the connection is over. One thread at a time may call this for a connection.
belonging :: Belongings -> Key a -> IO a -> (a -> IO ()) -> IO a
belonging (Belongings variable) key make end = mask_ $ do
  Held things ending <- readIORef variable
  case Vault.lookup key things of
    Just known -> return known
    Nothing -> do
      made <- make
      made <$ writeIORef variable (Held (Vault.insert key made things) (end made `finally` ending))

-- | Ends the things of a connection that is over.
endBelongings :: Belongings -> IO ()
endBelongings (Belongings variable) = do
  Held _ ending <- atomicModifyIORef' variable (none,)
  ending
