{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: files.

-- | Conditional requests (RFC 9110 section 13): the decision about one, and not its answer.
module Millrace.Http.Precondition
  ( Validators (..),
    modificationTime,
    Verdict (..),
    precondition,
    selectRepresentation,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (fromMaybe)
import Millrace.Http.ByteRange (Selection (..), selectRanges)
import Millrace.Http.Date (Seconds, parseHttpDate)
import Millrace.Http.EntityTag
import Network.HTTP.Types (HeaderName, Method, RequestHeaders, hIfModifiedSince, hIfRange, hRange, methodGet)
import Network.HTTP.Types.Header (hIfMatch, hIfNoneMatch, hIfUnmodifiedSince)

-- | The data that identify a state of a representation.
data Validators = Validators
  { validatorTag :: Maybe EntityTag,
    -- | Last-Modified, if it is known.
    validatorModified :: Maybe Seconds,
    -- | Is the date a strong validator (RFC 9110, section 8.8.2.2)? It is one if the representation cannot have changed
    -- again within that second.
    validatorDateIsStrong :: Bool
  }

-- | The time of the last modification, if the time in the file system is meaningful. Nix, Guix and OSTree date all
-- files 0 or 1, so that equal builds have equal files. With such a date, every later state would look like the one that
-- a client already has. The same holds for a time before 1970, which HTTP cannot express.
--
-- >>> modificationTime 1
-- Nothing
modificationTime :: Seconds -> Maybe Seconds
modificationTime seconds = if seconds <= 1 then Nothing else Just seconds

-- | The decision about a conditional request.
data Verdict
  = Proceed
  | -- | 304.
    NotModified
  | -- | 412.
    PreconditionFailed
  deriving (Eq, Show)

-- | The decision about a GET or HEAD request whose answer would otherwise be 200 or 206, in the order of RFC 9110
-- section 13.2.2. A malformed date is ignored, and so is any date if that of the representation is not known (sections
-- 13.1.3 and 13.1.4). A malformed list of tags matches nothing.
precondition :: Validators -> RequestHeaders -> Verdict
precondition validators headers
  | not mayBeSent = PreconditionFailed
  | alreadyKnown = NotModified
  | otherwise = Proceed
  where
    mayBeSent = case listHeader hIfMatch headers of
      Just list -> matches sameStrong list
      Nothing -> fromMaybe True (unmodifiedSince hIfUnmodifiedSince)
    alreadyKnown = case listHeader hIfNoneMatch headers of
      Just list -> matches sameWeak list
      Nothing -> fromMaybe False (unmodifiedSince hIfModifiedSince)
    unmodifiedSince name = (>=) <$> (onlyHeader name headers >>= parseHttpDate) <*> validatorModified validators
    matches same list = case parseTagList list of
      Just AnyTag -> True
      Just (Tags tags) -> maybe False (\tag -> any (same tag) tags) (validatorTag validators)
      Nothing -> False

-- | The bytes of a representation of this size that a GET or HEAD request gets if its preconditions hold. Range
-- concerns only GET (RFC 9110 section 14.2).
selectRepresentation :: Validators -> Integer -> Method -> RequestHeaders -> Selection
selectRepresentation validators size method headers = case onlyHeader hRange headers of
  Just value | method == methodGet && rangeApplies validators headers -> selectRanges size value
  _ -> Whole

-- Does If-Range allow a range (RFC 9110 section 13.1.5)? It does if its validator is strong and exactly equal.
-- Otherwise the client would join the range to bytes of another state of the file.
rangeApplies :: Validators -> RequestHeaders -> Bool
rangeApplies validators headers
  | any ((== hIfRange) . fst) headers = maybe False unchanged (onlyHeader hIfRange headers)
  | otherwise = True
  where
    unchanged value = case parseTag value of
      Just tag -> maybe False (sameStrong tag) (validatorTag validators)
      Nothing ->
        validatorDateIsStrong validators && any ((== validatorModified validators) . Just) (parseHttpDate value)

-- Several lines of a list header are one list (RFC 9110 section 5.3).
listHeader :: HeaderName -> RequestHeaders -> Maybe ByteString
listHeader name headers = case [value | (key, value) <- headers, key == name] of
  [] -> Nothing
  values -> Just (Char8.intercalate "," values)

-- Several lines of a header that is not a list are an error of the sender, and are ignored.
onlyHeader :: HeaderName -> RequestHeaders -> Maybe ByteString
onlyHeader name headers = case [value | (key, value) <- headers, key == name] of
  [value] -> Just value
  _ -> Nothing
