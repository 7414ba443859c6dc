{-# LANGUAGE OverloadedStrings #-}

-- | Rows of PostgreSQL: searched, read and kept for a moment, made, and changed.
module Rows (Rows, openRows, searchRows, pageOfRows, readRow, createRow, updateRow) where

import Control.Exception (SomeAsyncException (..), SomeException, catch, fromException, throwIO)
import Data.Aeson
import Data.Aeson.Encoding (encodingToLazyByteString, list, pairStr, unsafeToEncoding)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Read as Text
import Keep (Kept, forget, keep, nothingKept, recall)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Postgresql hiding (Value)
import Network.HTTP.Types
import Network.Wai
import Numbers (numberOr)
import System.Environment (lookupEnv)
import Things (Rating (..), jsonAnswer)

data Item = Item
  { itemId :: !Int,
    itemName :: !Text,
    itemCategory :: !Text,
    itemPrice :: !Int,
    itemQuantity :: !Int,
    itemActive :: !Bool,
    itemTags :: !Json,
    itemRating :: !Rating
  }

itemRow :: Row Item
itemRow =
  Item <$> column <*> column <*> column <*> column <*> column <*> column <*> column <*> (Rating <$> column <*> column)

encodeItem :: Item -> Encoding
encodeItem item =
  pairs $
    "id" .= itemId item
      <> "name" .= itemName item
      <> "category" .= itemCategory item
      <> "price" .= itemPrice item
      <> "quantity" .= itemQuantity item
      <> "active" .= itemActive item
      -- JSON of the server's own making.
      <> pairStr "tags" (unsafeToEncoding (byteString (jsonBytes (itemTags item))))
      <> "rating" .= itemRating item

-- | What a client sends. The number is in the address when a row is changed.
data Draft = Draft
  { draftId ::
      !(Maybe Int),
    draftName :: !Text,
    draftCategory :: !(Maybe Text),
    draftPrice :: !Int,
    draftQuantity :: !Int
  }

instance FromJSON Draft where
  parseJSON = withObject "item" $ \fields ->
    Draft <$> fields .:? "id"
      <*> fields .: "name"
      <*> fields .:? "category"
      <*> fields .: "price"
      <*> fields .: "quantity"

search, page, one, insert, update :: Statement Item
search = statement ("SELECT " <> columns <> " FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3") itemRow
page = statement ("SELECT " <> columns <> " FROM items WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3") itemRow
one = statement ("SELECT " <> columns <> " FROM items WHERE id = $1") itemRow
insert =
  statement
    ( "INSERT INTO items (" <> columns <> ") VALUES ($1, $2, $3, $4, $5, true, '[]', 0, 0) "
        <> "ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, category = EXCLUDED.category, price = EXCLUDED.price, "
        <> "quantity = EXCLUDED.quantity RETURNING "
        <> columns
    )
    itemRow
update = statement ("UPDATE items SET name = $2, price = $3, quantity = $4 WHERE id = $1 RETURNING " <> columns) itemRow

columns :: ByteString
columns = "id, name, category, price, quantity, active, tags, rating_score, rating_count"

-- | The connections, if there is a database, and the rows that were read a moment ago, encoded.
data Rows = Rows (Maybe (Pool Connection)) (IORef Kept)

openRows :: Maybe String -> IO Rows
openRows address = do
  most <- maybe 32 read <$> lookupEnv "DATABASE_MAX_CONN"
  Rows <$> traverse (\text -> newPool (postgresqlPool (Char8.pack text)) {poolLimit = most}) address
    <*> newIORef nothingKept

-- | With a connection, or the other result if there is no database or it fails.
withDatabase :: Rows -> a -> (Connection -> IO a) -> IO a
withDatabase (Rows pool _) other action = maybe (return other) (`withResource` action) pool `catch` failed
  where
    failed problem = case fromException problem of
      Just (SomeAsyncException _) -> throwIO (problem :: SomeException)
      Nothing -> return other

-- | @/async-db?min=MIN&max=MAX&limit=LIMIT@
searchRows :: Rows -> Request -> IO Response
searchRows rows request = do
  items <-
    withDatabase
      rows
      []
      (\connection -> query connection search (map value [numberOr 10 "min" request, numberOr 50 "max" request, limit]))
  return (jsonAnswer status200 [] (pairs (pairStr "items" (list encodeItem items) <> "count" .= length items)))
  where
    limit = max 1 (min 50 (numberOr 50 "limit" request))

-- | @/crud/items?category=CATEGORY&page=PAGE&limit=LIMIT@
pageOfRows :: Rows -> Request -> IO Response
pageOfRows rows request = do
  items <-
    withDatabase
      rows
      []
      (\connection -> query connection page [value category, value limit, value ((number - 1) * limit)])
  return . jsonAnswer status200 [] . pairs $
    pairStr "items" (list encodeItem items) <> "total" .= length items <> "page" .= number <> "limit" .= limit
  where
    category = maybe "electronics" Text.decodeUtf8 (fromMaybe Nothing (lookup "category" (queryString request)))
    number = max 1 (numberOr 1 "page" request)
    limit = max 1 (min 50 (numberOr 10 "limit" request))

-- | @/crud/items/NUMBER@
readRow :: Rows -> Text -> IO Response
readRow rows@(Rows _ kept) text = withNumber text $ \number -> do
  now <- monotonicNanoseconds
  known <- recall now number <$> readIORef kept
  case known of
    Just bytes -> return (item "HIT" bytes)
    Nothing -> do
      found <- withDatabase rows Nothing (\connection -> queryOne connection one [value number])
      case found of
        Nothing -> return notFound
        Just row -> do
          let bytes = encodingToLazyByteString (encodeItem row)
          item "MISS" bytes <$ atomicModifyIORef' kept (\old -> (keep now number bytes old, ()))
  where
    item hit = responseLBS status200 [(hContentType, "application/json"), ("X-Cache", hit)]

-- | Makes a row, or replaces it.
createRow :: Rows -> Request -> IO Response
createRow rows request = withDraft request $ \draft -> case draftId draft of
  Nothing -> return (responseLBS status400 [] "")
  Just number -> do
    made <- withDatabase rows Nothing $ \connection ->
      queryOne
        connection
        insert
        [ value number,
          value (draftName draft),
          value (fromMaybe "" (draftCategory draft)),
          value (draftPrice draft),
          value
            (draftQuantity draft)
        ]
    return (maybe unavailable (jsonAnswer status201 [] . encodeItem) made)

-- | Changes a row, and forgets what was kept of it.
updateRow :: Rows -> Text -> Request -> IO Response
updateRow rows@(Rows _ kept) text request = withNumber text $ \number -> withDraft request $ \draft -> do
  changed <- withDatabase rows Nothing $ \connection ->
    queryOne
      connection
      update
      [value number, value (draftName draft), value (draftPrice draft), value (draftQuantity draft)]
  atomicModifyIORef' kept (\old -> (forget number old, ()))
  return (maybe notFound (jsonAnswer status200 [] . encodeItem) changed)

withNumber :: Text -> (Int -> IO Response) -> IO Response
withNumber text action = case Text.decimal text of
  Right (number, "") -> action number
  _ -> return notFound

withDraft :: Request -> (Draft -> IO Response) -> IO Response
withDraft request action = do
  body <- strictRequestBody request
  maybe (return (responseLBS status400 [] "")) action (decode body)

notFound, unavailable :: Response
notFound = responseLBS status404 [] ""
unavailable = responseLBS status503 [] ""
