{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | Pages that a site has for errors: @404.html@, @503.html@ and the like in a root.
--
-- A page is kept in memory. So it can still be sent when files cannot be opened any more: that is when a 503 is.
module Millrace.Cli.Files.ErrorPage
  ( ErrorPages,
    newErrorPages,
    errorPage,
    withErrorPage,
    pageBytesMax,
  )
where

import Control.Exception (IOException, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Millrace.Cli.Base.Refusal (noSniffing)
import Millrace.Cli.Files.Content (wholeContent)
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.MediaType (mediaType)
import Millrace.Cli.Files.Root (Root, withEntry)
import Millrace.Deadline (Deadline, deadlineAfter, microseconds, seconds)
import Network.HTTP.Types
import Network.Wai (Response, responseBuilder, responseHeaders, responseStatus)

-- | The pages of a site.
data ErrorPages = ErrorPages Root Int (IORef (Map Int Known))

-- A page, if there is one, and the moment until which it need not be looked up again.
data Known = Known Deadline (Maybe ByteString)

-- | @newErrorPages root lifeMicros@: the pages in a root, which are looked up again after this many microseconds, and
-- with 0 each time. Reads them. Blocks while the disk works.
--
-- > pages <- newErrorPages root 1000000
newErrorPages :: Root -> Int -> IO ErrorPages
newErrorPages root lifeMicros = do
  pages <- ErrorPages root lifeMicros <$> newIORef Map.empty
  mapM_ (lookUp pages . statusCode) statuses
  pure pages

statuses :: [Status]
statuses =
  [ badRequest400,
    unauthorized401,
    forbidden403,
    notFound404,
    methodNotAllowed405,
    requestTimeout408,
    requestEntityTooLarge413,
    internalServerError500,
    notImplemented501,
    badGateway502,
    serviceUnavailable503,
    gatewayTimeout504
  ]

-- | @errorPage pages status fields@: the answer with the page for a status, and with these fields. 'Nothing' if there
-- is no page. It has no validators, and so no condition can make another status of it. May block while the disk works.
errorPage :: ErrorPages -> Status -> ResponseHeaders -> IO (Maybe Response)
errorPage pages status fields
  | status `elem` statuses = fmap answer <$> pageFor pages (statusCode status)
  | otherwise = pure Nothing
  where
    answer bytes = responseBuilder status (described bytes ++ fields) (byteString bytes)
    described bytes =
      [ (hContentType, mediaType "error.html"),
        noSniffing,
        (hContentLength, Char8.pack (show (ByteString.length bytes)))
      ]

-- | An answer with the page for its status instead of its own body, if there is one. May block while the disk works.
withErrorPage :: ErrorPages -> Response -> IO Response
withErrorPage pages response =
  fromMaybe response
    <$> errorPage pages (responseStatus response) (filter ((`notElem` ofBody) . fst) (responseHeaders response))
  where
    ofBody = [hContentType, hContentLength, "X-Content-Type-Options"]

-- | A larger page is not used.
pageBytesMax :: Integer
pageBytesMax = 1048576

pageFor :: ErrorPages -> Int -> IO (Maybe ByteString)
pageFor pages@(ErrorPages _ lifeMicros known) code = do
  now <- deadlineAfter (seconds 0)
  found <- Map.lookup code <$> readIORef known
  case found of
    Just (Known end page) | lifeMicros > 0 && end > now -> pure page
    _ -> lookUp pages code

-- If the page cannot be read now, the one that was known before stays.
lookUp :: ErrorPages -> Int -> IO (Maybe ByteString)
lookUp (ErrorPages root lifeMicros known) code = do
  outcome <- readPage root code
  end <- deadlineAfter (microseconds lifeMicros)
  atomicModifyIORef' known $ \before ->
    let page = case outcome of
          Page bytes -> Just bytes
          NoPage -> Nothing
          NotReadNow -> Map.lookup code before >>= \(Known _ earlier) -> earlier
     in (Map.insert code (Known end page) before, page)

data PageResult
  = Page ByteString
  | NoPage
  | -- | There are no descriptors, the disk fails, or the file changes at this moment.
    NotReadNow

readPage :: Root -> Int -> IO PageResult
readPage root code = either failed id <$> try (withEntry root [Char8.pack (show code) <> ".html"] outcome)
  where
    outcome entry = case entry of
      Right (File file)
        | toInteger (stateSize (openFileState file)) > pageBytesMax -> pure NoPage
        | otherwise -> maybe NotReadNow Page <$> wholeContent file
      Right (Directory _) -> pure NoPage
      Left Missing -> pure NoPage
      Left Unreadable -> pure NoPage
      Left _ -> pure NotReadNow
    failed :: IOException -> PageResult
    failed _ = NotReadNow
