{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: servers.

-- | Reads configuration files: the process, the addresses, and the sites.
--
-- docs\/guide\/configuring.md has every key, with an example.
module Millrace.Cli.Config.Configuration
  ( Configuration (..),
    SiteOptions (..),
    HostPattern (..),
    RouteOptions (..),
    Action (..),
    readConfiguration,
    showHost,
    showPath,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import Data.Char (isAlphaNum, isAscii, isDigit, isHexDigit, toLower)
import Data.Foldable (toList)
import Data.List (group, inits, intercalate, isPrefixOf, sort)
import Data.Text (Text)
import Millrace.Cli.Base.NameBytes (nameBytes)
import Millrace.Cli.Base.RequestPath (encodeSegment)
import Millrace.Cli.Config.Consistency (addressProblem, hasFormatWithoutLog, limitProblem)
import Millrace.Cli.Config.Document
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.ServerSettings
import Millrace.Cli.Config.Setting (Settings (..))
import Millrace.Cli.Config.SiteSettings
import Millrace.Cli.Config.Target (targetProblem)
import Millrace.Cli.Files.Readings
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Socket (PortNumber)

-- | The content of a configuration file.
data Configuration = Configuration
  { configurationServer :: ServerOptions,
    configurationPidFile :: Maybe FilePath,
    -- | At least one.
    configurationSites :: [SiteOptions]
  }
  deriving (Eq, Show)

-- | A site: its host names, and what is served there.
data SiteOptions = SiteOptions
  { -- | At least one.
    siteHosts :: [HostPattern],
    sitePolicy :: SitePolicy,
    -- | At least one, and one of them for the path @/@.
    siteRoutes :: [RouteOptions]
  }
  deriving (Eq, Show)

-- | A name of a site, or a pattern of names, in lower case.
data HostPattern
  = ExactHost String
  | -- | All names that end with a dot and this.
    HostsBelow String
  | AnyHost
  deriving (Eq, Ord, Show)

-- | A route: a path, and what is served below it.
data RouteOptions = RouteOptions
  { -- | The parts of the path. None: all paths.
    routePath :: [String],
    routePolicy :: SitePolicy,
    routeAction :: Action
  }
  deriving (Eq, Show)

-- | The action for a request.
data Action
  = -- | The rest of the path, behind the route's, names the file.
    ServeFiles FilesOptions
  | PassOn ProxyOptions
  | -- | To this address, with the request's path and query behind it.
    RedirectTo String
  deriving (Eq, Show)

-- | Reads a file's text. The mistakes are in the order of their positions.
readConfiguration :: ByteString -> Either [Mistake] Configuration
readConfiguration = readDocument configuration

configuration :: Reader Configuration
configuration =
  mapping "a configuration" . checkedAt whole $
    (,,,,,)
      <$> optional "listen" (oneOrMore (located listen))
      <*> withDefault [] "certificates" (oneOrMany (mapping "a certificate" (inFile certificateSettings)))
      <*> section "tls" "'tls'" (inFile tlsSettings)
      <*> section "process" "'process'" ((,) <$> inFile processSettings <*> inFile pidFileSetting)
      <*> section "limits" "'limits'" (checked possible (inFile limitSettings))
      <*> required "sites" (oneOrMany site)
  where
    whole (found, certificates, (authorities, keys), (process, pidFile), limited, sites) = do
      let listens = maybe (pure defaultListen) (fmap snd) found
          tls = if null certificates then Nothing else Just (TlsOptions certificates authorities keys)
          server = process listens tls limited
      first (Nothing,) (protectedOrNot (toList listens) certificates)
      when (hasFormatWithoutLog server) (Left (Nothing, "'log-format' is of no use: 'process' has no 'access-log'"))
      forM_ (inits (foldMap toList found)) (distinct server . reverse)
      case repeated (concatMap siteHosts sites) of
        [] -> pure ()
        names -> Left (Nothing, "two sites have the host " <> intercalate ", " (map showHost names))
      pure Configuration {configurationServer = server, configurationPidFile = pidFile, configurationSites = sites}
    possible limits = maybe (Right limits) Left (limitProblem limits)
    -- The last of some elements of 'listen', and those before it.
    distinct _ [] = Right ()
    distinct server ((position, found) : earlier) =
      maybe (Right ()) (Left . (,) (Just position)) (addressProblem server (map snd earlier) found)

-- Checks that there are certificates exactly if an address is for https.
protectedOrNot :: [ListenOptions] -> [certificate] -> Either String ()
protectedOrNot listens certificates
  | any ((== Https) . listenSpeaking) listens =
    when (null certificates) (Left "'listen' has https, and so 'certificates' is needed")
  | otherwise = do
    unless (null certificates) (Left "'certificates' is of no use: 'listen' has no https")
    unless
      (all ((/= RedirectToHttps) . listenSpeaking) listens)
      (Left "'listen' has redirect-to-https, and no https")

-- The elements that occur more than once. There may be thousands of them, too many to compare each with all others.
repeated :: Ord a => [a] -> [a]
repeated found = [name | name : _ : _ <- group (sort found)]

defaultListen :: ListenOptions
defaultListen = ListenOptions PlainHttp "127.0.0.1" 8080 NoProxyHeader Http3IfPossible listenKey

listenKey :: String
listenKey = "'listen' in the configuration file"

listen :: Reader ListenOptions
listen =
  mapping "an element of 'listen'" . checked whole $
    gathered
      <$> anyOf
        [ ("http", (,) PlainHttp <$> address),
          ("https", (,) Https <$> address),
          ("redirect-to-https", (,) RedirectToHttps <$> address)
        ]
      <*> inFile listenSettings
      <*> inFile http3Setting
  where
    gathered (speaking, (host, port)) header http3 = ListenOptions speaking host port header http3 listenKey
    whole found
      | listenHttp3 found /= Http3IfPossible && listenSpeaking found /= Https =
        Left
          "'http3' is for an element with 'https'"
      | otherwise = Right found

-- HOST:PORT, or a port alone, on the loopback interface.
address :: Reader (String, PortNumber)
address = refined text parsed
  where
    parsed word
      | Just port <- portOf word = Right ("127.0.0.1", port)
      | (host, ':' : digits) <- splitLast word,
        Just port <- portOf digits,
        Just name <- hostOf host =
        Right (name, port)
      | otherwise = Left ("'" <> word <> "' is not HOST:PORT, [ADDRESS]:PORT or PORT")
    portOf digits
      | not (null digits), all isDigit digits, length digits <= 5, number' <= 65535 = Just (fromInteger number')
      | otherwise = Nothing
      where
        number' = read digits
    hostOf ('[' : rest) | not (null rest), last rest == ']' = Just (init rest)
    hostOf host | not (null host), ':' `notElem` host = Just host
    hostOf _ = Nothing
    splitLast word =
      let (digits, rest) = break (== ':') (reverse word) in (reverse (drop 1 rest), take 1 rest <> reverse digits)

site :: Reader SiteOptions
site =
  mapping "a site" . checked whole $
    (,,,)
      <$> withDefault [AnyHost] "hosts" (oneOrMany hostPattern)
      <*> inFile policySettings
      <*> withDefault [] "routes" (list route)
      <*> optionalAction
  where
    whole (hosts, fields, routes, own) = do
      let all' = routes <> foldMap (\chosen -> [RouteOptions [] plainPolicy chosen]) own
          paths = map routePath all'
      case repeated paths of
        [] -> pure ()
        found -> Left ("two routes of this site have the path " <> intercalate ", " (map showPath found))
      unless
        ([] `elem` paths)
        ( Left
            "this site has nothing for the path /: give it 'files', 'proxy' or 'redirect', or a route with the path /"
        )
      pure (SiteOptions hosts fields all')

route :: Reader RouteOptions
route =
  mapping "a route" $
    RouteOptions
      <$> required "path" (refined text routeParts)
      <*> inFile policySettings
      <*> action

routeParts :: String -> Either String [String]
routeParts word
  | take 1 word /= "/" = Left ("'" <> word <> "' is not a path: it begins with /")
  | any (`elem` [".", ".."]) parts = Left ("'" <> word <> "' has a part that is . or ..")
  | not (all isPlain word) =
    Left
      ( "'" <> word
          <> "' has characters that a path is written without: write it decoded, and without ? and #"
      )
  | readings (foldMap (("/" <>) . encodeSegment) encoded) /= Just [encoded] =
    Left
      ( "'" <> word
          <> "' has a \
             \part that programs read differently: write it without ; and without blanks and dots at the end of a part"
      )
  | otherwise = Right parts
  where
    parts = filter (not . null) (pieces word)
    encoded = map nameBytes parts
    pieces rest = case break (== '/') rest of
      (piece, _ : others) -> piece : pieces others
      (piece, []) -> [piece]
    isPlain letter = letter >= ' ' && letter `notElem` ("?#%\\" :: String)

-- | The path of a route as it is written in a file.
showPath :: [String] -> String
showPath = concatMap ('/' :) . orRoot
  where
    orRoot parts = if null parts then [""] else parts

actions :: [(Text, Reader Action)]
actions = [("files", ServeFiles <$> files), ("proxy", PassOn <$> proxy), ("redirect", RedirectTo <$> redirectTarget)]
  where
    files = alternatives (plainFiles <$> nonEmptyText) (mapping "'files'" (inFile filesSettings))
    proxy = alternatives (plainProxy <$> oneOrMany target) (mapping "'proxy'" (inFile proxySettings))
    target = refined nonEmptyText (\word -> maybe (Right word) Left (targetProblem word))

action :: Fields Action
action = anyOf actions

optionalAction :: Fields (Maybe Action)
optionalAction = anyOrNone actions

redirectTarget :: Reader String
redirectTarget = refined nonEmptyText $ \word ->
  if any (`isPrefixOf` word) ["http://", "https://"] && all isVisible word
    then Right (reverse (dropWhile (== '/') (reverse word)))
    else Left ("'" <> word <> "' is not the beginning of an address: http://HOST or https://HOST")
  where
    isVisible letter = letter > ' ' && letter < '\DEL'

hostPattern :: Reader HostPattern
hostPattern = refined nonEmptyText (parsed . map toLower)
  where
    parsed "*" = Right AnyHost
    parsed ('*' : '.' : name) | isName name = Right (HostsBelow name)
    parsed name | isName name = Right (ExactHost name)
    parsed name =
      Left
        ( "'" <> name
            <> "' is not the name of a host: example.org, '*.example.org', or '*' for all others"
        )
    isName name = take 1 name `notElem` ["", "."] && (all isOfName name || isIp6 name)
    isOfName letter = isAscii letter && (isAlphaNum letter || letter `elem` (".-_" :: String))
    isIp6 name =
      take 1 name == "["
        && drop (length name - 1) name == "]"
        && all (\letter -> isHexDigit letter || letter `elem` (":." :: String)) (init (drop 1 name))

-- | A pattern as it is written in a file.
showHost :: HostPattern -> String
showHost found = case found of
  ExactHost name -> name
  HostsBelow name -> "*." <> name
  AnyHost -> "*"
