{-# LANGUAGE OverloadedStrings #-}

-- | Conditional requests (RFC 9110 section 13). Decides, but answers nothing and knows nothing of files.
module Millrace.Http.Precondition
  ( Validators (..),
    Verdict (..),
    precondition,
    selectRepresentation,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Http.ByteRange (Selection (..), selectRanges)
import Millrace.Http.Date (Seconds, parseHttpDate)
import Millrace.Http.EntityTag
import Network.HTTP.Types (HeaderName, Method, RequestHeaders, hIfModifiedSince, hIfRange, hRange, methodGet)
import Network.HTTP.Types.Header (hIfMatch, hIfNoneMatch, hIfUnmodifiedSince)

-- | What identifies the state of a representation.
--
-- @since 0.1.0
data Validators = Validators
  { validatorTag :: Maybe EntityTag,
    -- | Last-Modified.
    validatorModified :: Seconds,
    -- | Whether it is a strong validator (RFC 9110, section 8.8.2.2): whether the representation cannot have changed
    -- again within that second.
    validatorDateIsStrong :: Bool
  }

-- | How to answer.
--
-- @since 0.1.0
data Verdict
  = Proceed
  | -- | 304.
    NotModified
  | -- | 412.
    PreconditionFailed
  deriving (Eq, Show)

-- | The verdict on a GET or HEAD request whose answer would otherwise be 200 or 206, in the order of RFC 9110 section
-- 13.2.2. A date that cannot be read is ignored; a list of tags that cannot be read matches nothing.
--
-- @since 0.1.0
precondition :: Validators -> RequestHeaders -> Verdict
precondition validators headers
  | not mayBeSent = PreconditionFailed
  | alreadyKnown = NotModified
  | otherwise = Proceed
  where
    mayBeSent = case listHeader hIfMatch headers of
      Just list -> matches sameStrong list
      Nothing -> maybe True (modified <=) (dateHeader hIfUnmodifiedSince)
    alreadyKnown = case listHeader hIfNoneMatch headers of
      Just list -> matches sameWeak list
      Nothing -> maybe False (modified <=) (dateHeader hIfModifiedSince)
    modified = validatorModified validators
    dateHeader name = onlyHeader name headers >>= parseHttpDate
    matches same list = case parseTagList list of
      Just AnyTag -> True
      Just (Tags tags) -> maybe False (\tag -> any (same tag) tags) (validatorTag validators)
      Nothing -> False

-- | What a GET or HEAD request whose preconditions hold is to get of a representation of this size in bytes. Range is
-- for GET alone (RFC 9110 section 14.2).
--
-- @since 0.1.0
selectRepresentation :: Validators -> Integer -> Method -> RequestHeaders -> Selection
selectRepresentation validators size method headers = case onlyHeader hRange headers of
  Just value | method == methodGet && rangeApplies validators headers -> selectRanges size value
  _ -> Whole

-- Whether Range is to be honoured, by If-Range (RFC 9110 section 13.1.5). Without If-Range it is; with one, only if the
-- validator is strong and exactly equal: a range of another state of the file would be joined to bytes it does not
-- belong to.
rangeApplies :: Validators -> RequestHeaders -> Bool
rangeApplies validators headers
  | any ((== hIfRange) . fst) headers = maybe False unchanged (onlyHeader hIfRange headers)
  | otherwise = True
  where
    unchanged value = case parseTag value of
      Just tag -> maybe False (sameStrong tag) (validatorTag validators)
      Nothing -> validatorDateIsStrong validators && parseHttpDate value == Just (validatorModified validators)

-- Several lines of a list header are one list (RFC 9110 section 5.3).
listHeader :: HeaderName -> RequestHeaders -> Maybe ByteString
listHeader name headers = case [value | (key, value) <- headers, key == name] of
  [] -> Nothing
  values -> Just (Char8.intercalate "," values)

-- Several lines of a header that is not a list are an error of the sender; nothing follows from them.
onlyHeader :: HeaderName -> RequestHeaders -> Maybe ByteString
onlyHeader name headers = case [value | (key, value) <- headers, key == name] of
  [value] -> Just value
  _ -> Nothing
