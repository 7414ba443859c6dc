-- | Prints the content of a URL. Usage: get-url URL [ANCHORS], where the anchors are the certificates of authorities to
-- trust instead of the system's, a file in PEM.
module Main (main) where

import qualified Data.ByteString as ByteString
import Millrace.Deadline (seconds)
import Millrace.Tls (ClientSettings (..), Pem (..), Verification (..), clientSettings, trustIn)
import Network.HTTP.Client
import Network.HTTP.Client.Millrace
import System.Environment (getArgs)

main :: IO ()
main = do
  url : anchors <- getArgs
  manager <- newMillraceManagerSettings (settingsWith anchors) >>= newManager
  request <- parseUrlThrow url
  withResponse request manager (printAll . responseBody)

-- | A server may take 5 seconds to accept the connection, and 20 for each part of its response.
settingsWith :: [FilePath] -> Settings
settingsWith anchors =
  defaultSettings
    { tlsSettings = case anchors of
        [] -> clientSettings
        file : _ -> clientSettings {clientVerification = Verify (trustIn (PemFile file))},
      limits = defaultLimits {connectLimit = seconds 5, receiveLimit = seconds 20}
    }

printAll :: BodyReader -> IO ()
printAll body = do
  bytes <- brRead body
  if ByteString.null bytes then return () else ByteString.putStr bytes >> printAll body
