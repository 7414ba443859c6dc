{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A guest book: a web application with routes, JSON, limits, a stream, a log and an orderly end.
-- Usage: guest-book PORT.
module Main (main) where

import Control.Concurrent.STM
import Control.Exception (handle, throwIO)
import Control.Monad (forM_, void)
import Data.Aeson (FromJSON, ToJSON, eitherDecodeStrict, encode)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Text (Text)
import Data.Text.Encoding (encodeUtf8)
import Data.Text.Read (decimal)
import GHC.Generics (Generic)
import Millrace.Stream (TooLong (..), whole)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)
import System.IO (BufferMode (LineBuffering), hSetBuffering, stdout)
import System.Posix.Signals (Handler (CatchOnce), installHandler, sigTERM)

data Entry = Entry {author :: Text, text :: Text}
  deriving (Generic)

instance FromJSON Entry

instance ToJSON Entry

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  [port] <- getArgs
  book <- newTVarIO []
  runSettings (settings (read port)) (guestBook book)

settings :: Port -> Settings
settings port =
  setPort port
    . setHost "127.0.0.1"
    . setBeforeMainLoop (putStrLn "ready")
    . setInstallShutdownHandler (\end -> void (installHandler sigTERM (CatchOnce end) Nothing))
    . setGracefulShutdownTimeout (Just 10)
    . setMaximumBodySize (Just 1048576)
    . setTotalTimeout 60
    . setOnAnswer logAnswer
    $ defaultSettings

guestBook :: TVar [Entry] -> Application
guestBook book request respond = case (requestMethod request, pathInfo request) of
  ("GET", []) -> respond (plain status200 "A guest book. See /entries.\n")
  ("GET", ["greet", name]) -> respond (plain status200 ("Hello, " <> encodeUtf8 name <> "\n"))
  ("GET", ["entries"]) -> readTVarIO book >>= respond . json status200
  ("POST", ["entries"]) -> bodyUpTo 4096 request >>= either refuse add . eitherDecodeStrict
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

-- For a longer body the server answers 413, as for one above its own limit.
bodyUpTo :: Int -> Request -> IO ByteString
bodyUpTo most request = handle refuse (whole most (getRequestBodyChunk request))
  where
    refuse (TooLong _ _) = throwIO PayloadTooLarge

-- A response of any length, in constant memory: when the client is slow, write waits.
counting :: Int -> Response
counting most = responseStream status200 [(hContentType, "text/plain")] $ \write _flush ->
  forM_ [1 .. most] (\number -> write (Builder.intDec number <> "\n"))

logAnswer :: Answer -> IO ()
logAnswer answer = print (answerClient answer, rawPathInfo <$> answerRequest answer, statusCode (answerStatus answer))
