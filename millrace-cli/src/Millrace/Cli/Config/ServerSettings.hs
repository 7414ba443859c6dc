-- Must not know: servers.

-- | The settings of a server: addresses, the process, https, limits. Name, values, usual value and meaning of each are
-- written here and nowhere else.
module Millrace.Cli.Config.ServerSettings
  ( addressSettings,
    listenSettings,
    http3Setting,
    redirectSetting,
    processSettings,
    pidFileSetting,
    backendSetting,
    certificateSettings,
    certificateSetting,
    keySetting,
    tlsSettings,
    limitSettings,
  )
where

import Data.Bifunctor (first)
import Data.List (stripPrefix)
import Data.List.NonEmpty (NonEmpty)
import Data.Maybe (mapMaybe)
import Millrace.Cli.Base.Backend (backendChoices)
import Millrace.Cli.Config.Limit
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.Setting
import Millrace.Cli.Config.Suggestion (didYouMean)
import Millrace.Manager (Backend)
import Millrace.Socket (PortNumber)
import Network.Wai.Millrace.AccessLog (LogFormat (..))
import qualified Options.Applicative as Options

-- | The address and the port, for the command line. A file has them in one text.
addressSettings :: Settings ListenOptions (String, PortNumber)
addressSettings =
  optionOnly $
    (,)
      <$> setting
        "host"
        (textual "HOST" (Right . withoutBrackets) id)
        "127.0.0.1"
        ( says
            "Address or name to listen on; 0.0.0.0 or :: for all addresses"
        )
        listenHost
      <*> settingWith
        (Options.short 'p')
        "port"
        (numberFrom 0 65535 "PORT")
        8080
        ( says
            "Port to listen on; 0 for any free port"
        )
        listenPort
  where
    -- A host may also be written as in a URL, because that is how the server prints it.
    withoutBrackets word = case stripPrefix "[" word of
      Just rest | not (null rest), last rest == ']' -> init rest
      _ -> word

-- | The settings of an address, except its protocol.
listenSettings :: Settings ListenOptions ProxyHeader
listenSettings =
  unlessUsual NoProxyHeader listenProxyHeader $
    switchable
      "proxy-protocol"
      NoProxyHeader
      ProxyHeaderRequired
      ( says
          "Expect a header of the PROXY protocol, version 1 or 2, at the beginning of every connection, from a \
          \proxy that names the client. Nobody else should be able to reach the port"
      )
      listenProxyHeader

-- | The setting of HTTP\/3, for an address with https.
http3Setting :: Settings ListenOptions Http3
http3Setting =
  onlyWhere
    ((== Https) . listenSpeaking)
    ( setting
        "http3"
        ( oneWordOf
            "choice for HTTP/3,"
            [("auto", Http3IfPossible), ("on", Http3Required), ("off", NoHttp3)]
        )
        Http3IfPossible
        note
        listenHttp3
    )
  where
    note =
      says "Speak HTTP/3 on the port, too, over UDP; auto does so if this program can"
        `more` "Clients learn of it from `Alt-Svc`. With `auto` the program must have HTTP/3 (`millrace doctor` \
               \says so), neither `client-authorities` nor `proxy-protocol` may be given, and the sockets may not be \
               \inherited; if the port is taken for UDP, there is a message. With `on` the server does not start if \
               \one of these conditions does not hold"
        `seeAlso` "deploying.md#https"

-- | The port that sends clients to https. In a file it is an address.
redirectSetting :: Settings () (Maybe PortNumber)
redirectSetting =
  optionOnly $
    setting
      "redirect-to-https"
      (perhaps (numberFrom 0 65535 "PORT"))
      Nothing
      (says "Listen on this port too, without TLS, and send clients to https; ACME's challenges are answered there")
      (const Nothing)

-- | The settings of the process. They make a function that gets the remaining options.
processSettings :: Settings ServerOptions (NonEmpty ListenOptions -> Maybe TlsOptions -> LimitOptions -> ServerOptions)
processSettings =
  gathered
    <$> backendSetting serverBackend
    <*> setting
      "cores"
      (perhaps (numberFrom 1 256 "N"))
      Nothing
      ( says
          "Cores to use, with a loop and some 32 MB of memory for each (default: all, or a container's CPU \
          \quota, rounded up, if that is less)"
      )
      serverCores
    <*> switchable
      "reuse-port"
      False
      True
      ( says
          "Share the port with other servers that use this option, for a restart (see below)"
      )
      serverReusePort
    <*> accessLogSettings
    <*> setting
      "status"
      (perhaps (numberFrom 0 65535 "PORT"))
      Nothing
      ( says
          "Show what the server does, at http://127.0.0.1:PORT/: a live page, /status (JSON) and /metrics \
          \(Prometheus); 0 for any free port"
          `seeAlso` "status.md"
      )
      serverStatusPort
    <*> setting
      "drain-seconds"
      (numberFrom 1 3600 "SECONDS")
      usualDrainSeconds
      ( says
          "How long open requests have to end when the server stops. The program that stops it must wait longer: \
          \systemd's TimeoutStopSec, 'docker stop -t'"
          `seeAlso` "deploying.md#how-long-a-stop-takes"
      )
      serverDrainSeconds
  where
    gathered backend cores reuse (logFile, format) status drain listens tls limits =
      ServerOptions
        { serverListens = listens,
          serverReusePort = reuse,
          serverBackend = backend,
          serverCores = cores,
          serverAccessLog = logFile,
          serverLogFormat = format,
          serverStatusPort = status,
          serverTls = tls,
          serverLimits = limits,
          serverDrainSeconds = drain
        }

-- | The choice of a backend.
backendSetting :: (record -> Maybe Backend) -> Settings record (Maybe Backend)
backendSetting =
  setting
    "backend"
    (oneWordOf "backend" backendChoices)
    Nothing
    ( says
        "I/O backend; auto takes MILLRACE_BACKEND if that is set, else the first backend that works"
        `seeAlso` "platforms.md"
    )

accessLogSettings :: Settings ServerOptions (Maybe FilePath, LogFormat)
accessLogSettings = (,) <$> logFile <*> format
  where
    logFile = setting "access-log" (perhaps fileName) Nothing note serverAccessLog
    format =
      setting
        "log-format"
        (oneWordOf "log format" [("combined", Combined), ("json", JsonLines)])
        Combined
        (says "Format of a line of the access log")
        serverLogFormat
    note =
      says
        "Append a line for each answer, refusals included; - for standard output (default: no log). The file is \
        \opened again for each write: to rotate it, rename it. No signal is needed, and SIGUSR1 does nothing"

-- | The file with the process's number. Only a configuration file can name it.
pidFileSetting :: Settings (Maybe FilePath) (Maybe FilePath)
pidFileSetting =
  inFileOnly Nothing (setting "pid-file" (perhaps fileName) Nothing note id)
  where
    note =
      says "A file that has the process's number while the server runs"
        `more` "Beside it, with `.sock` behind its name, is the socket by which `millrace reload` asks. Both \
               \are there from the moment when the \
               \server listens: a start that fails leaves those of a running server alone. After a restart with \
               \`reuse-port` they are the next server's, and only their own server removes them. At most 90 bytes"

-- | A certificate and its key.
certificateSettings :: Settings (FilePath, FilePath) (FilePath, FilePath)
certificateSettings = (,) <$> within fst certificateSetting <*> within snd keySetting

-- | A file with a certificate.
certificateSetting :: Settings FilePath FilePath
certificateSetting =
  needed
    "certificate"
    fileName
    ( says "Speak https with this certificate and its chain, in PEM (see below)"
        `more` "Read again when the file changes, as is `key`. Give both again for each further certificate: \
               \the name that a client asks for chooses"
    )
    id

-- | A file with the key of a certificate.
keySetting :: Settings FilePath FilePath
keySetting = needed "key" fileName (says "The private key of the certificate, in PEM") id

-- | Further settings of https: the authorities of clients, and the keys of tickets.
tlsSettings :: Settings TlsOptions (Maybe FilePath, [FilePath])
tlsSettings =
  (,)
    <$> setting
      "client-authorities"
      (perhaps fileName)
      Nothing
      (says "Serve only clients with a certificate of these authorities, in PEM")
      tlsClientAuthorities
    <*> repeatable
      "ticket-keys"
      ((listOf fileName) {formValues = "one or several files"})
      ( says
          "Protect session tickets with the keys in this file, which other servers and later runs have, too \
          \(see below)"
          `more` "A key has 80 bytes (`openssl rand 80`) and the file holds one or more, one behind another. \
                 \The first one protects new tickets, all \
                 \of them open tickets. The file is read again as those of certificates are. Keep it as secret \
                 \as a private key"
          `seeAlso` "deploying.md#https"
      )
      tlsTicketKeys

-- | The limits of the server. On the command line @--limit NAME=NUMBER@ sets each of them.
limitSettings :: Settings LimitOptions LimitOptions
limitSettings = keys {onCommandLine = given, described = described byName <> described keys}
  where
    keys = limitsFrom . mapMaybe sequence <$> traverse (\limit -> (,) limit <$> key limit) [minBound ..]
    key limit =
      scoped LimitAndKey . usually (limitUsual limit) $
        setting (limitName limit) (perhaps (form limit)) Nothing (says (limitMeaning limit)) (`limitOf` limit)
    form :: Limit -> Form Int
    form limit = uncurry numberFrom (limitRange limit) (limitUnit limit)
    given = limitsFrom <$> Options.many (onCommandLine byName)
    byName = optionOnly (needed "limit" named note id)
    named =
      (textual "NAME=NUMBER" (readLimit form) (limitName . fst))
        { formWords =
            [limitName limit <> "=" | limit <- [minBound ..]]
        }
    note =
      says
        "Change a limit, for example idle-seconds=60; NAME is a key of 'limits' in a configuration file (see below)"

-- Reads @NAME=NUMBER@, or says what is wrong with it.
readLimit :: (Limit -> Form Int) -> String -> Either String (Limit, Int)
readLimit form text = case break (== '=') text of
  (name, '=' : number) -> maybe (Left (unknown name)) (`readNumber` number) (lookup name named)
  _ -> Left ("'" <> text <> "' is not NAME=NUMBER")
  where
    named = [(limitName limit, limit) | limit <- [minBound ..]]
    unknown name = "there is no limit '" <> name <> "'" <> didYouMean (map fst named) name
    readNumber limit number = first ((limitName limit <> ": ") <>) ((,) limit <$> formArgument (form limit) number)
