{-# LANGUAGE OverloadedStrings #-}

-- | A web application over TLS. With warp-tls only the imports are different. Usage: https-wai PORT CHAIN KEY, where
-- the last two are files in PEM.
module Main (main) where

import Network.HTTP.Types (status200)
import Network.Wai (isSecure, responseLBS)
import Network.Wai.Handler.Millrace (defaultSettings, setHost, setPort)
import Network.Wai.Handler.MillraceTLS (runTLS, tlsSettings)
import System.Environment (getArgs)

main :: IO ()
main = do
  [port, chain, key] <- getArgs
  runTLS (tlsSettings chain key) (setHost "127.0.0.1" (setPort (read port) defaultSettings)) $ \request respond ->
    respond (responseLBS status200 [] (if isSecure request then "over TLS\n" else "in clear text\n"))
