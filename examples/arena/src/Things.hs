{-# LANGUAGE OverloadedStrings #-}

-- | The data set as JSON: the first things of it, with a total for each, made anew for each request.
module Things (Thing, readThings, answerThings, jsonAnswer, Rating (..)) where

import Data.Aeson
import Data.Aeson.Encoding (list, pairStr)
import qualified Data.Aeson.Encoding as Encoding
import Data.Text (Text)
import qualified Data.Text.Read as Text
import Network.HTTP.Types (ResponseHeaders, Status, hContentType, status200, status404)
import Network.Wai
import Numbers (numberOr)

data Thing = Thing
  { thingId :: !Int,
    thingName :: !Text,
    thingCategory :: !Text,
    thingPrice :: !Int,
    thingQuantity :: !Int,
    thingActive :: !Bool,
    thingTags :: ![Text],
    thingRating :: !Rating
  }

instance FromJSON Thing where
  parseJSON = withObject "thing" $ \fields ->
    Thing <$> fields .: "id"
      <*> fields .: "name"
      <*> fields .: "category"
      <*> fields .: "price"
      <*> fields .: "quantity"
      <*> fields .: "active"
      <*> fields .: "tags"
      <*> fields .: "rating"

data Rating = Rating {ratingScore :: !Int, ratingCount :: !Int}

instance FromJSON Rating where
  parseJSON = withObject "rating" $ \fields -> Rating <$> fields .: "score" <*> fields .: "count"

instance ToJSON Rating where
  toJSON = error "only encoded directly"
  toEncoding rating = pairs ("score" .= ratingScore rating <> "count" .= ratingCount rating)

readThings :: FilePath -> IO [Thing]
readThings path = eitherDecodeFileStrict path >>= either (fail . ((path ++ ": ") ++)) return

-- | @/json/COUNT?m=FACTOR@
answerThings :: [Thing] -> Text -> Application
answerThings things text request respond = respond $ case Text.decimal text of
  Right (count, "") ->
    let chosen = take count things
     in jsonAnswer status200 [] $
          pairs (pairStr "items" (list (withTotal (numberOr 1 "m" request)) chosen) <> "count" .= length chosen)
  _ -> responseLBS status404 [] ""

withTotal :: Int -> Thing -> Encoding
withTotal factor thing =
  pairs $
    "id" .= thingId thing
      <> "name" .= thingName thing
      <> "category" .= thingCategory thing
      <> "price" .= thingPrice thing
      <> "quantity" .= thingQuantity thing
      <> "active" .= thingActive thing
      <> "tags" .= thingTags thing
      <> "rating" .= thingRating thing
      <> "total" .= (thingPrice thing * thingQuantity thing * factor)

-- | The encoding goes into the connection's own memory, without a string between.
jsonAnswer :: Status -> ResponseHeaders -> Encoding -> Response
jsonAnswer status fields = responseBuilder status ((hContentType, "application/json") : fields) . Encoding.fromEncoding
