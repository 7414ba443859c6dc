{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TypeOperators #-}

-- | An API of books, written for Warp, and the client that Servant derives from the same type.
--
-- Usage: @servant-shelf PORT@ serves it; @servant-shelf ask PORT@ calls each of its functions, and prints a line for
-- each.
module Main (main) where

import Control.Monad ((>=>))
import Control.Monad.Except (runExceptT)
import Control.Monad.IO.Class (liftIO)
import Data.Aeson (FromJSON, ToJSON)
import qualified Data.ByteString as B
import Data.Foldable (toList)
import Data.IORef
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8)
import GHC.Generics (Generic)
import Network.HTTP.Client (defaultManagerSettings, newManager)
import Network.Wai.Handler.Warp (run)
import Servant
import Servant.Client.Streaming
import qualified Servant.Types.SourceT as Source
import System.Environment (getArgs)

data Book = Book {title :: Text, pages :: Int}
  deriving stock (Eq, Show, Generic)
  deriving anyclass (FromJSON, ToJSON)

type Api =
  "books" :> QueryParam "longer-than" Int :> Get '[JSON] [Book]
    :<|> "books" :> ReqBody '[JSON] Book :> PostCreated '[JSON] (Headers '[Header "Location" Text] Int)
    :<|> "books" :> Capture "number" Int :> Get '[JSON, PlainText] Shown
    :<|> "books" :> Capture "number" Int :> Delete '[JSON] NoContent
    :<|> "numbers" :> Capture "count" Int :> StreamGet NewlineFraming JSON (SourceIO Int)
    :<|> "sum" :> StreamBody NewlineFraming JSON (SourceIO Int) :> Post '[JSON] Int
    :<|> "size" :> ReqBody '[OctetStream] B.ByteString :> Post '[PlainText] Text
    :<|> "secret" :> BasicAuth "shelf" Text :> Get '[PlainText] Text
    :<|> "agent" :> Header "User-Agent" Text :> QueryParams "word" Text :> QueryFlag "loud" :> Get '[PlainText] Text

-- | A book in words, or as it is.
newtype Shown = Shown Book
  deriving stock (Eq, Show, Generic)
  deriving anyclass (FromJSON, ToJSON)

instance MimeRender PlainText Shown where
  mimeRender proxy (Shown book) = mimeRender proxy (title book)

instance MimeUnrender PlainText Shown where
  mimeUnrender proxy bytes = Shown . (`Book` 0) <$> mimeUnrender proxy bytes

api :: Proxy Api
api = Proxy

main :: IO ()
main =
  getArgs >>= \case
    ["ask", port] -> ask (read port)
    [port] -> serving >>= run (read port)
    _ -> fail "usage: servant-shelf [ask] PORT"

serving :: IO Application
serving = do
  shelf <- newIORef (Map.fromList [(1, Book "Walden" 352), (2, Book "Emma" 474)])
  return (serveWithContext api (BasicAuthCheck check :. EmptyContext) (server shelf))
  where
    check (BasicAuthData name "open") = return (Authorized (decodeUtf8 name))
    check (BasicAuthData "nobody" _) = return NoSuchUser
    check _ = return BadPassword

server :: IORef (Map.Map Int Book) -> Server Api
server shelf = list :<|> add :<|> find :<|> remove :<|> numbers :<|> total :<|> size :<|> return :<|> agent
  where
    list atLeast = filter ((> fromMaybe 0 atLeast) . pages) . Map.elems <$> liftIO (readIORef shelf)
    add book
      | pages book < 1 = throwError err400 {errBody = "a book without pages"}
      | otherwise = do
        number <-
          liftIO
            (atomicModifyIORef' shelf (\books -> let new = Map.size books + 1 in (Map.insert new book books, new)))
        return (addHeader ("/books/" <> Text.pack (show number)) number)
    find number =
      liftIO (readIORef shelf)
        >>= maybe (throwError err404 {errBody = "no such book"}) (return . Shown) . Map.lookup number
    remove number = NoContent <$ liftIO (atomicModifyIORef' shelf (\books -> (Map.delete number books, ())))
    numbers count = return (Source.source [1 .. count])
    total given = liftIO (sum <$> elements given)
    size bytes = return (Text.pack (show (B.length bytes)))
    agent program ws loud =
      return ((if loud then Text.toUpper else id) (Text.unwords (fromMaybe "nobody" program : ws)))

elements :: SourceIO a -> IO [a]
elements = runExceptT . Source.runSourceT >=> either fail return

ask :: Int -> IO ()
ask port = do
  connections <- newManager defaultManagerSettings
  let environment = mkClientEnv connections (BaseUrl Http "127.0.0.1" port "")
      say what answer = putStrLn (what ++ "\t" ++ either failed id answer)
      failed (FailureResponse _ response) =
        show
          ( responseStatusCode response,
            lookup "WWW-Authenticate" (toList (responseHeaders response)),
            responseBody response
          )
      failed other = show other
      adding book = (\added -> (getResponse added, getHeaders added)) <$> add book
      call what function = withClientM function environment (say what . fmap show)
  call "list" (list Nothing)
  call "list, longer than 400" (list (Just 400))
  call "add" (adding (Book "Emil" 190))
  call "add, refused" (adding (Book "Nothing" 0))
  call "find" (find 3)
  call "find, none" (find 9)
  call "remove" (remove 1)
  call "list after that" (list Nothing)
  withClientM (numbers 10000) environment (mapM elements >=> say "numbers" . fmap (show . sum))
  call "sum" (total (Source.source [1 .. 10000]))
  call "size" (size (B.replicate 1000000 120))
  call "secret" (secret (BasicAuthData "me" "open"))
  call "secret, wrong" (secret (BasicAuthData "me" "shut"))
  call "secret, nobody" (secret (BasicAuthData "nobody" "shut"))
  call "agent" (agent (Just "shelf") ["a b", "ü&c"] True)
  call "agent, nothing" (agent Nothing [] False)
  where
    list :<|> add :<|> find :<|> remove :<|> numbers :<|> total :<|> size :<|> secret :<|> agent = client api
