{-# LANGUAGE OverloadedStrings #-}

-- | The arena's application on Warp. Variables tell it where to listen and what to serve; bench/arena/doors.py has
-- them.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Monad (forever, void)
import Data.Aeson hiding (json)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import qualified Data.ByteString.Lazy.Char8 as LC
import Data.Maybe (fromMaybe)
import Data.String (fromString)
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Read as Text
import Items
import Network.HTTP.Types
import Network.Mime (defaultMimeLookup)
import Network.TLS.SessionManager (defaultConfig)
import Network.Wai
import Network.Wai.Handler.Warp
import Network.Wai.Handler.WarpTLS
import Network.Wai.Handler.WebSockets (websocketsOr)
import Network.Wai.Middleware.Gzip
import qualified Network.WebSockets as WebSockets
import qualified Store
import System.Environment (lookupEnv)

body :: Status -> ResponseHeaders -> L.ByteString -> Response
body status fields content = responseLBS status ((hContentLength, C.pack (show (L.length content))) : fields) content

text :: L.ByteString -> Response
text = body ok200 [(hContentType, "text/plain")]

json :: ToJSON a => Status -> a -> Response
json status = body status [(hContentType, "application/json")] . encode

notFound :: Response
notFound = body notFound404 [(hContentType, "text/plain")] "not found"

badRequest :: Response
badRequest = body badRequest400 [(hContentType, "text/plain")] "this is no row"

parameter :: Request -> B.ByteString -> Maybe B.ByteString
parameter request key = fromMaybe Nothing (lookup key (queryString request))

number :: Request -> B.ByteString -> Int -> Int
number request key otherwise_ = maybe otherwise_ fst (parameter request key >>= C.readInt)

whole :: Text -> Maybe Int
whole word = case Text.signed Text.decimal word of
  Right (found, "") -> Just found
  _ -> Nothing

sums :: Application
sums request respond = do
  more <- if requestMethod request == methodPost then maybe 0 fst . LC.readInt <$> strictRequestBody request else pure 0
  respond (ending request (text (LC.pack (show (number request "a" 0 + number request "b" 0 + more)))))

-- | Warp closes a connection when the client asks for it, but does not say so, which wrk takes for an error.
ending :: Request -> Response -> Response
ending request
  | lookup hConnection (requestHeaders request) == Just "close" = mapResponseHeaders ((hConnection, "close") :)
  | otherwise = id

upload :: Application
upload request respond = go 0
  where
    go size = do
      piece <- getRequestBodyChunk request
      if B.null piece then respond (text (LC.pack (show (size :: Int)))) else go (size + B.length piece)

things :: [Item] -> Text -> Application
things dataset word request respond = respond $ case whole word of
  Just most -> json ok200 (Listed [Priced (price item * quantity item * factor) item | item <- take most dataset])
  Nothing -> notFound
  where
    factor = number request "m" 1

-- | Files, and what lies beside them compressed by gzip (GzipPreCompressed).
file :: FilePath -> Text -> Application
file directory word _ respond =
  respond $
    if Text.any (== '/') word || word == ".."
      then notFound
      else
        responseFile
          ok200
          [(hContentType, defaultMimeLookup word)]
          (directory ++ "/static/" ++ Text.unpack word)
          Nothing

database :: Store.Store -> [Text] -> Application -> Application
database store path otherwise_ request respond = case (requestMethod request, path) of
  ("GET", ["async-db"]) -> do
    found <-
      Store.search store (number request "min" 10) (number request "max" 50) (between 1 50 (number request "limit" 50))
    respond (json ok200 (Listed found))
  ("GET", ["crud", "items"]) -> do
    let category_ = maybe "electronics" Text.decodeUtf8 (parameter request "category")
        page_ = max 1 (number request "page" 1)
        limit_ = between 1 50 (number request "limit" 10)
    found <- Store.pageOf store category_ page_ limit_
    respond (json ok200 (Page found page_ limit_))
  ("POST", ["crud", "items"]) -> written $ \row -> case Store.writtenId row of
    Nothing -> respond badRequest
    Just one -> Store.create store one row >> respond (json created201 (shown one row))
  ("GET", ["crud", "items", word]) | Just one <- whole word -> do
    found <- Store.readOne store one
    respond $ case found of
      Store.Hit content -> kept "HIT" content
      Store.Miss content -> kept "MISS" content
      Store.Absent -> notFound
  ("PUT", ["crud", "items", word]) | Just one <- whole word -> written $ \row -> do
    is_there <- Store.update store one row
    respond (if is_there then json ok200 (shown one row) else notFound)
  _ -> otherwise_ request respond
  where
    between low high = max low . min high
    kept state = body ok200 [(hContentType, "application/json"), ("X-Cache", state)]
    written use = strictRequestBody request >>= maybe (respond badRequest) use . decode
    shown one row =
      object
        [ "id" .= one,
          "name" .= Store.writtenName row,
          "price" .= Store.writtenPrice row,
          "quantity" .= Store.writtenQuantity row
        ]

application :: FilePath -> [Item] -> Maybe Store.Store -> Application
application directory dataset store = \request respond -> case pathInfo request of
  ["baseline11"] -> sums request respond
  ["baseline2"] -> sums request respond
  ["pipeline"] -> respond (text "ok")
  ["json", word] -> compressed (things dataset word) request respond
  ["upload"] -> upload request respond
  ["static", word] -> compressed (file directory word) request respond
  path -> maybe id (`database` path) store (\_ answer -> answer notFound) request respond
  where
    compressed = gzip def {gzipFiles = GzipPreCompressed GzipIgnore}

echo :: WebSockets.ServerApp
echo pending = do
  connection <- WebSockets.acceptRequest pending
  forever (WebSockets.receiveDataMessage connection >>= WebSockets.sendDataMessage connection)

-- | Refuses HTTP/1.1, which Warp would answer on every port.
onlyHttp2 :: Middleware
onlyHttp2 app request respond
  | httpVersion request >= http20 = app request respond
  | otherwise = respond (responseLBS httpVersionNotSupported505 [(hConnection, "close")] "")

main :: IO ()
main = do
  directory <- variable "ARENA_DATA" "/data"
  host <- variable "ARENA_HOST" "0.0.0.0"
  certificate <- variable "ARENA_CERTIFICATE" "/certs/server.crt"
  key <- variable "ARENA_KEY" "/certs/server.key"
  connections <- variable "DATABASE_MAX_CONN" "32"
  url <- lookupEnv "DATABASE_URL"
  dataset <- either fail pure =<< eitherDecodeFileStrict (directory ++ "/dataset.json")
  store <- traverse (\found -> Store.open (C.pack found) (read connections)) url
  let app = application directory dataset store
      on door otherwise_ = do
        port <- variable door otherwise_
        pure . setPort (read port) . setHost (fromString host) . setFdCacheDuration 10 $
          setFileInfoCacheDuration 10 defaultSettings
      secure = (tlsSettings certificate key) {tlsSessionManagerConfig = Just defaultConfig}
      start server = void (forkIO server)
  plain <- on "ARENA_HTTP_PORT" "8080"
  tls <- on "ARENA_TLS_PORT" "8081"
  h2c <- on "ARENA_H2C_PORT" "8082"
  h2 <- on "ARENA_H2_PORT" "8443"
  start (runTLS secure (setHTTP2Disabled tls) app)
  start (runSettings h2c (onlyHttp2 app))
  start (runTLS secure h2 app)
  runSettings plain (websocketsOr WebSockets.defaultConnectionOptions echo app)
  where
    variable name_ otherwise_ = fromMaybe otherwise_ <$> lookupEnv name_
