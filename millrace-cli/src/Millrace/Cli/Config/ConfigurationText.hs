-- | Writes a configuration as the text of a file. Must not know: servers, files.
module Millrace.Cli.Config.ConfigurationText
  ( renderConfiguration,
  )
where

import Data.Char (isAlpha, isAlphaNum, isAscii, isPrint)
import Data.Foldable (toList)
import Data.Function (on)
import Data.List (intercalate, nubBy)
import Data.Maybe (maybeToList)
import Millrace.Cli.Base.Backend (backendChoices)
import Millrace.Cli.Config.Command
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Limit
import Millrace.Cli.Files.CacheRule (rulePattern, ruleValue)
import Millrace.Cli.Files.Policy
import Millrace.Cli.Middleware.CrossOrigin
import Millrace.Cli.Middleware.SitePolicy

-- | The text of a file that says this ('readConfiguration' reads it back). Also has the keys whose value is the usual one, because the
-- text shows what there is to change.
renderConfiguration :: Configuration -> String
renderConfiguration found =
  unlines . rendered . Keys $
    [("listen", Items (map listen (toList (serverListens server))))]
      ++ foldMap tls (serverTls server)
      ++ [("process", process server (configurationPidFile found))]
      ++ [("limits", Keys limited) | limited@(_ : _) <- [limits (serverLimits server)]]
      ++ [("sites", Items (map site (configurationSites found)))]
  where
    server = configurationServer found

listen :: ListenOptions -> Value
listen place =
  Keys $
    [(key, Text address)]
      ++ [("proxy-protocol", Truth True) | listenProxyHeader place == ProxyHeaderRequired]
      ++ [("http3", Text (nameIn http3Choices (listenHttp3 place))) | listenSpeaking place == Https]
  where
    key = case listenSpeaking place of
      PlainHttp -> "http"
      Https -> "https"
      RedirectToHttps -> "redirect-to-https"
    address = (if ':' `elem` listenHost place then "[" <> listenHost place <> "]" else listenHost place) <> ":" <> show (listenPort place)

tls :: TlsOptions -> [(String, Value)]
tls options =
  ("certificates", Items [Keys [("chain", Text chain), ("key", Text key)] | (chain, key) <- tlsPairs options]) :
    [("tls", Keys others) | others@(_ : _) <- [clients ++ keys]]
  where
    clients = text "client-authorities" (tlsClientAuthorities options)
    keys = [("ticket-keys", Items (map Text names)) | names@(_ : _) <- [tlsTicketKeys options]]

process :: ServerOptions -> Maybe FilePath -> Value
process server pidFile =
  Keys $
    [("backend", Text (nameIn backendChoices (serverBackend server)))]
      ++ number "cores" (serverCores server)
      ++ [("reuse-port", Truth (serverReusePort server))]
      ++ text "access-log" (serverAccessLog server)
      ++ [("log-format", Text (nameIn logFormats (serverLogFormat server)))]
      ++ number "status" (fromIntegral <$> serverStatusPort server)
      ++ [("drain-seconds", Number (serverDrainSeconds server))]
      ++ text "pid-file" pidFile

limits :: LimitOptions -> [(String, Value)]
limits found = [(limitName limit, Number given) | (limit, given) <- limitsWith found]

site :: SiteOptions -> Value
site found =
  Keys $
    [("hosts", Items (map (Text . showHost) (siteHosts found)))]
      ++ policy (sitePolicy found)
      ++ [("routes", Items (map route (siteRoutes found)))]

route :: RouteOptions -> Value
route found = Keys ([("path", Text (showPath (routePath found)))] ++ policy (routePolicy found) ++ [action (routeAction found)])

policy :: SitePolicy -> [(String, Value)]
policy found =
  [("headers", Keys [(name, Text value) | (name, value) <- policyHeaders found]) | not (null (policyHeaders found))]
    ++ [("security-headers", Truth True) | policySecurity found == UsualSecurityHeaders]
    ++ [("cors", Keys (crossOrigin options)) | Just options <- [policySharing found]]
    ++ [("users", Keys [("file", Text (usersFile options)), ("realm", Text (usersRealm options))]) | Just options <- [policyUsers found]]

crossOrigin :: CrossOrigin -> [(String, Value)]
crossOrigin options =
  [("origins", texts origins)]
    ++ [("methods", texts (crossMethods options)) | not (null (crossMethods options))]
    ++ [("headers", texts (crossFields options)) | not (null (crossFields options))]
    ++ [("expose", texts (crossExposed options)) | not (null (crossExposed options))]
    ++ [("credentials", Truth (crossCredentials options)), ("max-age-seconds", Number (crossSeconds options))]
  where
    texts = Items . map Text
    origins = case crossOrigins options of
      AnyOrigin -> ["*"]
      TheseOrigins found -> found

action :: Action -> (String, Value)
action found = case found of
  ServeFiles options -> ("files", Keys (files options))
  PassOn options -> ("proxy", Keys (proxy options))
  RedirectTo target -> ("redirect", Text target)

files :: FilesOptions -> [(String, Value)]
files options =
  [ ("directory", Text (filesDirectory options)),
    ("follow-links", Truth (filesFollowLinks options)),
    ("listing", Truth (filesListing options)),
    ("cache-seconds", Number (filesCacheSeconds options)),
    ("spa", Truth (filesFallback options == SinglePage)),
    ("error-pages", Truth (filesOnError options == PageOfSite)),
    ("compress", Truth (filesCompression options == CompressOnTheWay))
  ]
    ++ [("cache-control", Keys (map rule rules)) | not (null rules)]
  where
    rule found = (rulePattern found, Text (ruleValue found))
    -- A key may be there only once, and the last rule for a pattern decides.
    rules = reverse (nubBy ((==) `on` rulePattern) (reverse (filesCacheRules options)))

proxy :: ProxyOptions -> [(String, Value)]
proxy options =
  [ ("targets", Items (map Text (proxyTargets options))),
    ("host-field", Text hostField),
    ("trust-forwarded", Truth (proxyTrustsForwarded options)),
    ("balance", Text (nameIn spreads (proxySpread options))),
    ("connect-seconds", Number (proxyConnectSeconds options)),
    ("response-seconds", Number (proxyResponseSeconds options)),
    ("keep", Number (proxyKept options)),
    ("keep-seconds", Number (targetKeepSeconds limited)),
    ("send-seconds", Number (targetSendSeconds limited))
  ]
    ++ number "stall-seconds" (targetStallSeconds limited)
    ++ number "total-seconds" (targetTotalSeconds limited)
    ++ [ ("tunnel-seconds", Number (targetTunnelSeconds limited)),
         ("silent-seconds", Number (targetSilentSeconds limited)),
         ("head-bytes", Number (targetHeadBytes limited)),
         ("failures", Number (targetFailures limited)),
         ("left-out-seconds", Number (targetLeftOutSeconds limited))
       ]
    ++ [("health", Keys (health found)) | Just found <- [proxyHealth options]]
    ++ text "authorities" (proxyAuthorities options)
    ++ text "error-pages" (proxyErrorPages options)
  where
    limited = proxyLimits options
    hostField = case proxyHost options of
      HostOfClient -> "client"
      HostOfTarget -> "target"
      HostAlways name -> name

health :: HealthOptions -> [(String, Value)]
health options =
  [ ("path", Text (healthPath options)),
    ("every-seconds", Number (healthEverySeconds options)),
    ("limit-seconds", Number (healthLimitSeconds options)),
    ("failures", Number (healthFailures options)),
    ("successes", Number (healthSuccesses options))
  ]

nameIn :: Eq a => [(String, a)] -> a -> String
nameIn choices value = concat (take 1 [name | (name, other) <- choices, other == value])

number :: String -> Maybe Int -> [(String, Value)]
number key = map ((,) key . Number) . maybeToList

text :: String -> Maybe String -> [(String, Value)]
text key = map ((,) key . Text) . maybeToList

------------------------------------------------------------------------------------------------------------------------
-- YAML

data Value
  = Text String
  | Number Int
  | Truth Bool
  | Items [Value]
  | Keys [(String, Value)]

-- The lines of a value. A list of single values takes one line.
rendered :: Value -> [String]
rendered value = case value of
  Keys entries -> concatMap entry entries
  Items values -> maybe (concatMap item values) (\words' -> ["[" <> intercalate ", " words' <> "]"]) (traverse single values)
  Text found -> [quotedIfNeeded found]
  Number found -> [show found]
  Truth found -> [if found then "true" else "false"]
  where
    entry (key, inner) = case onOneLine inner of
      Just line -> [quotedIfNeeded key <> ": " <> line]
      Nothing -> (quotedIfNeeded key <> ":") : map ("  " <>) (rendered inner)
    item inner = case rendered inner of
      [] -> ["- {}"]
      first : others -> ("- " <> first) : map ("  " <>) others

onOneLine :: Value -> Maybe String
onOneLine value = case (value, rendered value) of
  (Keys _, _) -> Nothing
  (Items values, [line]) | Just _ <- traverse single values -> Just line
  (Items _, _) -> Nothing
  (_, lines') -> Just (concat lines')

single :: Value -> Maybe String
single value = case value of
  Keys _ -> Nothing
  Items _ -> Nothing
  _ -> Just (concat (rendered value))

-- Without quotes only if it can be nothing but a text. Between single quotes nothing is an escape, so that paths stay as they are.
quotedIfNeeded :: String -> String
quotedIfNeeded found
  | isPlain = found
  | all isPrint found = "'" <> concatMap (\letter -> if letter == '\'' then "''" else [letter]) found <> "'"
  | otherwise = "\"" <> concatMap escaped found <> "\""
  where
    isPlain = any beginsText (take 1 found) && all isUsual found && found `notElem` ["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"]
    beginsText letter = isAscii letter && isAlpha letter || letter == '/'
    isUsual letter = isAscii letter && isAlphaNum letter || letter `elem` "-_./"
    escaped letter
      | letter `elem` "\"\\" = ['\\', letter]
      | isPrint letter = [letter]
      | otherwise = "\\U" <> hexadecimal (fromEnum letter)
    hexadecimal code = reverse (take 8 (map (\rest -> "0123456789ABCDEF" !! (rest `mod` 16)) (iterate (`div` 16) code)))
