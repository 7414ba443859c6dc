{-# LANGUAGE OverloadedStrings #-}

-- | A server of HTTP\/3, and of HTTP\/2 over TLS on the same port: files of a directory, or "Pong!" if that is "-".
--
-- > millrace-http3 PORT DIRECTORY CERTIFICATE KEY [ADDRESS]
module Main (main) where

import qualified Data.ByteString.Char8 as C8
import Data.String (fromString)
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace
import Network.Wai.Handler.MillraceHTTP3
import Network.Wai.Handler.MillraceTLS
import System.Environment (getArgs)
import System.Exit (die)

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    port : directory : certificate : key : address
      | length address < 2 ->
        runHTTP3
          (tlsSettings certificate key)
          (setHost (fromString (concat (take 1 (address ++ ["127.0.0.1"])))) (setPort (read port) defaultSettings))
          (if directory == "-" then pong else files directory)
    _ -> die "millrace-http3 PORT DIRECTORY CERTIFICATE KEY [ADDRESS]"

pong :: Application
pong _ respond = respond (responseLBS status200 [("Content-Type", "text/plain"), ("Content-Length", "5")] "Pong!")

-- The load asks only for files that are there. A browser does not run a page of another type (scripts/interop/http3).
files :: FilePath -> Application
files directory request respond =
  respond
    ( responseFile
        status200
        [("Content-Type", if ".html" `C8.isSuffixOf` path then "text/html" else "application/octet-stream")]
        (directory ++ C8.unpack path)
        Nothing
    )
  where
    path = rawPathInfo request
