-- | The servers of a connection string. Their names are looked up here, because libpq would block its OS thread for that.
module Millrace.Postgresql.Internal.Address (Address, resolved, parameters) where

import Control.Exception (bracket)
import Control.Monad (unless, zipWithM)
import Data.Char (isSpace)
import Data.Foldable (find)
import Data.List (intercalate)
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Millrace.Deadline (Deadline)
import Millrace.Name (host, lookUpBefore)
import Millrace.Postgresql.Internal.Foreign
import Millrace.Socket
import Numeric (showHex)
import System.Environment (lookupEnv)

-- | A host, its numeric address if it was looked up, and its port.
type Address = (String, String, String)

-- | The parameters that say so to libpq.
parameters :: [Address] -> [(String, String)]
parameters [] = []
parameters addresses =
  [ ("host", commas [name | (name, _, _) <- addresses]),
    ("hostaddr", commas [address | (_, address, _) <- addresses]),
    ("port", commas [port | (_, _, port) <- addresses])
  ]
  where
    commas = intercalate ","

-- | Looks up the servers that a connection string, or else the environment, names. Returns 'Left' with libpq's reason if that is no
-- connection string, and no addresses where libpq finds the server without a look-up.
resolved :: Deadline -> String -> IO (Either String [Address])
resolved deadline text = do
  options <- optionsOf text
  case options of
    Left reason -> return (Left reason)
    Right option
      | Just _ <- option "hostaddr" -> return (Right [])
      | Just _ <- option "service" -> return (Right [])
      | otherwise -> do
        hosts <- maybe (lookupEnv "PGHOST") (return . Just) (option "host")
        ports <- maybe (lookupEnv "PGPORT") (return . Just) (option "port")
        Right <$> addressesOf (maybe [] split hosts) (maybe [] split ports)
  where
    addressesOf hosts ports = concat <$> zipWithM addressOf hosts (portsFor (length hosts) ports)
    portsFor count [one] = replicate count one
    portsFor _ several = several ++ repeat ""
    addressOf name port
      | all isSpace name || take 1 name `elem` ["/", "@"] = return [(name, "", port)]
      | otherwise = do
        found <- lookUpBefore deadline (host name "0")
        return [(name, address, port) | address <- foldr once [] [written (addrAddress one) | one <- found]]
    once address others = if address `elem` others then others else address : others

written :: SockAddr -> String
written address = case address of
  SockAddrInet _ number -> let (a, b, c, d) = hostAddressToTuple number in intercalate "." (map show [a, b, c, d])
  SockAddrInet6 _ _ number scope ->
    let (a, b, c, d, e, f, g, h) = hostAddress6ToTuple number
        hex = intercalate ":" [showHex part "" | part <- [a, b, c, d, e, f, g, h]]
     in if scope == 0 then hex else hex ++ "%" ++ show scope
  _ -> ""

split :: String -> [String]
split text = case break (== ',') text of
  (first, _ : others) -> first : split others
  (first, []) -> [first]

optionsOf :: String -> IO (Either String (String -> Maybe String))
optionsOf text = withCString text $ \string -> alloca $ \message -> do
  poke message nullPtr
  bracket (c_conninfo_parse string message) (\options -> unless (options == nullPtr) (c_conninfo_free options)) $ \options ->
    if options == nullPtr
      then do
        given <- peek message
        reason <- if given == nullPtr then return "there is no memory" else peekCString given <* c_free_memory given
        return (Left reason)
      else do
        values <- mapM (\name -> (,) name <$> valueOf options name) ["host", "hostaddr", "port", "service"]
        return (Right (\name -> find ((== name) . fst) values >>= snd))

valueOf :: Ptr () -> String -> IO (Maybe String)
valueOf options name = withCString name $ \keyword -> do
  found <- c_option options keyword :: IO CString
  if found == nullPtr then return Nothing else Just <$> peekCString found
