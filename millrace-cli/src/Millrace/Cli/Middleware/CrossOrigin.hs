{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | Lets pages of other origins read answers (CORS, as the Fetch standard says).
module Millrace.Cli.Middleware.CrossOrigin
  ( CrossOrigin (..),
    Origins (..),
    sharing,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.Maybe (fromMaybe, isJust)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hOrigin, hVary)
import Network.Wai

-- | Whose pages may ask, and for what.
data CrossOrigin = CrossOrigin
  { crossOrigins :: Origins,
    -- | Besides GET, HEAD and POST, which need no permission.
    crossMethods :: [String],
    -- | Names of fields that requests may have.
    crossFields :: [String],
    -- | Names of fields of answers that pages may read.
    crossExposed :: [String],
    -- | Whether requests may have cookies and passwords. Never with 'AnyOrigin': the pages of every site could then act
    -- as the user.
    crossCredentials :: Bool,
    -- | The time for which a browser may remember these rules.
    crossSeconds :: Int
  }
  deriving (Eq, Show)

-- | Whose pages may ask.
data Origins
  = AnyOrigin
  | -- | @https:\/\/app.example@ and the like, exactly.
    TheseOrigins [String]
  deriving (Eq, Show)

-- | Adds the fields that browsers want, and answers what they ask beforehand (preflight) itself, with 204. The
-- application's own fields of this kind are always left out: they could allow more than these options do.
sharing :: CrossOrigin -> Middleware
sharing options application request respond
  | isPreflight = respond (responseLBS noContent204 (if isAllowed then allowing <> beforehand else varying) "")
  | isAllowed = answering (allowing <> exposed)
  | otherwise = answering varying
  where
    answering fields =
      application request (respond . mapResponseHeaders ((fields <>) . filter (not . isOfSharing . fst)))
    isOfSharing name = "access-control-" `ByteString.isPrefixOf` CI.foldedCase name
    origin = lookup hOrigin (requestHeaders request)
    isPreflight =
      isJust origin
        && requestMethod request == methodOptions
        && any ((== "Access-Control-Request-Method") . fst) (requestHeaders request)
    (isAllowed, allowed, varying) = case crossOrigins options of
      -- For every client, so that a cache may keep the answer for all.
      AnyOrigin -> (True, "*", [])
      TheseOrigins origins ->
        (maybe False ((`elem` origins) . Char8.unpack) origin, fromMaybe "" origin, [(hVary, "Origin")])
    allowing =
      [("Access-Control-Allow-Origin", allowed)]
        <> [ ("Access-Control-Allow-Credentials", "true")
             | crossCredentials options
                 && crossOrigins options /= AnyOrigin
           ]
        <> varying
    beforehand =
      [("Access-Control-Allow-Methods", joined (["GET", "HEAD", "POST"] <> crossMethods options))]
        <> [("Access-Control-Allow-Headers", joined (crossFields options)) | not (null (crossFields options))]
        <> [("Access-Control-Max-Age", Char8.pack (show (crossSeconds options)))]
    exposed = [("Access-Control-Expose-Headers", joined (crossExposed options)) | not (null (crossExposed options))]

joined :: [String] -> ByteString
joined = Char8.intercalate ", " . map Char8.pack
