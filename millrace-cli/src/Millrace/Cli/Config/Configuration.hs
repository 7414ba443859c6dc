{-# LANGUAGE OverloadedStrings #-}

-- | What a configuration file says: the process, where it listens, and the sites. Must not know: servers.
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

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAlphaNum, isAscii, isDigit, isHexDigit, toLower)
import Data.List (group, intercalate, isPrefixOf, sort)
import Data.Text (Text, pack)
import Millrace.Cli.Base.Backend (backendChoices)
import Millrace.Cli.Base.NameBytes (nameBytes)
import Millrace.Cli.Base.RequestPath (encodeSegment)
import Millrace.Cli.Config.Command
import Millrace.Cli.Config.Document
import Millrace.Cli.Config.Limit
import Millrace.Cli.Config.Target (targetProblem)
import Millrace.Cli.Files.CacheRule (cacheRule)
import Millrace.Cli.Files.Policy
import Millrace.Cli.Files.Readings
import Millrace.Cli.Middleware.CrossOrigin
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Cli.Observe.AccessLog (LogFormat (..))
import Millrace.Http.FieldSyntax (isToken)
import Millrace.Socket (PortNumber)

-- | All that a file says.
data Configuration = Configuration
  { configurationServer :: ServerOptions,
    configurationPidFile :: Maybe FilePath,
    -- | At least one.
    configurationSites :: [SiteOptions]
  }
  deriving (Eq, Show)

-- | What is served under some names.
data SiteOptions = SiteOptions
  { -- | At least one.
    siteHosts :: [HostPattern],
    sitePolicy :: SitePolicy,
    -- | At least one, and one of them for the path @/@.
    siteRoutes :: [RouteOptions]
  }
  deriving (Eq, Show)

-- | The names that a site has, in lower case.
data HostPattern
  = ExactHost String
  | -- | All names that end with a dot and this.
    HostsBelow String
  | AnyHost
  deriving (Eq, Ord, Show)

-- | What is done below a path.
data RouteOptions = RouteOptions
  { -- | The parts of the path. None: all paths.
    routePath :: [String],
    routePolicy :: SitePolicy,
    routeAction :: Action
  }
  deriving (Eq, Show)

-- | What is done with a request.
data Action
  = -- | The rest of the path, behind the route's, names the file.
    ServeFiles FilesOptions
  | PassOn ProxyOptions
  | -- | To this address, with the request's path and query behind it.
    RedirectTo String
  deriving (Eq, Show)

-- | Reads a file's text. The mistakes are in the order of their places.
readConfiguration :: ByteString -> Either [Mistake] Configuration
readConfiguration = readDocument configuration

configuration :: Reader Configuration
configuration =
  mapping "a configuration" . checked whole $
    (,,,,,)
      <$> withDefault (pure defaultListen) "listen" (oneOrMore listen)
      <*> withDefault [] "certificates" (oneOrMany certificate)
      <*> withDefault (Nothing, []) "tls" tls
      <*> withDefault usualProcess "process" process
      <*> withDefault noLimitOptions "limits" limits
      <*> required "sites" (oneOrMany site)
  where
    whole (listens, certificates, (authorities, keys), chosen, limited, sites) = do
      if any ((== Https) . listenSpeaking) listens
        then when (null certificates) (Left "'listen' has https, and so 'certificates' is needed")
        else do
          unless (null certificates) (Left "'certificates' is of no use: 'listen' has no https")
          unless (all ((/= RedirectToHttps) . listenSpeaking) listens) (Left "'listen' has redirect-to-https, and no https")
      case repeated (concatMap siteHosts sites) of
        [] -> pure ()
        names -> Left ("two sites have the host " <> intercalate ", " (map showHost names))
      pure
        Configuration
          { configurationServer =
              (processServer chosen)
                { serverListens = listens,
                  serverTls = if null certificates then Nothing else Just (TlsOptions certificates authorities keys),
                  serverLimits = limited
                },
            configurationPidFile = processPidFile chosen,
            configurationSites = sites
          }

-- Those that are there more than once. There may be thousands, too many to compare each with all others.
repeated :: Ord a => [a] -> [a]
repeated found = [first | first : _ : _ <- group (sort found)]

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
      <*> withDefault NoProxyHeader "proxy-protocol" (eitherOf NoProxyHeader ProxyHeaderRequired)
      <*> withDefault Http3IfPossible "http3" (choice http3Choices)
  where
    gathered (speaking, (host, port)) header http3 = ListenOptions speaking host port header http3 listenKey
    whole found
      | listenHttp3 found /= Http3IfPossible && listenSpeaking found /= Https = Left "'http3' is for an element with 'https'"
      | otherwise = Right found

-- HOST:PORT, or a port alone, on the loopback interface.
address :: Reader (String, PortNumber)
address = refined text parsed
  where
    parsed word
      | Just port <- portOf word = Right ("127.0.0.1", port)
      | (host, ':' : digits) <- splitLast word, Just port <- portOf digits, Just name <- hostOf host = Right (name, port)
      | otherwise = Left ("'" <> word <> "' is not HOST:PORT, [ADDRESS]:PORT or PORT")
    portOf digits
      | not (null digits), all isDigit digits, length digits <= 5, number' <= 65535 = Just (fromInteger number')
      | otherwise = Nothing
      where
        number' = read digits
    hostOf ('[' : rest) | not (null rest), last rest == ']' = Just (init rest)
    hostOf host | not (null host), ':' `notElem` host = Just host
    hostOf _ = Nothing
    splitLast word = let (digits, rest) = break (== ':') (reverse word) in (reverse (drop 1 rest), take 1 rest <> reverse digits)

certificate :: Reader (FilePath, FilePath)
certificate = mapping "a certificate" ((,) <$> required "chain" nonEmptyText <*> required "key" nonEmptyText)

tls :: Reader (Maybe FilePath, [FilePath])
tls =
  mapping "'tls'" $
    (,)
      <$> optional "client-authorities" nonEmptyText
      <*> withDefault [] "ticket-keys" (oneOrMany nonEmptyText)

data Process = Process
  { processServer :: ServerOptions,
    processPidFile :: Maybe FilePath
  }

usualProcess :: Process
usualProcess = Process (ServerOptions (pure defaultListen) False Nothing Nothing Nothing Combined Nothing Nothing noLimitOptions usualDrainSeconds) Nothing

process :: Reader Process
process =
  mapping "'process'" $
    gathered
      <$> withDefault Nothing "backend" (choice backendChoices)
      <*> optional "cores" (fromInteger <$> number 1 256)
      <*> withDefault False "reuse-port" yesOrNo
      <*> optional "access-log" nonEmptyText
      <*> withDefault Combined "log-format" (choice logFormats)
      <*> optional "status" (fromInteger <$> number 0 65535)
      <*> withDefault usualDrainSeconds "drain-seconds" (fromInteger <$> number 1 3600)
      <*> optional "pid-file" nonEmptyText
  where
    gathered backend cores reuse logFile format status drain = Process (ServerOptions (pure defaultListen) reuse backend cores logFile format status Nothing noLimitOptions drain)

limits :: Reader LimitOptions
limits = mapping "'limits'" (limitsFrom <$> foldr add (pure []) [minBound ..])
  where
    add limit others = maybe id ((:) . (,) limit . fromInteger) <$> optional (pack (limitName limit)) (uncurry number (limitRange limit)) <*> others

site :: Reader SiteOptions
site =
  mapping "a site" . checked whole $
    (,,,)
      <$> withDefault [AnyHost] "hosts" (oneOrMany hostPattern)
      <*> policy
      <*> withDefault [] "routes" (list route)
      <*> optionalAction
  where
    whole (hosts, fields, routes, own) = do
      let all' = routes <> foldMap (\chosen -> [RouteOptions [] plainPolicy chosen]) own
          paths = map routePath all'
      case repeated paths of
        [] -> pure ()
        found -> Left ("two routes of this site have the path " <> intercalate ", " (map showPath found))
      unless ([] `elem` paths) (Left "this site has nothing for the path /: give it 'files', 'proxy' or 'redirect', or a route with the path /")
      pure (SiteOptions hosts fields all')

route :: Reader RouteOptions
route =
  mapping "a route" $
    RouteOptions
      <$> required "path" (refined text routeParts)
      <*> policy
      <*> action

routeParts :: String -> Either String [String]
routeParts word
  | take 1 word /= "/" = Left ("'" <> word <> "' is not a path: it begins with /")
  | any (`elem` [".", ".."]) parts = Left ("'" <> word <> "' has a part that is . or ..")
  | not (all isPlain word) = Left ("'" <> word <> "' has characters that a path is written without: write it decoded, and without ? and #")
  | readings (foldMap (("/" <>) . encodeSegment) encoded) /= Just [encoded] = Left ("'" <> word <> "' has a part that programs read differently: write it without ; and without blanks and dots at the end of a part")
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
    parsed name = Left ("'" <> name <> "' is not the name of a host: example.org, '*.example.org', or '*' for all others")
    isName name = take 1 name `notElem` ["", "."] && (all isOfName name || isIp6 name)
    isOfName letter = isAscii letter && (isAlphaNum letter || letter `elem` (".-_" :: String))
    isIp6 name = take 1 name == "[" && drop (length name - 1) name == "]" && all (\letter -> isHexDigit letter || letter `elem` (":." :: String)) (init (drop 1 name))

-- | A pattern as it is written in a file.
showHost :: HostPattern -> String
showHost found = case found of
  ExactHost name -> name
  HostsBelow name -> "*." <> name
  AnyHost -> "*"

policy :: Fields SitePolicy
policy =
  SitePolicy
    <$> withDefault [] "headers" headers
    <*> withDefault NoSecurityHeaders "security-headers" (eitherOf NoSecurityHeaders UsualSecurityHeaders)
    <*> optional "cors" crossOrigin
    <*> optional "users" users

users :: Reader UsersOptions
users = alternatives ((`UsersOptions` usual) <$> nonEmptyText) (mapping "'users'" (UsersOptions <$> required "file" nonEmptyText <*> withDefault usual "realm" realm))
  where
    usual = "this site"
    realm = refined nonEmptyText (\word -> if all (>= ' ') word then Right word else Left "a realm is one line")

crossOrigin :: Reader CrossOrigin
crossOrigin =
  alternatives (plain <$> origins) . mapping "'cors'" . checked careful $
    CrossOrigin
      <$> required "origins" origins
      <*> withDefault [] "methods" (oneOrMany token)
      <*> withDefault [] "headers" (oneOrMany token)
      <*> withDefault [] "expose" (oneOrMany token)
      <*> withDefault False "credentials" yesOrNo
      <*> withDefault usualSeconds "max-age-seconds" (fromInteger <$> number 0 86400)
  where
    plain who = CrossOrigin who [] [] [] False usualSeconds
    usualSeconds = 600
    careful found
      | crossOrigins found == AnyOrigin && crossCredentials found =
        Left "with origins '*' and 'credentials: true' the pages of every site could act as any user who is logged in here. List the origins that may, or leave out 'credentials'"
      | otherwise = Right found
    origins = refined (oneOrMany nonEmptyText) $ \words' -> if words' == ["*"] then Right AnyOrigin else TheseOrigins <$> traverse origin words'
    origin word
      | any (`isPrefixOf` word) ["http://", "https://"] && length (filter (== '/') word) == 2 && all (\letter -> letter > ' ' && letter < '\DEL') word = Right word
      | otherwise = Left ("'" <> word <> "' is not an origin: https://HOST, https://HOST:PORT, or '*' alone for all")
    token = refined nonEmptyText (\word -> if isTokenText word then Right word else Left ("'" <> word <> "' is not a token"))

isTokenText :: String -> Bool
isTokenText word = all isAscii word && isToken (Char8.pack word)

headers :: Reader [(String, String)]
headers = refined (pairs text) (traverse valid)
  where
    valid field@(name, value)
      | not (isTokenText name) = Left ("'" <> name <> "' is not the name of a field")
      | any (\letter -> letter < ' ' || letter > '\xFF' || letter == '\DEL') value = Left ("the value of '" <> name <> "' has characters that a field cannot have")
      | map toLower name `elem` owned = Left ("the field '" <> name <> "' is the server's: it describes how the message is sent")
      | otherwise = Right field
    owned = ["content-length", "transfer-encoding", "connection", "date", "content-range", "trailer", "upgrade", "keep-alive"]

files :: Reader FilesOptions
files =
  alternatives (plainFiles <$> nonEmptyText) . mapping "'files'" $
    FilesOptions
      <$> required "directory" nonEmptyText
      <*> withDefault False "follow-links" yesOrNo
      <*> withDefault False "listing" yesOrNo
      <*> withDefault 1 "cache-seconds" (fromInteger <$> number 0 3600)
      <*> withDefault NotFound "spa" (eitherOf NotFound SinglePage)
      <*> withDefault LineOfText "error-pages" (eitherOf LineOfText PageOfSite)
      <*> withDefault NoCompression "compress" (eitherOf NoCompression CompressOnTheWay)
      <*> withDefault [] "cache-control" (refined (pairs text) (traverse (uncurry cacheRule)))

-- The first for false, the second for true.
eitherOf :: a -> a -> Reader a
eitherOf no yes = (\isWanted -> if isWanted then yes else no) <$> yesOrNo

proxy :: Reader ProxyOptions
proxy =
  alternatives (plainProxy <$> targets) . mapping "'proxy'" $
    ProxyOptions
      <$> required "targets" targets
      <*> withDefault (proxyHost usual) "host-field" (refined text hostOption)
      <*> withDefault False "trust-forwarded" yesOrNo
      <*> withDefault (proxySpread usual) "balance" (choice spreads)
      <*> withDefault (proxyConnectSeconds usual) "connect-seconds" (fromInteger <$> number 1 3600)
      <*> withDefault (proxyResponseSeconds usual) "response-seconds" (fromInteger <$> number 1 86400)
      <*> withDefault (proxyKept usual) "keep" (fromInteger <$> number 0 100000)
      <*> targetLimits (proxyLimits usual)
      <*> optional "health" health
      <*> optional "authorities" nonEmptyText
      <*> optional "error-pages" nonEmptyText
  where
    usual = plainProxy []
    targets = oneOrMany (refined nonEmptyText (\target -> maybe (Right target) Left (targetProblem target)))

targetLimits :: TargetLimits -> Fields TargetLimits
targetLimits usual =
  TargetLimits
    <$> seconds targetSendSeconds "send-seconds"
    <*> optional "stall-seconds" anyTime
    <*> optional "total-seconds" anyTime
    <*> seconds targetTunnelSeconds "tunnel-seconds"
    <*> seconds targetKeepSeconds "keep-seconds"
    <*> withDefault (targetFailures usual) "failures" (fromInteger <$> number 1 1000)
    <*> seconds targetLeftOutSeconds "left-out-seconds"
    <*> withDefault (targetHeadBytes usual) "head-bytes" (fromInteger <$> number 1024 1048576)
    <*> seconds targetSilentSeconds "silent-seconds"
  where
    seconds which name = withDefault (which usual) name anyTime
    anyTime = fromInteger <$> number 1 86400

health :: Reader HealthOptions
health =
  alternatives (healthAt <$> path) . mapping "'health'" $
    HealthOptions
      <$> required "path" path
      <*> withDefault (healthEverySeconds usual) "every-seconds" (fromInteger <$> number 1 86400)
      <*> withDefault (healthLimitSeconds usual) "limit-seconds" (fromInteger <$> number 1 3600)
      <*> withDefault (healthFailures usual) "failures" (fromInteger <$> number 1 1000)
      <*> withDefault (healthSuccesses usual) "successes" (fromInteger <$> number 1 1000)
  where
    usual = healthAt "/"
    path = refined text targetPath
