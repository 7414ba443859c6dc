-- | Serves an application, and sends requests to it, by HTTP/1 or by HTTP/2.
module Clients (serving, reached, overHttp2, get, post, curl) where

import Control.Exception (bracket_)
import qualified Data.ByteString.Lazy as L
import qualified Data.ByteString.Lazy.Char8 as LC8
import Data.IORef
import Http2Proxy (withHttp2Proxy)
import Network.HTTP.Client
import Network.HTTP.Types (hContentType, statusCode)
import Network.Wai (Application)
import qualified Network.Wai.Handler.Millrace as Millrace
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Process (readProcessWithExitCode)

-- | Serves an application on Millrace while an action runs, which is given the address.
serving :: IO Application -> (String -> IO a) -> IO a
serving application use =
  Millrace.withApplication application (`reached` (\number -> use ("http://127.0.0.1:" ++ show number)))

-- | The port on which clients reach the server on a port.
reached :: Int -> (Int -> IO a) -> IO a
reached server use = readIORef isOverHttp2 >>= \over -> if over then withHttp2Proxy server use else use server

-- | While the action runs, servers are reached by HTTP/2.
overHttp2 :: IO a -> IO a
overHttp2 = bracket_ (writeIORef isOverHttp2 True) (writeIORef isOverHttp2 False)

isOverHttp2 :: IORef Bool
isOverHttp2 = unsafePerformIO (newIORef False)
{-# NOINLINE isOverHttp2 #-}

-- | Status and body of a GET request, made with http-client.
get :: String -> IO (Int, L.ByteString)
get address = do
  request <- parseRequest address
  exchange request

-- | Status and body of a POST request with a body of the given media type.
post :: String -> String -> L.ByteString -> IO (Int, L.ByteString)
post address kind body = do
  request <- parseRequest address
  exchange
    request
      { method =
          LC8.toStrict (LC8.pack "POST"),
        requestBody = RequestBodyLBS body,
        requestHeaders = [(hContentType, LC8.toStrict (LC8.pack kind))]
      }

exchange :: Request -> IO (Int, L.ByteString)
exchange request = do
  manager <- newManager defaultManagerSettings
  response <- httpLbs request manager
  return (statusCode (responseStatus response), responseBody response)

-- | The output of curl. Fails if curl fails.
curl :: [String] -> IO String
curl arguments = do
  (code, output, errors) <-
    readProcessWithExitCode "curl" (["-sS", "--max-time", "10", "--noproxy", "*"] ++ arguments) ""
  if code == ExitSuccess then return output else fail ("curl " ++ unwords arguments ++ ": " ++ errors)
