{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | A directory as a WAI application, for any server.
module Millrace.Cli.Files.StaticFiles
  ( staticFiles,
    Site (..),
    Fallback (..),
    plainSite,
    FileCache,
    newFileCache,
    ErrorPages,
    newErrorPages,
    Compressor,
    newCompressor,
    Root,
    openRoot,
    LinkPolicy (..),
  )
where

import Control.Applicative ((<|>))
import Control.Exception (bracket, displayException)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (fromMaybe, isJust, isNothing)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Refusal
import Millrace.Cli.Base.RequestName (requestName)
import Millrace.Cli.Base.RequestPath
import Millrace.Cli.Files.Accept (acceptsHtml)
import Millrace.Cli.Files.CacheRule (CacheRule, cacheControl)
import Millrace.Cli.Files.Compressor
import Millrace.Cli.Files.ContentCoding (Coding, codings, wantedCodings)
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.ErrorPage
import Millrace.Cli.Files.FileCache
import Millrace.Cli.Files.Listing
import Millrace.Cli.Files.MediaType (isCompressible, mediaType, ownCoding)
import Millrace.Cli.Files.Policy (Fallback (..))
import Millrace.Cli.Files.Representation
import Millrace.Cli.Files.Root
import Millrace.Http.Date (currentSeconds)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hAllow, hRetryAfter, hUpgrade, hVary)
import Network.Wai

-- | A directory to serve, and how.
data Site = Site
  { siteRoot :: Root,
    siteCache :: Maybe FileCache,
    -- | Does a directory without an index answer with a list of its files?
    siteListing :: Bool,
    siteFallback :: Fallback,
    siteErrorPages :: Maybe ErrorPages,
    -- | 'Nothing': nothing is compressed.
    siteCompressor :: Maybe Compressor,
    -- | The last rule that fits a file decides.
    siteCacheRules :: [CacheRule],
    -- | Called with the name of a request in messages and the reason why the system could not look it up: the disk
    -- failed, or there was no memory or no descriptor. The answer is 500 or 503.
    siteOnFault :: String -> String -> IO ()
  }

-- | A site without cache, listings, pages for errors and compression. Faults are reported to nobody.
plainSite :: Root -> Site
plainSite root =
  Site
    { siteRoot = root,
      siteCache = Nothing,
      siteListing = False,
      siteFallback = NotFound,
      siteErrorPages = Nothing,
      siteCompressor = Nothing,
      siteCacheRules = [],
      siteOnFault = \_ _ -> pure ()
    }

-- | Serves the files of a site.
--
-- * GET and HEAD only. A path is decoded once and then checked ("Millrace.Cli.Base.RequestPath"). A file is found and
--   checked in a
--   single look-up, so that no symbolic link can lead outside ("Millrace.Cli.Files.Root").
-- * A directory answers with its @index.html@ or @index.htm@. Without the slash at the end it answers with a redirect.
-- * Last-Modified and ETag, conditional requests, one or several ranges (RFC 9110 sections 13 and 14). A file that is
--   dated
--   before 1970, or to its first two seconds, has neither of the two ('Millrace.Http.Precondition.modificationTime').
-- * Clients that accept a coding get the file with @.br@, @.zst@ or @.gz@ after its name instead, if there is one that
--   is at most
--   two seconds older. With a 'Compressor', they otherwise get the file compressed, if that makes it
--   smaller and no range is asked for.
-- * Only regular files that this process may read.
-- * With 'SinglePage', a path that names no file, and whose last name has no dot, answers with the root's @index.html@
--   if the client
--   accepts @text\/html@. The answer must be validated each time, so that clients see a new version of the application.
--
-- A file that is not in memory is answered with a 'responseFile'. Its path is valid until the server has sent the
-- answer, and must not be a key of a cache (see 'openFilePath'). The file that is sent is the one that was checked,
-- even if it is replaced meanwhile.
--
-- > root <- openRoot StayInside "public"
-- > run 8080 (staticFiles (plainSite root))
staticFiles :: Site -> Application
staticFiles site request respond
  | asksForTunnel request = respond (refusal notImplemented501 [])
  | requestMethod request `notElem` [methodGet, methodHead] =
    respond (refusal methodNotAllowed405 [(hAllow, "GET, HEAD")])
  | otherwise = do
    answered <- answerFromCache site (rawPathInfo request) request respond
    maybe look pure answered
  where
    look = case parseRequestPath (rawPathInfo request) of
      Left Malformed -> respond (refusal badRequest400 [])
      Left Unservable -> refused site notFound404 [] >>= respond
      Right path -> servePath site path request respond

-- An extended CONNECT comes as a GET with this field, which no other request of HTTP/2 and HTTP/3 has.
asksForTunnel :: Request -> Bool
asksForTunnel request = httpVersion request >= http20 && isJust (lookup hUpgrade (requestHeaders request))

-- Answers with what the cache has under this key, if it has something that is current.
answerFromCache :: Site -> ByteString -> Request -> (Response -> IO ResponseReceived) -> IO (Maybe ResponseReceived)
answerFromCache site key request respond = case siteCache site of
  Nothing -> pure Nothing
  Just cache -> withCached cache key $ \case
    Nothing -> pure Nothing
    Just kept -> do
      let chosen = choose request kept
      -- The plain file must be current, too: a coded file that is older belongs to an earlier state.
      current <-
        and
          <$> mapM isCurrent (NonEmpty.head kept : [stored | AsItIs stored <- [chosen], isJust (variantCoding stored)])
      if current then Just <$> respondWithChoice site kept chosen request respond else pure Nothing

servePath :: Site -> RequestPath -> Application
servePath everywhere path request respond =
  lookedUpOnce (siteRoot everywhere) $ \root -> serveBelow everywhere {siteRoot = root} path request respond

serveBelow :: Site -> RequestPath -> Application
serveBelow site (RequestPath names endsInSlash) request respond =
  withEntry (siteRoot site) names $ \case
    Left Missing -> serveMissing site names request respond
    Left problem -> problemResponse site request problem >>= respond
    Right (Directory directory)
      | endsInSlash || null names -> serveIndex site names directory indexNames request respond
      | otherwise -> respond (redirectToDirectory (last names) (rawQueryString request))
    Right (File file)
      | endsInSlash -> serveMissing site names request respond
      | otherwise -> serveFile site ByItsPath names file request respond

-- Answers for a path without a file. A client that does not accept the application's page must not get one that a cache
-- kept for another client, and the reverse, so both answers depend on Accept.
serveMissing :: Site -> [ByteString] -> Application
serveMissing site names request respond
  | siteFallback site == NotFound || null names || Char8.elem '.' (last names) = notFound []
  | not (acceptsHtml (requestHeaders request)) = notFound [(hVary, "Accept")]
  | otherwise = answerFromCache site fallbackKey request respond >>= maybe servePage pure
  where
    notFound fields = refused site notFound404 fields >>= respond
    servePage = withEntry (siteRoot site) applicationPage $ \case
      Right (File file) -> serveFile site AsFallback applicationPage file request respond
      Right (Directory _) -> notFound []
      Left problem -> problemResponse site request problem >>= respond

applicationPage :: [ByteString]
applicationPage = ["index.html"]

-- A key of the cache that is no path. The page is kept once, and not for each path that it answers: clients make up
-- such paths.
fallbackKey :: ByteString
fallbackKey = "single page"

-- Why a file is the answer.
data Reason
  = ByItsPath
  | -- The path names no file.
    AsFallback

indexNames :: [ByteString]
indexNames = ["index.html", "index.htm"]

serveIndex :: Site -> [ByteString] -> FilePath -> [ByteString] -> Application
serveIndex site names directory [] request respond
  | siteListing site =
    listed (siteRoot site) names directory
      >>= either (problemResponse site request) (pure . listingResponse request . uncurry (Listing names))
      >>= respond
  | otherwise = serveMissing site names request respond
serveIndex site names directory (name : others) request respond =
  withEntry (siteRoot site) (names ++ [name]) $ \case
    Right (File file) -> serveFile site ByItsPath (names ++ [name]) file request respond
    Right (Directory _) -> serveIndex site names directory others request respond
    Left Missing -> serveIndex site names directory others request respond
    Left problem -> problemResponse site request problem >>= respond

-- The location is relative and begins with "./". So it cannot be taken for another host ("//evil.example/") or another
-- scheme ("a:b/"), and it is right behind a proxy that serves this site under another path.
redirectToDirectory :: ByteString -> ByteString -> Response
redirectToDirectory name query =
  refusal movedPermanently301 [(hLocation, "./" <> encodeSegment name <> "/" <> encodeBeyondAscii safeQuery)]
  where
    safeQuery = if Char8.all (\c -> c > ' ' && c < '\DEL') query then query else ""

problemResponse :: Site -> Request -> Problem -> IO Response
problemResponse site request problem = case problem of
  Missing -> refused site notFound404 []
  Unreadable -> refused site forbidden403 []
  OutOfDescriptors -> told "too many open files (ulimit -n)" >> refused site serviceUnavailable503 [(hRetryAfter, "1")]
  Faulty exception -> told (ioe_description exception) >> refused site internalServerError500 []
  where
    told = siteOnFault site (requestName request)

-- An answer that says the status, with the site's page for it if there is one.
refused :: Site -> Status -> ResponseHeaders -> IO Response
refused site status fields = case siteErrorPages site of
  Nothing -> pure (refusal status fields)
  Just pages -> fromMaybe (refusal status fields) <$> errorPage pages status fields

-- Uses the cache if there is one.
serveFile :: Site -> Reason -> [ByteString] -> OpenFile -> Application
serveFile site reason names file request respond = do
  now <- currentSeconds
  let described = describe site reason names
      variantOf alternatives coding found =
        fromFile now described (Coded (ownCoding (last names)) coding (withMade alternatives coding found)) found
      withMade alternatives coding found =
        if isNothing coding && mayCompress site described names found then MadeForClient else alternatives
  case (,) <$> siteCache site <*> cacheKey reason request of
    Just (cache, key) ->
      bracket (keepAll (siteRoot site) names variantOf file) (mapM_ releaseKept) $ \case
        Just kept -> do
          remember cache key kept
          respondWithChoice site (variants kept) (choose request (variants kept)) request respond
        Nothing -> serveBest site names variantOf file request respond
    Nothing -> serveBest site names variantOf file request respond

-- A path that is not the only one for its file is not cached: anybody could fill the cache with such paths.
cacheKey :: Reason -> Request -> Maybe ByteString
cacheKey reason request = case reason of
  AsFallback -> Just fallbackKey
  ByItsPath
    | isCanonical (rawPathInfo request) -> Just (ByteString.copy (rawPathInfo request))
    | otherwise -> Nothing

describe :: Site -> Reason -> [ByteString] -> Described
describe site reason names = case reason of
  -- Whatever the rules say: the page is the answer for paths that will have files in another version of the
  -- application.
  AsFallback -> Described contentType [(hCacheControl, "no-cache")] ["Accept"]
  ByItsPath ->
    Described
      contentType
      [(hCacheControl, value) | Just value <- [cacheControl (siteCacheRules site) names <|> usual]]
      []
  where
    contentType = mediaType (last names)
    usual = if siteFallback site == SinglePage && names == applicationPage then Just "no-cache" else Nothing

mayCompress :: Site -> Described -> [ByteString] -> OpenFile -> Bool
mayCompress site described names file =
  isJust (siteCompressor site)
    && isCompressible (describedType described)
    && isNothing (ownCoding (last names))
    && isWorthCompressing (openFileState file)

respondWithChoice :: Site -> NonEmpty Variant -> VariantChoice -> Application
respondWithChoice site kept chosen = case chosen of
  AsItIs variant -> respondWithVariant variant
  Compressed coding -> respondCompressed site coding (NonEmpty.head kept)

-- Answers with what is made of a variant without a coding, or with that one.
respondCompressed :: Site -> Coding -> Variant -> Application
respondCompressed site coding plain request respond = do
  made <- maybe (pure Nothing) (\compressor -> compressedVariant compressor told coding plain) (siteCompressor site)
  respondWithVariant (fromMaybe plain made) request respond
  where
    told = siteOnFault site (requestName request) . displayException

-- Answers with the best variant, from the file system. The codings that the client wants are looked for first, and no
-- further than to the first that is there: each look is a system call or more. The others only decide whether caches
-- must tell clients apart.
serveBest :: Site -> [ByteString] -> VariantOf -> OpenFile -> Application
serveBest site names variantOf file request respond = serveFirst wanted
  where
    wanted = wantedCodings (requestHeaders request) codings
    serveFirst (coding : others) =
      withStored coding (send . variantOf StoredForClient (Just coding)) >>= maybe (serveFirst others) pure
    serveFirst [] = do
      hasOthers <- anyStored (filter (`notElem` wanted) codings)
      let plain = variantOf (alternativesOf hasOthers) Nothing file
      maybe (send plain) (\coding -> respondCompressed site coding plain request respond) (codingToMake request plain)
    anyStored [] = pure False
    anyStored (coding : others) = withStored coding (const (pure ())) >>= maybe (anyStored others) (const (pure True))
    withStored :: Coding -> (OpenFile -> IO a) -> IO (Maybe a)
    withStored = withCoded (siteRoot site) names file
    send variant = respondWithVariant variant request respond
