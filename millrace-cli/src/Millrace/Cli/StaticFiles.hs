{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | A directory as a WAI application, for any server. Must not know: servers.
module Millrace.Cli.StaticFiles
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
import Control.Exception (bracket, displayException, finally, try, uninterruptibleMask_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Foldable (find, toList)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (catMaybes, fromMaybe, isJust, isNothing, mapMaybe)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Accept (acceptsHtml)
import Millrace.Cli.CacheRule (CacheRule, cacheControl)
import Millrace.Cli.Compression (compressionCodings)
import Millrace.Cli.Compressor
import Millrace.Cli.ContentCoding (Coding (..), codings, preferredCoding)
import Millrace.Cli.Entry
import Millrace.Cli.ErrorPage
import Millrace.Cli.FileCache
import Millrace.Cli.Listing
import Millrace.Cli.MediaType (isCompressible, mediaType, ownCoding)
import Millrace.Cli.Policy (Fallback (..))
import Millrace.Cli.Refusal
import Millrace.Cli.RequestPath
import Millrace.Cli.Root
import Millrace.Cli.Variant
import Millrace.Http.Date (currentSeconds)
import Millrace.Http.Shared (share)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hAllow, hRetryAfter, hVary)
import Network.Wai
import System.IO.Error (isFullError, isPermissionError)

-- | A directory to serve, and how.
--
-- @since 0.1.0
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
    -- | Called with the path of a request and the reason why the system could not look it up: the disk failed, or there was no
    -- memory or no descriptor. The answer is 500 or 503.
    siteOnFault :: ByteString -> String -> IO ()
  }

-- | A site without cache, listings, pages for errors and compression. Faults are reported to nobody.
--
-- @since 0.1.0
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
-- * GET and HEAD only. A path is decoded once and then checked ("Millrace.Cli.RequestPath"). A file is found and checked in a
--   single look-up, so that no symbolic link can lead outside ("Millrace.Cli.Root").
-- * A directory answers with its @index.html@ or @index.htm@. Without the slash at the end it answers with a redirect.
-- * Last-Modified and ETag, conditional requests, one or several ranges (RFC 9110 sections 13 and 14). A file that is dated
--   before 1970, or to its first two seconds, has neither of the two ('Millrace.Http.Precondition.modificationTime').
-- * Clients that accept a coding get the file with @.br@, @.zst@ or @.gz@ after its name instead, if there is one that is at most
--   two seconds older. With a 'Compressor', they otherwise get the file compressed, if that is worth it and no range is asked for.
-- * Only regular files that this process may read.
-- * With 'SinglePage', a path that names no file, and whose last name has no dot, answers with the root's @index.html@ if the client
--   accepts @text\/html@. The answer must be validated each time, so that clients see a new version of the application.
--
-- A file that is not in memory is answered with a 'responseFile'. Its path is valid until the server has sent the answer, and must
-- not be a key of a cache (see 'openFilePath'). The file that is sent is the one that was checked, even if it is replaced
-- meanwhile.
--
-- > root <- openRoot StayInside "public"
-- > run 8080 (staticFiles (plainSite root))
--
-- @since 0.1.0
staticFiles :: Site -> Application
staticFiles site request respond
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

-- Answers with what the cache has under this key, if it has something that is current.
answerFromCache :: Site -> ByteString -> Request -> (Response -> IO ResponseReceived) -> IO (Maybe ResponseReceived)
answerFromCache site key request respond = case siteCache site of
  Nothing -> pure Nothing
  Just cache -> withCached cache key $ \case
    Nothing -> pure Nothing
    Just kept -> do
      let chosen = choose request kept
      -- The plain file must be current, too: a coded file that is older belongs to an earlier state.
      current <- and <$> mapM isCurrent (NonEmpty.head kept : [stored | AsItIs stored <- [chosen], isJust (variantCoding stored)])
      if current then Just <$> respondWithChoice site kept chosen request respond else pure Nothing

servePath :: Site -> RequestPath -> Application
servePath site (RequestPath names endsInSlash) request respond =
  withEntry (siteRoot site) names $ \case
    Left Missing -> serveMissing site names request respond
    Left problem -> problemResponse site request problem >>= respond
    Right (Directory directory)
      | endsInSlash || null names -> serveIndex site names directory indexNames request respond
      | otherwise -> respond (redirectToDirectory (last names) (rawQueryString request))
    Right (File file)
      | endsInSlash -> serveMissing site names request respond
      | otherwise -> serveFile site ByItsPath names file request respond

-- Answers for a path without a file. A client that does not accept the application's page must not get one that a cache kept for
-- another client, and the reverse, so both answers depend on Accept.
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

-- A key of the cache that is no path. The page is kept once, and not for each path that it answers: clients make up such paths.
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
  | siteListing site = listed site names directory >>= either (problemResponse site request) (pure . listingResponse request . uncurry (Listing names)) >>= respond
  | otherwise = serveMissing site names request respond
serveIndex site names directory (name : others) request respond =
  withEntry (siteRoot site) (names ++ [name]) $ \case
    Right (File file) -> serveFile site ByItsPath (names ++ [name]) file request respond
    Right (Directory _) -> serveIndex site names directory others request respond
    Left Missing -> serveIndex site names directory others request respond
    Left problem -> problemResponse site request problem >>= respond

-- The location is relative and begins with "./". So it cannot be taken for another host ("//evil.example/") or another scheme
-- ("a:b/"), and it is right behind a proxy that serves this site under another path.
redirectToDirectory :: ByteString -> ByteString -> Response
redirectToDirectory name query = refusal movedPermanently301 [(hLocation, "./" <> encodeSegment name <> "/" <> safeQuery)]
  where
    safeQuery = if Char8.all (\c -> c > ' ' && c < '\DEL') query then query else ""

problemResponse :: Site -> Request -> Problem -> IO Response
problemResponse site request problem = case problem of
  Missing -> refused site notFound404 []
  Unreadable -> refused site forbidden403 []
  OutOfDescriptors -> told "too many open files (ulimit -n)" >> refused site serviceUnavailable503 [(hRetryAfter, "1")]
  Faulty exception -> told (ioe_description exception) >> refused site internalServerError500 []
  where
    told = siteOnFault site (rawPathInfo request)

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
      variantOf alternatives coding found = fromFile now described (Coded (ownCoding (last names)) coding (withMade alternatives coding found)) found
      withMade alternatives coding found = if isNothing coding && mayCompress site described names found then MadeForClient else alternatives
  case (,) <$> siteCache site <*> cacheKey reason request of
    Just (cache, key) ->
      bracket (keepAll site names variantOf file) (mapM_ letGo) $ \case
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
  -- Whatever the rules say: the page is the answer for paths that will have files in another version of the application.
  AsFallback -> Described contentType [(hCacheControl, "no-cache")] ["Accept"]
  ByItsPath -> Described contentType [(hCacheControl, value) | Just value <- [cacheControl (siteCacheRules site) names <|> usual]] []
  where
    contentType = mediaType (last names)
    usual = if siteFallback site == SinglePage && names == applicationPage then Just "no-cache" else Nothing

-- Makes a variant of a file in this coding.
type VariantOf = Alternatives -> Maybe Coding -> OpenFile -> Variant

mayCompress :: Site -> Described -> [ByteString] -> OpenFile -> Bool
mayCompress site described names file =
  isJust (siteCompressor site) && isCompressible (describedType described) && isNothing (ownCoding (last names)) && isWorthCompressing (openFileState file)

-- What a client gets.
data Choice
  = AsItIs Variant
  | -- | The variant without a coding, compressed.
    Compressed Coding

-- The choice among a file's variants, and what can be made of the one without a coding.
choose :: Request -> NonEmpty Variant -> Choice
choose request kept = case chooseCoding request plain (mapMaybe variantCoding (toList kept)) of
  Plain -> AsItIs plain
  Stored coding -> AsItIs (fromMaybe plain (find ((== Just coding) . variantCoding) kept))
  ToCompress coding -> Compressed coding
  where
    plain = NonEmpty.head kept

data CodingChoice
  = Plain
  | Stored Coding
  | ToCompress Coding

-- The choice between a variant without a coding, files with these codings, and what can be made of the first one. Nothing is made
-- for a range: it may have other bytes the next time.
chooseCoding :: Request -> Variant -> [Coding] -> CodingChoice
chooseCoding request plain stored = case preferredCoding fields stored of
  Just coding -> Stored coding
  Nothing
    | variantAlternatives plain == MadeForClient && not (any ((== hRange) . fst) fields) -> maybe Plain ToCompress (preferredCoding fields compressionCodings)
    | otherwise -> Plain
  where
    fields = requestHeaders request

respondWithChoice :: Site -> NonEmpty Variant -> Choice -> Application
respondWithChoice site kept chosen = case chosen of
  AsItIs variant -> respondWithVariant variant
  Compressed coding -> respondCompressed site coding (NonEmpty.head kept)

-- Answers with what is made of a variant without a coding, or with that one.
respondCompressed :: Site -> Coding -> Variant -> Application
respondCompressed site coding plain request respond = do
  made <- maybe (pure Nothing) (\compressor -> compressedVariant compressor told coding plain) (siteCompressor site)
  respondWithVariant (fromMaybe plain made) request respond
  where
    told = siteOnFault site (rawPathInfo request) . displayException

-- All variants of a file, beginning with the one without a coding. 'Nothing' if one of them cannot be kept. Must be called with
-- asynchronous exceptions masked.
keepAll :: Site -> [ByteString] -> VariantOf -> OpenFile -> IO (Maybe Kept)
keepAll site names variantOf file = do
  coded <- mapM keepCoded codings
  plain <- keepOne site names (variantOf (alternativesOf (any isKept coded)) Nothing) (\found -> openFileIdentity found == openFileIdentity file)
  let outcomes = plain : coded
      close = sequence_ [closing | Keeping _ closing <- outcomes]
  case plain of
    Keeping first _ | not (any isRefused outcomes) -> do
      let found = first :| [variant | Keeping variant _ <- coded]
      if all (isJust . heldBytes) found then pure (Just (InMemory found)) else Just . Open <$> share close found
    _ -> Nothing <$ close
  where
    keepCoded coding = keepOne site (codedNames names coding) (variantOf StoredForClient (Just coding)) (`isOfSameState` file)

-- The outcome of keeping a file, in memory or open. A file that is kept comes with the action that closes it.
data Keeping
  = Keeping Variant (IO ())
  | NotThere
  | Refused

isKept, isRefused :: Keeping -> Bool
isKept outcome = case outcome of
  Keeping _ _ -> True
  _ -> False
isRefused outcome = case outcome of
  Refused -> True
  _ -> False

-- Keeps one file, if it is the wanted one. A file is refused if it changes meanwhile, cannot be looked up, or is too large. Must be
-- called with asynchronous exceptions masked.
keepOne :: Site -> [ByteString] -> (OpenFile -> Variant) -> (OpenFile -> Bool) -> IO Keeping
keepOne site names variantOf isWanted = do
  (entry, close) <- openEntry (siteRoot site) names
  case entry of
    Right (File found)
      | not (isWanted found) -> NotThere <$ close
      | toInteger (stateSize (openFileState found)) <= memoryBytesMax -> inMemory found `finally` close
      | mayStayOpen -> pure (Keeping (variantOf found) close)
      | otherwise -> Refused <$ close
    Left problem | not (isAbsence problem) -> Refused <$ close
    _ -> NotThere <$ close
  where
    inMemory found = either unreadable held <$> try (uninterruptibleMask_ (hold (variantOf found)))
    held = maybe Refused (`Keeping` pure ())
    unreadable :: IOException -> Keeping
    unreadable _ = Refused
    isAbsence problem = case problem of
      Missing -> True
      Unreadable -> True
      _ -> False

-- Answers with the best variant, from the file system.
serveBest :: Site -> [ByteString] -> VariantOf -> OpenFile -> Application
serveBest site names variantOf file request respond = do
  found <- catMaybes <$> mapM (\coding -> withCoded site names file coding (const (pure coding))) codings
  let plain = variantOf (alternativesOf (not (null found))) Nothing file
      send variant = respondWithVariant variant request respond
  case chooseCoding request plain found of
    Plain -> send plain
    Stored coding -> withCoded site names file coding (send . variantOf StoredForClient (Just coding)) >>= maybe (send plain) pure
    ToCompress coding -> respondCompressed site coding plain request respond

-- Hands over the file in this coding, if there is one.
withCoded :: Site -> [ByteString] -> OpenFile -> Coding -> (OpenFile -> IO a) -> IO (Maybe a)
withCoded site names file coding use =
  withEntry (siteRoot site) (codedNames names coding) $ \case
    Right (File found) | found `isOfSameState` file -> Just <$> use found
    _ -> pure Nothing

alternativesOf :: Bool -> Alternatives
alternativesOf hasOthers = if hasOthers then StoredForClient else SameForAll

codedNames :: [ByteString] -> Coding -> [ByteString]
codedNames names coding = init names ++ [last names <> codingExtension coding]

-- A coded file that is older belongs to an earlier state of the file. Two seconds are allowed, because both may have been copied
-- without their times: cp -r has an order of its own, and takes a second for some thousand files. Some compressors (brotli 1.0.9,
-- pigz) copy whole seconds of the file's time, and some archives (zip) even seconds.
isOfSameState :: OpenFile -> OpenFile -> Bool
isOfSameState found file = modified found + 2000000000 >= modified file
  where
    modified = toInteger . stateModified . openFileState

-- The entries that would be served, and how many names were read if there are more.
listed :: Site -> [ByteString] -> FilePath -> IO (Either Problem (Maybe Int, [Listed]))
listed site names directory = do
  found <- try (directoryNames (listedMax + 1) directory)
  case found of
    Left exception -> pure (Left (problemOf exception))
    Right all' -> do
      let (kept, others) = splitAt listedMax all'
          cut = if null others then Nothing else Just listedMax
      fmap (cut,) <$> examineAll [] (filter isServable kept)
  where
    -- Not mapM: its stack would be walked at every park.
    examineAll known [] = pure (Right known)
    examineAll known (name : names') = examine name >>= either (pure . Left) (\entry -> examineAll (maybe known (: known) entry) names')
    examine name =
      glimpse directory name >>= \case
        DirectorySeen modified -> pure (Right (Just (ListedDirectory name (Just (seconds modified)))))
        FileSeen size modified -> pure (Right (Just (file name size modified)))
        NothingSeen -> pure (Right Nothing)
        MustBeLookedUp -> lookedUp name
    lookedUp name = withEntry (siteRoot site) (names ++ [name]) $ \case
      Right (Directory found) -> Right . Just . ListedDirectory name . changed <$> glimpse found "."
      Right (File found) -> pure (Right (Just (file name (stateSize (openFileState found)) (stateModified (openFileState found)))))
      Left OutOfDescriptors -> pure (Left OutOfDescriptors)
      Left _ -> pure (Right Nothing)
    changed seen = case seen of
      DirectorySeen modified -> Just (seconds modified)
      _ -> Nothing
    file name size modified = ListedFile name size (seconds modified)
    seconds = (`div` 1000000000)
    problemOf exception
      | isPermissionError exception = Unreadable
      | isFullError exception = OutOfDescriptors
      | otherwise = Faulty exception

-- How many names are read at most. Nobody reads a longer page, and each name costs a look-up.
listedMax :: Int
listedMax = 10000
