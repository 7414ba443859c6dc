-- Must not know: servers.

-- | The settings of sites and routes: files, proxies, and who gets the answers. Name, values, usual value and meaning
-- of each are written here and nowhere else.
module Millrace.Cli.Config.SiteSettings
  ( filesSettings,
    proxySettings,
    healthSettings,
    policySettings,
    crossOriginSettings,
    usersSettings,
  )
where

import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAscii, toLower)
import Data.Function (on)
import Data.List (isPrefixOf, nubBy)
import Millrace.Cli.Config.Document (Reader)
import qualified Millrace.Cli.Config.Document as Document
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.Setting
import Millrace.Cli.Config.Target (targetProblem)
import Millrace.Cli.Config.YamlText
import Millrace.Cli.Files.CacheRule
import Millrace.Cli.Files.Policy
import Millrace.Cli.Middleware.CrossOrigin
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Http.FieldSyntax (isToken)
import qualified Options.Applicative as Options

-- | The settings of a directory of files.
filesSettings :: Settings FilesOptions FilesOptions
filesSettings =
  FilesOptions
    <$> argument
      ( Options.strArgument
          ( mconcat
              [ Options.metavar "DIR",
                Options.value ".",
                Options.action "directory",
                Options.help
                  "Directory to serve (default: the current one)"
              ]
          )
      )
      (needed "directory" directoryName (says "The directory") filesDirectory)
    <*> switchable "follow-links" False True (says "Follow symbolic links that lead outside DIR") filesFollowLinks
    <*> switchable
      "listing"
      False
      True
      ( says "Answer with a list of its files, as a page or as JSON, for a directory without an index"
          `more` "JSON is for clients that prefer `application/json` to `text/html`; `?format=json` or \
                 \`?format=html` overrides that, and \
                 \`?sort=name`, `size` or `date` with `&order=asc` or `desc` chooses the order"
      )
      filesListing
    <*> setting
      "cache-seconds"
      (numberFrom 0 3600 "SECONDS")
      (filesCacheSeconds (plainFiles ""))
      ( says
          "Keep small files in memory and large files open for this time before looking them up again; 0 \
          \looks every time"
      )
      filesCacheSeconds
    <*> switchable
      "spa"
      NotFound
      SinglePage
      ( says
          "Answer with DIR/index.html if a page is asked for that names no file and has no extension: a \
          \single-page application reads the path itself"
          `more` "The answer has `Cache-Control: no-cache`, so that clients see a new version of the application"
          `seeAlso` "deploying.md#a-single-page-application"
      )
      filesFallback
    <*> switchable
      "error-pages"
      LineOfText
      PageOfSite
      ( says
          "Answer with DIR/404.html instead of a line of text, and so with 403.html, 500.html and 503.html, \
          \where they are"
          `more` "A page of more than 1 MiB is not used"
          `seeAlso` "deploying.md#error-pages"
      )
      filesOnError
    <*> switchable
      "compress"
      NoCompression
      CompressOnTheWay
      ( says
          "Compress texts, scripts and the like for clients that accept it, with brotli, zstd or gzip, and \
          \keep the results in memory"
          `more` "Texts, scripts, JSON, XML, SVG, WebAssembly and fonts that are not compressed yet, of 1 KiB \
                 \to 8 MiB; the results take 64 MiB at most. \
                 \A file NAME.br, NAME.zst or NAME.gz is sent instead where there is one"
          `seeAlso` "deploying.md#compression"
      )
      filesCompression
    <*> repeatable
      "cache-control"
      cacheRules
      ( says
          "Send files with Cache-Control: VALUE; PATTERN is a path (/assets/) or an extension (*.css). Of \
          \several that fit, the last one counts"
          `more` "In a file: `{/: no-cache, /assets: 'max-age=31536000, immutable'}`"
          `seeAlso` "deploying.md#how-long-browsers-keep-files"
      )
      filesCacheRules

cacheRules :: Form [CacheRule]
cacheRules =
  ( structured
      "patterns and their values"
      (Document.refined (Document.pairs Document.text) (traverse (uncurry cacheRule)))
      shown
  )
    { formArgument = fmap pure . readCacheRule,
      formPlaceholder = "PATTERN=VALUE"
    }
  where
    -- A key may be there only once, and the last rule for a pattern decides.
    shown rules = keysUnlessNone [(rulePattern rule, Text (ruleValue rule)) | rule <- lastOfEach rules]
    lastOfEach = reverse . nubBy ((==) `on` rulePattern) . reverse

-- | The settings of a proxy.
proxySettings :: Settings ProxyOptions ProxyOptions
proxySettings =
  ProxyOptions
    <$> argument
      ( Options.some
          ( Options.strArgument
              ( Options.metavar "TARGET..."
                  <> Options.help
                    "Where requests go (see below)"
              )
          )
      )
      ( needed
          "targets"
          (listOf target)
          ( says
              "One or several targets, for example 3000, https://example.org, h2c://127.0.0.1:50051"
              `seeAlso` "proxying.md"
          )
          proxyTargets
      )
    <*> setting
      "host-field"
      ( (textual "client|target|NAME" hostOption hostText)
          { formWords =
              ["client", "target"],
            formValues = "`client`, `target`, or a name"
          }
      )
      HostOfClient
      (says "Host that targets are asked for: the client's, their own, or always this one")
      proxyHost
    <*> switchable
      "trust-forwarded"
      False
      True
      ( says
          "Add to the Forwarded and X-Forwarded fields of clients instead of replacing them. All clients must \
          \be proxies that can be trusted"
      )
      proxyTrustsForwarded
    <*> setting
      "balance"
      (oneWordOf "way to choose" [("turn", InTurn), ("load", ByLoad), ("client", ByClient), ("path", ByPath)])
      InTurn
      ( says
          "Which target gets a request: in turn, the one with the fewest requests, or always the same one for \
          \a client or a path"
      )
      proxyLoadBalancing
    <*> setting
      "connect-seconds"
      (numberFrom 1 3600 "SECONDS")
      (proxyConnectSeconds usual)
      ( says
          "How long a connection to a target may take"
      )
      proxyConnectSeconds
    <*> setting
      "response-seconds"
      anyTime
      (proxyResponseSeconds usual)
      ( says
          "How long a target may take to begin its response, and between two parts of it"
          `more` "`stall-seconds` sets the second one alone"
      )
      proxyResponseSeconds
    <*> setting
      "keep"
      (numberFrom 0 100000 "N")
      (proxyKept usual)
      ( says
          "Unused connections to keep for each target"
      )
      proxyKept
    <*> inFileOnly (proxyLimits usual) (within proxyLimits targetSettings)
    <*> setting
      "health"
      healthForm
      Nothing
      ( says
          "Ask targets for PATH every five seconds, and leave out those that do not answer with 2xx or 3xx"
          `more` "Twice in a row, if a file does not say otherwise"
      )
      proxyHealth
    <*> setting
      "target-authorities"
      (perhaps fileName)
      Nothing
      (says "Trust targets with certificates of these authorities, in PEM (default: the system's)")
      proxyAuthorities
    <*> setting
      "error-pages"
      (perhaps directoryName)
      Nothing
      ( says
          "Answer with DIR/502.html, DIR/503.html, DIR/504.html and the like, where they are, if a request \
          \cannot be passed on; what targets answer is not changed"
          `seeAlso` "proxying.md#error-pages"
      )
      proxyErrorPages
  where
    usual = plainProxy []
    target =
      (textual "TARGET" (\word -> maybe (Right word) Left (targetProblem word)) id)
        { formValues =
            "one or several targets"
        }

anyTime :: Form Int
anyTime = numberFrom 1 86400 "SECONDS"

-- Reads the host that requests to targets name.
hostOption :: String -> Either String HostOption
hostOption word = case word of
  "client" -> Right HostOfClient
  "target" -> Right HostOfTarget
  _
    | not (null word) && all isVisible word -> Right (HostAlways word)
    | otherwise -> Left ("'" <> word <> "' is not the name of a host")

hostText :: HostOption -> String
hostText found = case found of
  HostOfClient -> "client"
  HostOfTarget -> "target"
  HostAlways name -> name

isVisible :: Char -> Bool
isVisible character = character > ' ' && character < '\DEL'

-- Limits for targets.
targetSettings :: Settings TargetLimits TargetLimits
targetSettings =
  TargetLimits
    <$> seconds "send-seconds" targetSendSeconds "How long a target may take nothing of a request"
    <*> setting
      "stall-seconds"
      (perhaps anyTime)
      Nothing
      ( says
          "How long a response may stand still; usually as `response-seconds`"
      )
      targetStallSeconds
    <*> setting
      "total-seconds"
      (perhaps anyTime)
      Nothing
      ( says
          "How long a request and its response may take in all; without it any time"
      )
      targetTotalSeconds
    <*> seconds
      "tunnel-seconds"
      targetTunnelSeconds
      "How long a tunnel, such as a WebSocket, may be silent in both directions"
    <*> seconds
      "keep-seconds"
      targetKeepSeconds
      "How long an unused connection is kept. Should be less than the targets keep theirs"
    <*> setting
      "failures"
      (numberFrom 1 1000 "N")
      (targetFailures usual)
      ( says
          "How many failed requests in a row leave a target out"
      )
      targetFailures
    <*> seconds "left-out-seconds" targetLeftOutSeconds "How long a target is left out"
    <*> setting
      "head-bytes"
      (numberFrom 1024 1048576 "BYTES")
      (targetHeadBytes usual)
      ( says
          "The size of a response's head; a larger one gets a 502"
      )
      targetHeadBytes
    <*> seconds
      "silent-seconds"
      targetSilentSeconds
      "After this much silence a target of HTTP/2 that has work is asked whether it is there; after as much \
      \again its connection is given up"
  where
    usual = proxyLimits (plainProxy [])
    seconds name part note = setting name anyTime (part usual) (says note) part

healthSettings :: Settings HealthOptions HealthOptions
healthSettings =
  inFileOnly usual $
    HealthOptions
      <$> needed
        "path"
        (textual "PATH" targetPath id)
        ( says
            "The path that targets are asked for, by GET. Must be there"
        )
        healthPath
      <*> setting "every-seconds" anyTime (healthEverySeconds usual) (says "How often") healthEverySeconds
      <*> setting
        "limit-seconds"
        (numberFrom 1 3600 "SECONDS")
        (healthLimitSeconds usual)
        ( says
            "How long an answer may take"
        )
        healthLimitSeconds
      <*> setting
        "failures"
        (numberFrom 1 1000 "N")
        (healthFailures usual)
        ( says
            "How many failures in a row leave a target out"
        )
        healthFailures
      <*> setting
        "successes"
        (numberFrom 1 1000 "N")
        (healthSuccesses usual)
        ( says
            "How many successes in a row bring it back"
        )
        healthSuccesses
  where
    usual = healthAt "/"

-- On the command line, and alone in a file, the path.
healthForm :: Form (Maybe HealthOptions)
healthForm =
  perhaps
    (structured "a path, or a mapping" (Document.alternatives byPath byKeys) (Just . Keys . written healthSettings))
      { formArgument = fmap healthAt . targetPath,
        formPlaceholder = "PATH"
      }
  where
    byPath = healthAt <$> Document.refined Document.text targetPath
    byKeys = Document.mapping "'health'" (inFile healthSettings)

-- A path that targets can be asked for.
targetPath :: String -> Either String String
targetPath word = case word of
  '/' : rest | all isVisible rest -> Right word
  _ -> Left ("'" <> word <> "' is not a path: it begins with / and has no blanks")

-- | The settings of a site or a route. Only a file can have them.
policySettings :: Settings SitePolicy SitePolicy
policySettings =
  inFileOnly plainPolicy $
    SitePolicy
      <$> setting
        "headers"
        (structured "names and values" headers (keysUnlessNone . map (fmap Text)))
        []
        ( says
            "Fields that all answers get. They replace those of the same name, also those of its routes. `Vary` is \
            \added instead"
        )
        policyHeaders
      <*> unlessUsual
        NoSecurityHeaders
        policySecurity
        ( switchable
            "security-headers"
            NoSecurityHeaders
            UsualSecurityHeaders
            ( says
                "Answers get `X-Content-Type-Options: nosniff`, `X-Frame-Options: SAMEORIGIN`, \
                \`Referrer-Policy: strict-origin-when-cross-origin` and `Cross-Origin-Opener-Policy: same-origin`, \
                \unless they have one of that name"
            )
            policySecurity
        )
      <*> setting
        "cors"
        ( perhaps
            (structured "one or several origins, or a mapping" crossOrigin (Just . Keys . written crossOriginSettings))
        )
        Nothing
        (says "The origins whose pages may read the answers")
        policySharing
      <*> setting
        "users"
        (perhaps (structured "a file, or a mapping" users (Just . Keys . written usersSettings)))
        Nothing
        (says "The users who get answers, after they have given a password. Without it everybody does")
        policyUsers

keysUnlessNone :: [(String, Value)] -> Maybe Value
keysUnlessNone keys = if null keys then Nothing else Just (Keys keys)

headers :: Reader [(String, String)]
headers = Document.refined (Document.pairs Document.text) (traverse valid)
  where
    valid field@(name, value)
      | not (isTokenText name) = Left ("'" <> name <> "' is not the name of a field")
      | any (\letter -> letter < ' ' || letter > '\xFF' || letter == '\DEL') value =
        Left
          ( "the value of '"
              <> name
              <> "' has characters that a field cannot have"
          )
      | map toLower name `elem` owned =
        Left
          ( "the field '" <> name
              <> "' is the server's: it describes how the message is sent"
          )
      | otherwise = Right field
    owned =
      ["content-length", "transfer-encoding", "connection", "date", "content-range", "trailer", "upgrade", "keep-alive"]

isTokenText :: String -> Bool
isTokenText word = all isAscii word && isToken (Char8.pack word)

users :: Reader UsersOptions
users =
  Document.alternatives
    ((`UsersOptions` usualRealm) <$> Document.nonEmptyText)
    (Document.mapping "'users'" (inFile usersSettings))

usualRealm :: String
usualRealm = "this site"

usersSettings :: Settings UsersOptions UsersOptions
usersSettings =
  inFileOnly (UsersOptions "" usualRealm) $
    UsersOptions
      <$> needed
        "file"
        fileName
        ( says
            "The file. It is read at the start and when the configuration is read again"
        )
        usersFile
      <*> setting
        "realm"
        (textual "TEXT" realm id)
        usualRealm
        ( says
            "What the password is for; browsers show it"
        )
        usersRealm
  where
    realm word = if not (null word) && all (>= ' ') word then Right word else Left "a realm is one line"

crossOrigin :: Reader CrossOrigin
crossOrigin =
  Document.alternatives
    (plain <$> formReader origins)
    (Document.mapping "'cors'" (Document.checked careful (inFile crossOriginSettings)))
  where
    plain who = CrossOrigin who [] [] [] False usualMaxAge
    careful found
      | crossOrigins found == AnyOrigin && crossCredentials found =
        Left
          "with origins '*' and 'credentials: true' the pages of every site could act as any user who is \
          \logged in here. List the origins that may, or leave out 'credentials'"
      | otherwise = Right found

usualMaxAge :: Int
usualMaxAge = 600

crossOriginSettings :: Settings CrossOrigin CrossOrigin
crossOriginSettings =
  inFileOnly (CrossOrigin AnyOrigin [] [] [] False usualMaxAge) $
    CrossOrigin
      <$> needed
        "origins"
        origins
        ( says
            "One or several origins, such as `https://app.example.org`, or `'*'` for all"
        )
        crossOrigins
      <*> setting "methods" tokens [] (says "Methods that pages may use besides GET, HEAD and POST") crossMethods
      <*> setting "headers" tokens [] (says "Names of fields that their requests may have") crossFields
      <*> setting "expose" tokens [] (says "Names of fields of answers that they may read") crossExposed
      <*> switchable
        "credentials"
        False
        True
        ( says
            "Requests may have cookies and passwords. Not with `'*'`: the pages of every site could then act \
            \as any user who is logged in"
        )
        crossCredentials
      <*> setting
        "max-age-seconds"
        (numberFrom 0 86400 "SECONDS")
        usualMaxAge
        ( says
            "How long a browser may remember this"
        )
        crossSeconds
  where
    tokens = listOf ((textual "TOKEN" token id) {formValues = "one or several"})
    token word = if not (null word) && isTokenText word then Right word else Left ("'" <> word <> "' is not a token")

origins :: Form Origins
origins = structured "one or several" (Document.refined (Document.oneOrMany Document.nonEmptyText) parsed) shown
  where
    parsed words' = if words' == ["*"] then Right AnyOrigin else TheseOrigins <$> traverse origin words'
    origin word
      | any (`isPrefixOf` word) ["http://", "https://"] && length (filter (== '/') word) == 2 && all isVisible word =
        Right word
      | otherwise = Left ("'" <> word <> "' is not an origin: https://HOST, https://HOST:PORT, or '*' alone for all")
    shown found = Just . Items . map Text $ case found of
      AnyOrigin -> ["*"]
      TheseOrigins these -> these
