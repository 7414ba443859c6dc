{-# LANGUAGE OverloadedStrings #-}

-- | The application that HttpArena asks for: sums, JSON, uploads, files, rows of PostgreSQL, WebSocket and gRPC, by
-- HTTP/1.1 and HTTP/2, with and without TLS. Environment variables say where: see ../README.md.
module Main (main) where

import Calls (calls, isCall)
import Control.Concurrent (forkFinally)
import Control.Concurrent.MVar
import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import Data.Maybe (fromMaybe)
import Data.String (fromString)
import Echo (echoing)
import Millrace.Cli.Files.StaticFiles (LinkPolicy (..), openRoot, plainSite, staticFiles)
import Network.HTTP.Types (status404)
import Network.Wai
import Network.Wai.Handler.Millrace
import Network.Wai.Handler.MillraceTLS
import Network.Wai.Middleware.Gzip (def, gzip)
import Numbers (addUp, countBytes, sayOk)
import Rows (Rows, createRow, openRows, pageOfRows, readRow, searchRows, updateRow)
import System.Environment (lookupEnv)
import Things (Thing, answerThings, readThings)

main :: IO ()
main = do
  folder <- variable "ARENA_DATA" "/data"
  things <- readThings (folder ++ "/dataset.json")
  files <- staticFiles . plainSite <$> openRoot StayInside (folder ++ "/static")
  rows <- openRows =<< lookupEnv "DATABASE_URL"
  host <- variable "ARENA_HOST" "0.0.0.0"
  tls <- tlsSettings <$> variable "ARENA_CERTIFICATE" "/certs/server.crt" <*> variable "ARENA_KEY" "/certs/server.key"
  let application = echoing (route things files rows)
      settings port = setHost (fromString host) (setPort port (setMaximumBodySize (Just 33554432) defaultSettings))
      servers =
        [ ("ARENA_HTTP_PORT", 8080, runSettings . settings),
          ("ARENA_TLS_PORT", 8081, runTLS tls . setHTTP2Disabled . settings),
          ("ARENA_H2C_PORT", 8082, runSettings . setHTTP1Disabled . settings),
          ("ARENA_H2_PORT", 8443, runTLS tls . settings)
        ]
  -- They run until one of them fails.
  ended <- newEmptyMVar
  forM_ servers $ \(name, usual, serve) -> do
    port <- maybe usual read <$> lookupEnv name
    forkFinally (serve port application) (putMVar ended)
  takeMVar ended >>= either (ioError . userError . show) return

variable :: String -> String -> IO String
variable name usual = fromMaybe usual <$> lookupEnv name

route :: [Thing] -> Application -> Rows -> Application
route things files rows request respond = case (requestMethod request, pathInfo request) of
  ("GET", ["pipeline"]) -> respond sayOk
  (_, [path]) | path == "baseline11" || path == "baseline2" -> addUp request >>= respond
  ("GET", ["json", count]) -> gzip def (answerThings things count) request respond
  ("POST", ["upload"]) -> countBytes request >>= respond
  ("GET", "static" : names) ->
    files request {pathInfo = names, rawPathInfo = ByteString.drop 7 (rawPathInfo request)} respond
  ("GET", ["async-db"]) -> searchRows rows request >>= respond
  ("GET", ["crud", "items"]) -> pageOfRows rows request >>= respond
  ("GET", ["crud", "items", number]) -> readRow rows number >>= respond
  ("POST", ["crud", "items"]) -> createRow rows request >>= respond
  ("PUT", ["crud", "items", number]) -> updateRow rows number request >>= respond
  _ | isCall request -> calls request respond
  _ -> respond (responseLBS status404 [] "")
