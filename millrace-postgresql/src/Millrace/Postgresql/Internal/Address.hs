{-# LANGUAGE OverloadedStrings #-}

-- | The servers of a connection string. Their names are looked up here, because libpq would block its OS thread for
-- that.
module Millrace.Postgresql.Internal.Address (Address, resolved, parameters) where

import Control.Exception (bracket, throwIO, try)
import Control.Monad (unless, zipWithM)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isSpace)
import Data.Either (partitionEithers)
import Data.Foldable (find)
import Data.List (intercalate)
import Data.Text (Text)
import Foreign.C.String (CString)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Millrace.Deadline (Deadline)
import Millrace.Name (host, lookUpBefore)
import Millrace.Postgresql.Internal.Libpq
import Millrace.Socket
import Numeric (showHex)

-- | A host, its numeric address if it was looked up, and its port.
type Address = (ByteString, ByteString, ByteString)

-- | The parameters that pass these addresses to libpq.
parameters :: [Address] -> [(ByteString, ByteString)]
parameters [] = []
parameters addresses =
  [ ("host", commas [name | (name, _, _) <- addresses]),
    ("hostaddr", commas [address | (_, address, _) <- addresses]),
    ("port", commas [port | (_, _, port) <- addresses])
  ]
  where
    commas = ByteString.intercalate ","

-- | Looks up the servers that a connection string, or else the environment, names. Returns 'Left' with libpq's reason
-- if the text is not a connection string, and no addresses where libpq finds the server without a look-up. A host that
-- is not found is left out. If none is left, it throws the exception of the last look-up.
resolved :: Deadline -> ByteString -> IO (Either Text [Address])
resolved deadline text = do
  options <- optionsOf text
  case options of
    Left reason -> return (Left reason)
    Right option
      | Just _ <- option "hostaddr" -> return (Right [])
      | Just _ <- option "service" -> return (Right [])
      | otherwise -> do
        hosts <- maybe (environment "PGHOST") (return . Just) (option "host")
        ports <- maybe (environment "PGPORT") (return . Just) (option "port")
        Right <$> addressesOf (maybe [] split hosts) (maybe [] split ports)
  where
    addressesOf hosts ports = do
      (failures, found) <-
        partitionEithers <$> zipWithM (\name -> try . addressOf name) hosts (portsFor (length hosts) ports)
      case (failures, concat found) of
        (first : _, []) -> throwIO (first :: IOError)
        (_, addresses) -> return addresses
    portsFor count [one] = replicate count one
    portsFor _ several = several ++ repeat ""
    addressOf name port
      | Char8.all isSpace name || ByteString.take 1 name `elem` ["/", "@"] = return [(name, "", port)]
      | otherwise = do
        found <- lookUpBefore deadline (host (Char8.unpack name) "0")
        return [(name, address, port) | address <- foldr once [] [written (addrAddress one) | one <- found]]
    once address others = if address `elem` others then others else address : others

written :: SockAddr -> ByteString
written address = Char8.pack $ case address of
  SockAddrInet _ number -> let (a, b, c, d) = hostAddressToTuple number in intercalate "." (map show [a, b, c, d])
  SockAddrInet6 _ _ number scope ->
    let (a, b, c, d, e, f, g, h) = hostAddress6ToTuple number
        hex = intercalate ":" [showHex part "" | part <- [a, b, c, d, e, f, g, h]]
     in if scope == 0 then hex else hex ++ "%" ++ show scope
  _ -> ""

-- An empty text has one part, too.
split :: ByteString -> [ByteString]
split text = case Char8.break (== ',') text of
  (first, others)
    | ByteString.null others -> [first]
    | otherwise -> first : split (ByteString.drop 1 others)

environment :: ByteString -> IO (Maybe ByteString)
environment name = ByteString.useAsCString name c_environment >>= orNothing

optionsOf :: ByteString -> IO (Either Text (ByteString -> Maybe ByteString))
optionsOf text = ByteString.useAsCString text $ \string -> alloca $ \message -> do
  poke message nullPtr
  bracket (c_conninfo_parse string message) (\options -> unless (options == nullPtr) (c_conninfo_free options)) $
    \options ->
      if options == nullPtr
        then do
          given <- peek message
          reason <- if given == nullPtr then return "there is no memory" else textOf given <* c_free_memory given
          return (Left reason)
        else do
          values <- mapM (\name -> (,) name <$> valueOf options name) ["host", "hostaddr", "port", "service"]
          return (Right (\name -> find ((== name) . fst) values >>= snd))

valueOf :: Ptr () -> ByteString -> IO (Maybe ByteString)
valueOf options name = ByteString.useAsCString name (c_option options) >>= orNothing

orNothing :: CString -> IO (Maybe ByteString)
orNothing string = if string == nullPtr then return Nothing else Just <$> ByteString.packCString string
