{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A guest book: a web application with routes, JSON, limits, streams, a log and an orderly end.
-- Usage: guest-book PORT LOG, with the path of the access log.
module Main (main) where

import Control.Concurrent.STM
import Control.Monad (forM_, when)
import Data.Aeson (FromJSON, ToJSON, eitherDecode, encode)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Text (Text)
import Data.Text.Encoding (encodeUtf8)
import Data.Text.Read (decimal)
import GHC.Generics (Generic)
import Millrace.Log (logTo)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Network.Wai.Millrace.AccessLog
import Network.Wai.Millrace.EventStream
import Network.Wai.Millrace.Shutdown
import System.Environment (getArgs)
import System.Exit (exitFailure)
import System.IO (BufferMode (LineBuffering), hSetBuffering, stdout)

data Entry = Entry {author :: Text, text :: Text}
  deriving (Generic)

instance FromJSON Entry

instance ToJSON Entry

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  [port, logFile] <- getArgs
  book <- newTVarIO []
  end <- withAccessLog Combined (logTo logFile) $ \_ logAnswer ->
    untilSignal $ \ending ->
      runSettings (ending (setOnAnswer logAnswer (settings (read port)))) (limitTime (seconds 10) (guestBook book))
  when (end /= Orderly) exitFailure

settings :: Port -> Settings
settings port =
  setPort port
    . setHost "127.0.0.1"
    . setBeforeMainLoop (putStrLn "ready")
    . setGracefulShutdownTimeout (Just 10)
    . setMaximumBodySize (Just 1048576)
    $ defaultSettings

guestBook :: TVar [Entry] -> Application
guestBook book request respond = case (requestMethod request, pathInfo request) of
  ("GET", []) -> respond (plain status200 "A guest book. See /entries.\n")
  ("GET", ["greet", name]) -> respond (plain status200 ("Hello, " <> encodeUtf8 name <> "\n"))
  ("GET", ["entries"]) -> readTVarIO book >>= respond . json status200
  ("POST", ["entries"]) -> limitBody 4096 request >>= strictRequestBody >>= either refuse add . eitherDecode
  ("GET", ["events"]) -> readTVarIO book >>= respond . following book request . length
  ("GET", ["count", digits]) | Right (most, "") <- decimal digits -> respond (counting most)
  (_, ["entries"]) -> respond (responseLBS status405 [("Allow", "GET, POST")] "")
  _ -> respond (plain status404 "There is nothing here.\n")
  where
    refuse problem = respond (plain status400 (Char8.pack problem <> "\n"))
    add entry = do
      atomically (modifyTVar' book (entry :))
      respond (json status201 entry)

plain :: Status -> ByteString -> Response
plain status = responseLBS status [(hContentType, "text/plain; charset=utf-8")] . Lazy.fromStrict

json :: ToJSON a => Status -> a -> Response
json status = responseLBS status [(hContentType, "application/json")] . encode

-- A response of any length, in constant memory: when the client is slow, write waits.
counting :: Int -> Response
counting most = responseStream status200 [(hContentType, "text/plain")] $ \write _flush ->
  forM_ [1 .. most] (\number -> write (Builder.intDec number <> "\n"))

-- An event for each entry beyond the first ones.
following :: TVar [Entry] -> Request -> Int -> Response
following book request first = responseEvents request $ \send ->
  let go count = do
        new <- atomically $ do
          entries <- readTVar book
          check (length entries > count)
          return (drop count (reverse entries))
        mapM_ (send . event . Lazy.toStrict . encode) new
        go (count + length new)
   in go first
