{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | The rows of the database. Single rows are kept for 200 ms.
module Store (Store, Written (..), Kept (..), open, search, pageOf, readOne, create, update) where

import Data.Aeson
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as L
import qualified Data.HashMap.Strict as Map
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Pool
import Data.Text (Text)
import Data.Word (Word64)
import Database.PostgreSQL.Simple
import Database.PostgreSQL.Simple.FromField (fromJSONField)
import Database.PostgreSQL.Simple.FromRow
import GHC.Clock (getMonotonicTimeNSec)
import Items

data Store = Store {pool :: Pool Connection, kept :: IORef (Map.HashMap Int (Word64, L.ByteString))}

newtype Row = Row {item :: Item}

instance FromRow Row where
  fromRow =
    Row
      <$> ( Item <$> field
              <*> field
              <*> field
              <*> field
              <*> field
              <*> field
              <*> fieldWith fromJSONField
              <*> (Rating <$> field <*> field)
          )

-- | What a client sends to make or change a row.
data Written = Written
  { writtenId ::
      Maybe Int,
    writtenName :: Text,
    writtenCategory :: Maybe Text,
    writtenPrice, writtenQuantity :: Int
  }

instance FromJSON Written where
  parseJSON = withObject "row" $ \o ->
    Written <$> o .:? "id" <*> o .: "name" <*> o .:? "category" <*> o .: "price" <*> o .: "quantity"

open :: ByteString -> Int -> IO Store
open url connections = Store <$> createPool (connectPostgreSQL url) close 1 60 connections <*> newIORef Map.empty

columns :: Query
columns = "SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count FROM items "

rows :: ToRow q => Store -> Query -> q -> IO [Item]
rows store statement values =
  withResource (pool store) $ \connection -> map item <$> query connection (columns <> statement) values

search :: Store -> Int -> Int -> Int -> IO [Item]
search store low high most = rows store "WHERE price BETWEEN ? AND ? LIMIT ?" (low, high, most)

pageOf :: Store -> Text -> Int -> Int -> IO [Item]
pageOf store of_ number most =
  rows store "WHERE category = ? ORDER BY id LIMIT ? OFFSET ?" (of_, most, (number - 1) * most)

-- | The JSON of a row, and whether it was kept.
data Kept = Hit L.ByteString | Miss L.ByteString | Absent

keepNs :: Word64
keepNs = 200000000

readOne :: Store -> Int -> IO Kept
readOne store number = do
  now <- getMonotonicTimeNSec
  found <- Map.lookup number <$> readIORef (kept store)
  case found of
    Just (until_, content) | now < until_ -> pure (Hit content)
    _ ->
      rows store "WHERE id = ?" (Only number) >>= \case
        [] -> pure Absent
        one : _ -> do
          let content = encode one
          atomicModifyIORef' (kept store) $ \all_ -> (Map.insert number (now + keepNs, content) all_, ())
          pure (Miss content)

forget :: Store -> Int -> IO ()
forget store number = atomicModifyIORef' (kept store) $ \all_ -> (Map.delete number all_, ())

create :: Store -> Int -> Written -> IO ()
create store number row = do
  _ <- withResource (pool store) $ \connection ->
    execute
      connection
      "INSERT INTO items VALUES (?, ?, ?, ?, ?, true, '[]', 0, 0) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, \
      \category = EXCLUDED.category, price = EXCLUDED.price, quantity = EXCLUDED.quantity"
      (number, writtenName row, fromMaybe "" (writtenCategory row), writtenPrice row, writtenQuantity row)
  forget store number

-- | Whether there is such a row.
update :: Store -> Int -> Written -> IO Bool
update store number row = do
  changed <- withResource (pool store) $ \connection ->
    execute
      connection
      "UPDATE items SET name = ?, price = ?, quantity = ? WHERE id = ?"
      (writtenName row, writtenPrice row, writtenQuantity row, number)
  forget store number
  pure (changed > 0)
