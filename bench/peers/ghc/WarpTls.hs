{-# LANGUAGE OverloadedStrings #-}

-- | Warp over TLS, by warp-tls. As the program with Warp alone, without HTTP/2 unless it is asked for.
--
-- > warp-tls PORT pong|h2pong CERTIFICATE KEY
-- > warp-tls PORT files DIR CERTIFICATE KEY
module Main (main) where

import qualified Data.Text as Text
import Network.HTTP.Types (hContentLength, hContentType, notFound404, ok200)
import Network.TLS.SessionManager (defaultConfig)
import Network.Wai (Application, pathInfo, responseFile, responseLBS)
import Network.Wai.Handler.Warp
import Network.Wai.Handler.WarpTLS (runTLS, tlsSessionManagerConfig, tlsSettings)
import System.Environment (getArgs)

pong :: Application
pong _ respond = respond (responseLBS ok200 [(hContentType, "text/plain"), (hContentLength, "5")] "Pong!")

files :: FilePath -> Application
files directory request respond = respond $ case pathInfo request of
  [name]
    | name /= ".." ->
      responseFile ok200 [(hContentType, "application/octet-stream")] (directory ++ '/' : Text.unpack name) Nothing
  _ -> responseLBS notFound404 [] ""

main :: IO ()
main = do
  arguments <- getArgs
  let (port, application, protocols, certificate, key) = case arguments of
        [number, "pong", one, other] -> (read number, pong, setHTTP2Disabled, one, other)
        [number, "h2pong", one, other] -> (read number, pong, id, one, other)
        [number, "files", directory, one, other] -> (read number, files directory, setHTTP2Disabled, one, other)
        _ -> error "usage: warp-tls PORT pong|h2pong|files DIR CERTIFICATE KEY"
  runTLS
    (tlsSettings certificate key) {tlsSessionManagerConfig = Just defaultConfig}
    ( setPort port . setHost "127.0.0.1" . protocols . setFdCacheDuration 10 . setFileInfoCacheDuration 10 $
        defaultSettings
    )
    application
