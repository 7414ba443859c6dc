{-# LANGUAGE OverloadedStrings #-}

-- | Conditional requests (RFC 9110 section 13). Decides, but answers nothing and knows nothing of files.
module Millrace.Cli.Precondition
  ( Validators (..)
  , Verdict (..)
  , precondition
  , rangeApplies
  ) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.EntityTag
import Millrace.Cli.HttpDate (Seconds, parseHttpDate)
import Network.HTTP.Types (HeaderName, RequestHeaders, hIfModifiedSince, hIfRange)
import Network.HTTP.Types.Header (hIfMatch, hIfNoneMatch, hIfUnmodifiedSince)

-- | What identifies the state of a representation.
--
-- @since 0.1.0
data Validators = Validators
  { validatorTag :: EntityTag
  , validatorModified :: Seconds
  -- ^ Last-Modified. As strong as the tag: see RFC 9110 section 8.8.2.2.
  , validatorNow :: Seconds
  -- ^ the time of the request, for reading dates
  }

-- | How to answer.
--
-- @since 0.1.0
data Verdict
  = Proceed
  | NotModified
  -- ^ 304
  | PreconditionFailed
  -- ^ 412
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
    dateHeader name = onlyHeader name headers >>= parseHttpDate (validatorNow validators)
    matches same list = case parseTagList list of
      Just AnyTag -> True
      Just (Tags tags) -> any (same (validatorTag validators)) tags
      Nothing -> False

-- | Whether the Range header of a GET request is to be honoured, by If-Range (RFC 9110 section 13.1.5). Without
-- If-Range it is; with one, only if the validator is strong and exactly equal: a range of another state of the file
-- would be joined to bytes it does not belong to.
--
-- @since 0.1.0
rangeApplies :: Validators -> RequestHeaders -> Bool
rangeApplies validators headers
  | any ((== hIfRange) . fst) headers = maybe False unchanged (onlyHeader hIfRange headers)
  | otherwise = True
  where
    unchanged value = case parseTag value of
      Just tag -> sameStrong tag (validatorTag validators)
      Nothing -> isStrong && parseHttpDate (validatorNow validators) value == Just (validatorModified validators)
    isStrong = validatorTag validators `sameStrong` validatorTag validators

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
