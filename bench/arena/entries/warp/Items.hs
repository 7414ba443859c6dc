{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | The things that the arena's application has to show, and their JSON.
module Items (Item (..), Rating (..), Priced (..), Listed (..), Page (..)) where

import Data.Aeson
import Data.Text (Text)
import GHC.Generics (Generic)

data Rating = Rating {score :: !Int, count :: !Int}
  deriving (Generic)

instance FromJSON Rating

instance ToJSON Rating where
  toEncoding = genericToEncoding defaultOptions

data Item = Item
  { itemId :: !Int,
    name :: !Text,
    category :: !Text,
    price :: !Int,
    quantity :: !Int,
    active :: !Bool,
    tags :: ![Text],
    rating :: !Rating
  }

instance FromJSON Item where
  parseJSON = withObject "item" $ \o ->
    Item <$> o .: "id"
      <*> o .: "name"
      <*> o .: "category"
      <*> o .: "price"
      <*> o .: "quantity"
      <*> o .: "active"
      <*> o .: "tags"
      <*> o .: "rating"

series :: Item -> Series
series item =
  "id" .= itemId item <> "name" .= name item <> "category" .= category item <> "price" .= price item
    <> "quantity" .= quantity item
    <> "active" .= active item
    <> "tags" .= tags item
    <> "rating" .= rating item

instance ToJSON Item where
  toJSON item = object ["id" .= itemId item]
  toEncoding = pairs . series

-- | An item with a total.
data Priced = Priced !Int !Item

instance ToJSON Priced where
  toJSON (Priced _ item) = toJSON item
  toEncoding (Priced total item) = pairs (series item <> "total" .= total)

newtype Listed a = Listed [a]

instance ToJSON a => ToJSON (Listed a) where
  toJSON (Listed found) = object ["items" .= found, "count" .= length found]
  toEncoding (Listed found) = pairs ("items" .= found <> "count" .= length found)

data Page = Page {items :: [Item], page :: !Int, limit :: !Int}

instance ToJSON Page where
  toJSON found = object ["items" .= items found]
  toEncoding found =
    pairs ("items" .= items found <> "total" .= length (items found) <> "page" .= page found <> "limit" .= limit found)
