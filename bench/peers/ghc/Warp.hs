{-# LANGUAGE OverloadedStrings #-}

-- | Warp, which Millrace is compared with. It answers every request with "Pong!", or with the files of a directory.
--
-- > warp PORT pong           keeps connections open
-- > warp PORT close          sends Connection: close; for the workload `connect`, whose requests ask for it
-- > warp PORT files DIR      responseFile (sendfile), with Warp's descriptor and file information caches on
-- > warp PORT upload         reads the body first
module Main (main) where

import qualified Data.ByteString as B
import qualified Data.Text as Text
import Network.HTTP.Types (hConnection, hContentLength, hContentType, notFound404, ok200)
import Network.HTTP.Types.Header (ResponseHeaders)
import Network.Wai (Application, getRequestBodyChunk, pathInfo, responseFile, responseLBS)
import Network.Wai.Handler.Warp
import System.Environment (getArgs)

-- The length is given, because otherwise Warp sends the body in chunks.
pong :: ResponseHeaders -> Application
pong extra _ respond =
  respond (responseLBS ok200 ([(hContentType, "text/plain"), (hContentLength, "5")] ++ extra) "Pong!")

upload :: Application
upload request respond = do
  piece <- getRequestBodyChunk request
  if B.null piece then pong [] request respond else upload request respond

-- The workloads request only files directly in the directory. So no other paths are served.
files :: FilePath -> Application
files directory request respond = respond $ case pathInfo request of
  [name] | name /= ".." -> responseFile ok200 [(hContentType, "application/octet-stream")] (path name) Nothing
  _ -> responseLBS notFound404 [] ""
  where
    path name = directory ++ '/' : Text.unpack name

main :: IO ()
main = do
  arguments <- getArgs
  let (port, application) = case arguments of
        [number, "pong"] -> (read number, pong [])
        [number, "upload"] -> (read number, upload)
        [number, "close"] -> (read number, pong [(hConnection, "close")])
        [number, "files", directory] -> (read number, files directory)
        _ -> error "usage: warp PORT pong|close|upload|files DIR"
  runSettings
    (setPort port . setHost "127.0.0.1" . setFdCacheDuration 10 . setFileInfoCacheDuration 10 $ defaultSettings)
    application
