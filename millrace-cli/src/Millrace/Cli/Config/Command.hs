-- | The command line: its options, and the help texts. Must not know: servers.
module Millrace.Cli.Config.Command
  ( Command (..),
    ServerOptions (..),
    ListenOptions (..),
    Speaking (..),
    ProxyHeader (..),
    Http3 (..),
    usualDrainSeconds,
    TlsOptions (..),
    FilesOptions (..),
    plainFiles,
    plainProxy,
    ProxyOptions (..),
    TargetLimits (..),
    HealthOptions (..),
    healthAt,
    HostOption (..),
    Spread (..),
    DoctorOptions (..),
    hostOption,
    targetPath,
    spreads,
    logFormats,
    http3Choices,
    commandLine,
    parserPreferences,
  )
where

import Data.Char (isDigit)
import Data.List (intercalate, stripPrefix)
import Data.List.NonEmpty (NonEmpty (..))
import Millrace.Cli.Base.Backend (backendChoices)
import Millrace.Cli.Config.Limit
import Millrace.Cli.Files.CacheRule (CacheRule, readCacheRule)
import Millrace.Cli.Files.Policy (Compression (..), Fallback (..), OnError (..))
import Millrace.Cli.Observe.AccessLog (LogFormat (..))
import Millrace.Manager (Backend, version)
import Millrace.Socket (PortNumber)
import Options.Applicative
import Options.Applicative.Help.Chunk (Chunk (..), paragraph, stringChunk, vcatChunks, vsepChunks)
import Options.Applicative.Help.Pretty (Doc)
import Text.Read (readMaybe)

-- | What the program is to do.
data Command
  = Serve FilesOptions ServerOptions
  | Proxy ProxyOptions ServerOptions
  | Pong ServerOptions
  | -- | Print the configuration file that says the same as this.
    Print Command
  | -- | With this configuration file.
    Run FilePath
  | Check FilePath
  | -- | Wait for this many seconds at most.
    Reload Int FilePath
  | Doctor DoctorOptions
  deriving (Eq, Show)

-- | The options of a server.
data ServerOptions = ServerOptions
  { serverListens :: NonEmpty ListenOptions,
    -- | May other processes listen on the same ports?
    serverReusePort :: Bool,
    -- | 'Nothing' is the automatic choice.
    serverBackend :: Maybe Backend,
    -- | 'Nothing' means all cores, or as many as a quota is worth.
    serverCores :: Maybe Int,
    serverAccessLog :: Maybe FilePath,
    serverLogFormat :: LogFormat,
    -- | Where this machine can ask what the server has done.
    serverStatusPort :: Maybe PortNumber,
    -- | 'Nothing': nothing is listened on for https.
    serverTls :: Maybe TlsOptions,
    serverLimits :: LimitOptions,
    -- | How long open requests have to end when the server stops.
    serverDrainSeconds :: Int
  }
  deriving (Eq, Show)

-- | Longer than a usual request takes. Together with the rest of the shutdown it must be shorter than service managers wait before they
-- kill: Docker waits ten seconds.
usualDrainSeconds :: Int
usualDrainSeconds = 9

-- | Where to listen, and for what.
data ListenOptions = ListenOptions
  { listenSpeaking :: Speaking,
    listenHost :: String,
    -- | 0 takes any free port.
    listenPort :: PortNumber,
    listenProxyHeader :: ProxyHeader,
    -- | For https.
    listenHttp3 :: Http3,
    -- | What the user has said this with, for messages.
    listenSaidBy :: String
  }
  deriving (Eq, Show)

-- | What is spoken with those that connect.
data Speaking
  = PlainHttp
  | Https
  | -- | Plain http that sends clients to https.
    RedirectToHttps
  deriving (Eq, Show)

-- | Does each connection begin with the header of a proxy that names the client?
data ProxyHeader
  = NoProxyHeader
  | ProxyHeaderRequired
  deriving (Eq, Show)

-- | Is HTTP\/3 spoken on the port, over UDP, beside https?
data Http3
  = -- | If the program has HTTP\/3, and nothing else asked for is against it.
    Http3IfPossible
  | -- | The server does not start without.
    Http3Required
  | NoHttp3
  deriving (Eq, Show)

-- | The options of a server with https.
data TlsOptions = TlsOptions
  { -- | Certificates and their keys.
    tlsPairs :: [(FilePath, FilePath)],
    -- | Whose certificates clients must have.
    tlsClientAuthorities :: Maybe FilePath,
    -- | Keys for session tickets that other servers and later runs have, too. None: the server has its own.
    tlsTicketKeys :: [FilePath]
  }
  deriving (Eq, Show)

-- | Which files to serve.
data FilesOptions = FilesOptions
  { filesDirectory :: FilePath,
    filesFollowLinks :: Bool,
    filesListing :: Bool,
    -- | 0 means no cache.
    filesCacheSeconds :: Int,
    filesFallback :: Fallback,
    filesOnError :: OnError,
    filesCompression :: Compression,
    -- | The last rule that fits a file decides.
    filesCacheRules :: [CacheRule]
  }
  deriving (Eq, Show)

-- | A directory with the usual options.
plainFiles :: FilePath -> FilesOptions
plainFiles directory =
  FilesOptions
    { filesDirectory = directory,
      filesFollowLinks = False,
      filesListing = False,
      filesCacheSeconds = 1,
      filesFallback = NotFound,
      filesOnError = LineOfText,
      filesCompression = NoCompression,
      filesCacheRules = []
    }

-- | Where requests go, and how.
data ProxyOptions = ProxyOptions
  { proxyTargets :: [String],
    proxyHost :: HostOption,
    -- | May clients say for whom they ask?
    proxyTrustsForwarded :: Bool,
    proxySpread :: Spread,
    proxyConnectSeconds :: Int,
    proxyResponseSeconds :: Int,
    -- | How many unused connections are kept for each target.
    proxyKept :: Int,
    proxyLimits :: TargetLimits,
    -- | How targets are asked whether they are well. 'Nothing': only requests show it.
    proxyHealth :: Maybe HealthOptions,
    -- | Who may vouch for targets, instead of the system's authorities.
    proxyAuthorities :: Maybe FilePath,
    -- | The directory with pages for the server's own errors.
    proxyErrorPages :: Maybe FilePath
  }
  deriving (Eq, Show)

-- | Limits for targets that only a configuration file says.
data TargetLimits = TargetLimits
  { -- | How long a target may take nothing of a request.
    targetSendSeconds :: Int,
    -- | How long a response may stand still. 'Nothing': as long as it may take to begin.
    targetStallSeconds :: Maybe Int,
    -- | How long a request and its response may take in all. 'Nothing': any time.
    targetTotalSeconds :: Maybe Int,
    -- | How long a tunnel may be silent.
    targetTunnelSeconds :: Int,
    -- | How long an unused connection is kept.
    targetKeepSeconds :: Int,
    -- | How many requests fail in a row before a target is left out, and for how long it is.
    targetFailures :: Int,
    targetLeftOutSeconds :: Int,
    -- | The size of a response's head.
    targetHeadBytes :: Int,
    -- | After so much silence a target of HTTP\/2 that has work is asked whether it is there.
    targetSilentSeconds :: Int
  }
  deriving (Eq, Show)

-- | How targets are asked whether they are well.
data HealthOptions = HealthOptions
  { healthPath :: String,
    healthEverySeconds :: Int,
    -- | How long an answer may take.
    healthLimitSeconds :: Int,
    -- | How many checks fail in a row before a target is left out.
    healthFailures :: Int,
    -- | How many succeed in a row before it is used again.
    healthSuccesses :: Int
  }
  deriving (Eq, Show)

-- | This path is asked for in the usual way.
healthAt :: String -> HealthOptions
healthAt path = HealthOptions path 5 2 2 2

-- | These targets with the usual options.
plainProxy :: [String] -> ProxyOptions
plainProxy targets =
  ProxyOptions
    { proxyTargets = targets,
      proxyHost = HostOfClient,
      proxyTrustsForwarded = False,
      proxySpread = InTurn,
      proxyConnectSeconds = 10,
      proxyResponseSeconds = 60,
      proxyKept = 128,
      proxyLimits =
        TargetLimits
          { targetSendSeconds = 60,
            targetStallSeconds = Nothing,
            targetTotalSeconds = Nothing,
            targetTunnelSeconds = 3600,
            targetKeepSeconds = 50,
            targetFailures = 3,
            targetLeftOutSeconds = 10,
            targetHeadBytes = 65536,
            targetSilentSeconds = 15
          },
      proxyHealth = Nothing,
      proxyAuthorities = Nothing,
      proxyErrorPages = Nothing
    }

-- | Which host a target is asked for.
data HostOption
  = HostOfClient
  | HostOfTarget
  | HostAlways String
  deriving (Eq, Show)

-- | Which of several targets gets a request.
data Spread
  = InTurn
  | ByLoad
  | ByClient
  | ByPath
  deriving (Eq, Show)

-- | What to examine, and how to print the result.
data DoctorOptions = DoctorOptions
  { doctorBackend :: Maybe Backend,
    doctorJson :: Bool
  }
  deriving (Eq, Show)

-- | The parser of the command line. Wrong usage has exit status 2.
commandLine :: ParserInfo Command
commandLine =
  info (commands <**> versionOption <**> helper) . mconcat $
    [ fullDesc,
      header ("millrace " <> version <> " - a web server on an I/O manager of its own"),
      footerDoc . unChunk $
        vsepChunks
          [ examples
              [ ("millrace serve public", "serve ./public on http://127.0.0.1:8080"),
                ("millrace serve --host :: --port 80", "serve the current directory to everybody"),
                ("millrace proxy 3000", "pass requests on to port 3000 of this machine"),
                ("millrace run millrace.yaml", "serve several sites, as a file says"),
                ("millrace pong --backend epoll --cores 1", "measure one backend on one core"),
                ("millrace doctor", "what works on this machine, and why the rest does not")
              ],
            paragraph "'millrace COMMAND --help' explains the options of a command.",
            paragraph "Exit status: 0 when done or stopped, 1 when it could not be done, 2 on wrong usage."
          ],
      failureCode 2
    ]
  where
    versionOption = infoOption ("millrace " <> version) (long "version" <> help "Print the version and exit")

-- | How the parser writes its help.
parserPreferences :: ParserPrefs
parserPreferences = prefs (showHelpOnEmpty <> noBacktrack <> columns 100)

commands :: Parser Command
commands =
  hsubparser . mconcat $
    [ command "serve" . info (printable (Serve <$> filesOptions <*> serverOptions)) $
        progDesc "Serve the files of a directory" <> footerDoc (unChunk serveNotes),
      command "proxy" . info (printable (Proxy <$> proxyOptions <*> serverOptions)) $
        progDesc "Pass requests on to other servers" <> footerDoc (unChunk proxyNotes),
      command "pong" . info (Pong <$> serverOptions) $
        progDesc "Answer every request with 200 and the text Pong!" <> footerDoc (unChunk pongNotes),
      command "run" . info (Run <$> configurationFile) $
        progDesc "Serve what a configuration file says: sites by name, files, proxies" <> footerDoc (unChunk runNotes),
      command "check" . info (Check <$> configurationFile) $
        progDesc "Say what is wrong with a configuration file, and where" <> footerDoc (unChunk checkNotes),
      command "reload" . info (Reload <$> patience <*> configurationFile) $
        progDesc "Have the running server take its changed configuration file" <> footerDoc (unChunk reloadNotes),
      command "doctor" . info (Doctor <$> doctorOptions) $
        progDesc "Examine this machine: kernel, limits, which backends work and why others do not"
          <> footerDoc (unChunk doctorNotes)
    ]

printable :: Parser Command -> Parser Command
printable parser = flip id <$> parser <*> flag id Print (long "print-config" <> help "Print the configuration file that says the same (for 'millrace run'), and exit")

serveNotes :: Chunk Doc
serveNotes =
  vsepChunks
    [ examples
        [ ("millrace serve", "the current directory on http://127.0.0.1:8080"),
          ("millrace serve site --port 0", "on a free port, which the first line of output names"),
          ("millrace serve --host 0.0.0.0 ~/public", "to every machine that can reach this one"),
          ("millrace serve site --access-log access.log --status 9090", "with an access log and counters"),
          ("millrace serve dist --spa", "a single-page application"),
          ("millrace serve site -p 443 --tls-cert fullchain.pem --tls-key privkey.pem --tls-redirect 80", "https, and http that leads there")
        ],
      paragraph
        "A directory answers with its index.html or index.htm. A file NAME.br, NAME.zst or NAME.gz is sent instead of NAME to \
        \clients that accept the coding, unless it is more than two seconds older than NAME. Only regular files are served. \
        \Names that begin with a dot are not served, except .well-known.",
      encryption,
      changing,
      stopping
    ]

proxyNotes :: Chunk Doc
proxyNotes =
  vsepChunks
    [ examples
        [ ("millrace proxy 3000", "to http://127.0.0.1:3000, from http://127.0.0.1:8080"),
          ("millrace proxy unix:/run/app.sock --host :: -p 80", "to a Unix socket"),
          ("millrace proxy 3001 3002 3003 --health /up", "to three servers in turn, as long as they are well"),
          ("millrace proxy https://example.org --host-field target", "to a server with TLS, by its name"),
          ("millrace proxy h2c://127.0.0.1:50051", "to a server of gRPC"),
          ("millrace proxy 3000 --tls-cert chain.pem --tls-key key.pem", "https in front of http")
        ],
      paragraph
        "A target is http://HOST[:PORT], HOST:PORT, a port of this machine, or unix:PATH, for HTTP/1.1; https://HOST[:PORT], for TLS and \
        \the version that the target chooses (ALPN); https1://, for TLS and HTTP/1.1; h2://, for TLS and HTTP/2; h2c:// or \
        \h2c+unix:PATH, for HTTP/2 without TLS. Connections are kept, and shared by many requests on HTTP/2. Bodies are streamed both ways; WebSockets and other upgrades are passed on. \
        \Targets learn of the client by Forwarded and X-Forwarded-For, -Proto and -Host, and get X-Request-Id and traceparent. A \
        \response that programs could read differently is answered with 502, one that is late with 504; a message says why.",
      paragraph
        "A configuration file says more limits, and how targets are checked: --print-config shows all of them.",
      encryption,
      changing,
      stopping
    ]

pongNotes :: Chunk Doc
pongNotes =
  vsepChunks
    [ examples
        [ ("millrace pong --cores 1", "one loop, for measuring the cost of a request"),
          ("curl http://127.0.0.1:8080/", "prints Pong!")
        ],
      encryption,
      changing,
      stopping
    ]

encryption :: Chunk Doc
encryption =
  paragraph
    "With --tls-cert and --tls-key the server speaks https: TLS 1.2 and 1.3. Both files are PEM; the first one has the certificate and \
    \its chain. Give both options again for each further certificate: the name that a client asks for chooses. When the files change, \
    \new connections use the new certificates; SIGUSR2 has them read at once. Broken ones are reported, and the old ones stay. A file \
    \FILE.ocsp beside a certificate is its authority's OCSP answer. A file of --tls-ticket-keys holds keys of 80 bytes, one behind \
    \another ('openssl rand 80' makes one): the first one protects new tickets, all of them open tickets. Clients then resume their \
    \sessions with every server that has the keys, also after a restart. Clients are also offered HTTP/3, on the same port over UDP, if this \
    \program has it ('millrace doctor' says so), the sockets are not inherited, and neither --tls-client-ca nor --proxy-protocol is given."

changing :: Chunk Doc
changing =
  paragraph $
    "--limit changes one of these: " <> intercalate ", " (map limitName [minBound ..])
      <> ". Without it the library's own limits hold, which the guide describes (docs/guide/configuring.md)."

stopping :: Chunk Doc
stopping =
  vsepChunks
    [ paragraph
        "Prints 'listening on http://HOST:PORT' when ready ('listening on unix:PATH' on an inherited Unix socket). \
        \Ctrl-C, SIGTERM, SIGQUIT or SIGHUP (a terminal that closes) makes the server finish the open requests and stop, after \
        \ten seconds at the latest (--drain-timeout and one more). A second signal stops it at once. If nobody reads the access log, the server waits two \
        \seconds for it. Under nohup, SIGHUP does nothing.",
      paragraph
        "To restart without losing a connection, let systemd hold the socket (LISTEN_FDS). Connections then wait in it for the \
        \next server, and --host and --port are ignored. Or run every server with --reuse-port: start the new server, wait \
        \until it is ready, then send SIGTERM to the old one."
    ]

doctorNotes :: Chunk Doc
doctorNotes =
  vsepChunks
    [ examples
        [ ("millrace doctor", "which backend would be used, and why"),
          ("millrace doctor --backend io_uring", "whether this backend would work"),
          ("millrace doctor --json", "for programs")
        ],
      paragraph
        "If a backend is chosen by name, only that one is tried. Some sandboxes kill a program that tries io_uring: there, use \
        \--backend epoll or MILLRACE_BACKEND=epoll.",
      paragraph "Exit status: 0 if a server could start with this backend, 1 if not."
    ]

runNotes :: Chunk Doc
runNotes =
  vsepChunks
    [ examples [("millrace run /etc/millrace.yaml", "the sites of this file")],
      vcatChunks (map stringChunk ("A small file:" : map ("  " <>) smallConfiguration)),
      paragraph
        "SIGHUP has the file read again: open requests end as they began, and new ones are answered as the new file says. A file with \
        \mistakes is refused, and nothing changes. So is one that changes 'listen', 'process' or 'limits', which needs a restart.",
      paragraph
        "Prints 'listening on http://HOST:PORT' for each address when ready. Ctrl-C, SIGTERM or SIGQUIT makes the server finish the open \
        \requests and stop, after ten seconds at the latest ('drain-seconds' and one more). A second signal stops it at once.",
      paragraph
        "To restart without losing a connection, let systemd hold the sockets (LISTEN_FDS): each is listened on in the way that 'listen' \
        \has for its port. Or use 'reuse-port': start the new server, wait until it is ready, then send SIGTERM to the old one."
    ]

smallConfiguration :: [String]
smallConfiguration =
  [ "sites:",
    "  - hosts: [example.org, '*.example.org']",
    "    files: /srv/example",
    "    routes:",
    "      - path: /api",
    "        proxy: 3000"
  ]

checkNotes :: Chunk Doc
checkNotes =
  vsepChunks
    [ examples [("millrace check /etc/millrace.yaml", "prints OK if it can be used")],
      paragraph
        "Also opens directories, and reads users, certificates and keys, as 'millrace run' does before it listens. So run it as the server's \
        \user. The folders of the access log and of 'pid-file' must be there, except those that a service manager makes (in /run and \
        \/var/log): for them there is a message.",
      paragraph "Exit status: 0 if 'millrace run' would take the file, 1 if not. Mistakes are printed as FILE:LINE:COLUMN: TEXT."
    ]

reloadNotes :: Chunk Doc
reloadNotes =
  vsepChunks
    [ examples [("millrace reload /etc/millrace.yaml", "says whether the server that runs with the file takes it")],
      paragraph
        "The server is asked by the socket beside 'pid-file' in the file's 'process', so run it as the server's user, or as root. Without \
        \'pid-file', send SIGHUP to the server: its messages then say the outcome. Changes of 'listen', 'process' and 'limits' need a restart.",
      paragraph "Exit status: 0 if the server answers new requests as the file says, 1 if not; then the reasons are printed."
    ]

patience :: Parser Int
patience =
  option
    (fromInteger <$> numberBetween 1 3600)
    (long "timeout" <> metavar "SECONDS" <> value 60 <> showDefault <> help "How long to wait for the server's answer")

configurationFile :: Parser FilePath
configurationFile = strArgument (metavar "FILE" <> action "file" <> help "Configuration file, in YAML")

-- Commands and what they do, in two columns.
examples :: [(String, String)] -> Chunk Doc
examples entries = vcatChunks (map stringChunk ("Examples:" : map example entries))
  where
    example (invocation, meaning) = "  " <> invocation <> replicate (width - length invocation) ' ' <> "  " <> meaning
    width = maximum (map (length . fst) entries)

filesOptions :: Parser FilesOptions
filesOptions =
  FilesOptions
    <$> strArgument
      (metavar "DIR" <> value "." <> action "directory" <> help "Directory to serve (default: the current one)")
    <*> switch (long "follow-links" <> help "Follow symbolic links that lead outside DIR")
    <*> switch (long "listing" <> help "Answer with a list of its files, as a page or as JSON, for a directory without an index")
    <*> option
      (fromInteger <$> numberBetween 0 3600)
      ( long "cache" <> metavar "SECONDS" <> value 1 <> showDefault
          <> help "Keep small files in memory and large files open for so long before looking them up again; 0 looks every time"
      )
    <*> flag
      NotFound
      SinglePage
      ( long "spa"
          <> help "Answer with DIR/index.html if a page is asked for that names no file and has no extension: a single-page application reads the path itself"
      )
    <*> flag
      LineOfText
      PageOfSite
      (long "error-pages" <> help "Answer with DIR/404.html instead of a line of text, and so with 403.html, 500.html and 503.html, where they are")
    <*> flag
      NoCompression
      CompressOnTheWay
      (long "compress" <> help "Compress texts, scripts and the like for clients that accept it, with brotli, zstd or gzip, and keep the results in memory")
    <*> many
      ( option
          (eitherReader readCacheRule)
          ( long "cache-control" <> metavar "PATTERN=VALUE"
              <> help "Send files with Cache-Control: VALUE; PATTERN is a path (/assets/) or an extension (*.css). Of several that fit, the last one counts"
          )
      )

proxyOptions :: Parser ProxyOptions
proxyOptions =
  ProxyOptions
    <$> some (strArgument (metavar "TARGET..." <> help "Where requests go (see below)"))
    <*> option
      (eitherReader hostOption)
      ( long "host-field" <> metavar "client|target|NAME" <> value (proxyHost usual) <> completeWith ["client", "target"]
          <> help "Host that targets are asked for: the client's, their own, or always this one (default: client)"
      )
    <*> switch
      ( long "trust-forwarded"
          <> help "Add to the Forwarded and X-Forwarded fields of clients instead of replacing them. All clients must be proxies that can be trusted"
      )
    <*> option
      (named spreads "way to choose")
      ( long "balance" <> metavar (intercalate "|" (map fst spreads)) <> value (proxySpread usual) <> completeWith (map fst spreads)
          <> help "Which target gets a request: in turn, the one with the fewest requests, or always the same one for a client or a path (default: turn)"
      )
    <*> option
      (fromInteger <$> numberBetween 1 3600)
      (long "connect-timeout" <> metavar "SECONDS" <> value (proxyConnectSeconds usual) <> showDefault <> help "How long a connection to a target may take")
    <*> option
      (fromInteger <$> numberBetween 1 86400)
      (long "response-timeout" <> metavar "SECONDS" <> value (proxyResponseSeconds usual) <> showDefault <> help "How long a target may take to begin its response, and between two parts of it")
    <*> option
      (fromInteger <$> numberBetween 0 100000)
      (long "keep" <> metavar "N" <> value (proxyKept usual) <> showDefault <> help "Unused connections to keep for each target")
    <*> pure (proxyLimits usual)
    <*> optional
      (option (healthAt <$> eitherReader targetPath) (long "health" <> metavar "PATH" <> help "Ask targets for PATH every five seconds, and leave out those that do not answer with 2xx or 3xx"))
    <*> optional
      (strOption (long "target-ca" <> metavar "FILE" <> action "file" <> help "Trust targets with certificates of these authorities, in PEM (default: the system's)"))
    <*> optional
      ( strOption
          ( long "error-pages" <> metavar "DIR" <> action "directory"
              <> help "Answer with DIR/502.html, DIR/503.html, DIR/504.html and the like, where they are, if a request cannot be passed on; what targets answer is not changed"
          )
      )
  where
    usual = plainProxy []

-- | What the host of a proxy's requests is said with.
hostOption :: String -> Either String HostOption
hostOption word = case word of
  "client" -> Right HostOfClient
  "target" -> Right HostOfTarget
  _
    | not (null word) && all isVisible word -> Right (HostAlways word)
    | otherwise -> Left ("'" <> word <> "' is not the name of a host")

-- | A path that targets can be asked for.
targetPath :: String -> Either String String
targetPath word = case word of
  '/' : rest | all isVisible rest -> Right word
  _ -> Left ("'" <> word <> "' is not a path: it begins with / and has no blanks")

isVisible :: Char -> Bool
isVisible character = character > ' ' && character < '\DEL'

-- | The ways to choose a target, and their names.
spreads :: [(String, Spread)]
spreads = [("turn", InTurn), ("load", ByLoad), ("client", ByClient), ("path", ByPath)]

named :: [(String, a)] -> String -> ReadM a
named choices what = eitherReader $ \word -> maybe (Left (unknown word)) Right (lookup word choices)
  where
    unknown word = "there is no " <> what <> " '" <> word <> "'; choose one of: " <> intercalate ", " (map fst choices)

serverOptions :: Parser ServerOptions
serverOptions =
  gathered
    <$> option
      host
      ( long "host" <> metavar "HOST" <> value "127.0.0.1" <> showDefaultWith id
          <> help "Address or name to listen on; 0.0.0.0 or :: for all addresses"
      )
    <*> option
      port
      ( long "port" <> short 'p' <> metavar "PORT" <> value 8080 <> showDefault
          <> help "Port to listen on; 0 for any free port"
      )
    <*> switch (long "reuse-port" <> help "Share the port with other servers that use this option, for a restart (see below)")
    <*> backendOption
    <*> optional
      ( option
          cores
          ( long "cores" <> metavar "N"
              <> help
                "Cores to use, with a loop and some 32 MB of memory for each (default: all, or a container's CPU quota, rounded \
                \up, if that is less)"
          )
      )
    <*> optional accessLogOptions
    <*> optional
      ( option
          port
          ( long "status" <> metavar "PORT"
              <> help "Show what the server does, at http://127.0.0.1:PORT/: a live page, /status (JSON) and /metrics (Prometheus); 0 for any free port"
          )
      )
    <*> flag
      NoProxyHeader
      ProxyHeaderRequired
      ( long "proxy-protocol"
          <> help
            "Expect a header of the PROXY protocol, version 1 or 2, at the beginning of every connection, from a proxy that names \
            \the client. Nobody else should be able to reach the port"
      )
    <*> option
      (fromInteger <$> numberBetween 1 3600)
      ( long "drain-timeout" <> metavar "SECONDS" <> value usualDrainSeconds <> showDefault
          <> help "How long open requests have to end when the server stops. Whoever stops it must wait longer: systemd's TimeoutStopSec, 'docker stop -t'"
      )
    <*> many
      ( option
          (eitherReader readLimit)
          ( long "limit" <> metavar "NAME=NUMBER" <> completeWith [limitName limit <> "=" | limit <- [minBound ..]]
              <> help "Change a limit, for example idle-seconds=60; NAME is a key of 'limits' in a configuration file (see below)"
          )
      )
    <*> optional tlsOptions
  where
    gathered name number reuse chosen count accessLog status proxyHeader drain limits tls =
      ServerOptions
        { serverListens = ListenOptions (maybe PlainHttp (const Https) tls) name number proxyHeader (maybe Http3IfPossible secureHttp3 tls) "--port" :| foldMap (redirect name . secureRedirect) tls,
          serverReusePort = reuse,
          serverBackend = chosen,
          serverCores = count,
          serverAccessLog = fst <$> accessLog,
          serverLogFormat = maybe Combined snd accessLog,
          serverStatusPort = status,
          serverTls = secureTls <$> tls,
          serverLimits = limitsFrom limits,
          serverDrainSeconds = drain
        }
    redirect name = foldMap (\number -> [ListenOptions RedirectToHttps name number NoProxyHeader Http3IfPossible "--tls-redirect"])

-- What has no meaning without a certificate.
data SecureOptions = SecureOptions
  { secureTls :: TlsOptions,
    secureHttp3 :: Http3,
    -- The port of the server that sends clients to https.
    secureRedirect :: Maybe PortNumber
  }

tlsOptions :: Parser SecureOptions
tlsOptions =
  gathered
    <$> some
      ( (,)
          <$> strOption (long "tls-cert" <> metavar "FILE" <> action "file" <> help "Speak https with this certificate and its chain, in PEM (see below)")
          <*> strOption (long "tls-key" <> metavar "FILE" <> action "file" <> help "The private key of the certificate, in PEM")
      )
    <*> optional
      ( strOption
          ( long "tls-client-ca" <> metavar "FILE" <> action "file"
              <> help "Serve only clients with a certificate of these authorities, in PEM"
          )
      )
    <*> many
      ( strOption
          ( long "tls-ticket-keys" <> metavar "FILE" <> action "file"
              <> help "Protect session tickets with the keys in this file, which other servers and later runs have, too (see below)"
          )
      )
    <*> option
      (named http3Choices "choice for HTTP/3,")
      ( long "http3" <> metavar (intercalate "|" (map fst http3Choices)) <> value Http3IfPossible <> completeWith (map fst http3Choices)
          <> help "Speak HTTP/3 on the port, too, over UDP; auto does so if this program can (default: auto)"
      )
    <*> optional
      ( option
          port
          ( long "tls-redirect" <> metavar "PORT"
              <> help "Listen on this port too, without TLS, and send clients to https; ACME's challenges are answered there"
          )
      )
  where
    gathered pairs authorities keys = SecureOptions (TlsOptions pairs authorities keys)

-- The format has no meaning without the log.
accessLogOptions :: Parser (FilePath, LogFormat)
accessLogOptions =
  (,)
    <$> strOption
      ( long "access-log" <> metavar "FILE" <> action "file"
          <> help
            "Append a line for each answer, refusals included; - for standard output (default: no log). The file is opened again \
            \for each write: to rotate it, rename it. No signal is needed, and SIGUSR1 does nothing"
      )
    <*> option
      logFormat
      ( long "log-format" <> metavar (intercalate "|" (map fst logFormats)) <> value Combined
          <> completeWith (map fst logFormats)
          <> help "Format of a line of the access log (default: combined)"
      )

doctorOptions :: Parser DoctorOptions
doctorOptions =
  DoctorOptions
    <$> backendOption
    <*> switch (long "json" <> help "Report as JSON")

backendOption :: Parser (Maybe Backend)
backendOption =
  option
    backend
    ( long "backend" <> metavar (intercalate "|" names) <> value Nothing <> completeWith names
        <> help "I/O backend; auto takes MILLRACE_BACKEND if that is set, else the first backend that works (default: auto)"
    )
  where
    names = map fst backendChoices

backend :: ReadM (Maybe Backend)
backend = eitherReader $ \name -> maybe (Left (unknown name)) Right (lookup name backendChoices)
  where
    unknown name = "there is no backend '" <> name <> "'; choose one of: " <> intercalate ", " (map fst backendChoices)

-- | The formats of an access log, and their names.
logFormats :: [(String, LogFormat)]
logFormats = [("combined", Combined), ("json", JsonLines)]

-- | The choices for HTTP\/3, and their names.
http3Choices :: [(String, Http3)]
http3Choices = [("auto", Http3IfPossible), ("on", Http3Required), ("off", NoHttp3)]

logFormat :: ReadM LogFormat
logFormat = eitherReader $ \name -> maybe (Left (unknown name)) Right (lookup name logFormats)
  where
    unknown name = "there is no log format '" <> name <> "'; choose one of: " <> intercalate ", " (map fst logFormats)

-- A host may also be written as in a URL, with brackets, because that is how the server prints it.
host :: ReadM String
host = withoutBrackets <$> str
  where
    withoutBrackets word = case stripPrefix "[" word of
      Just rest | not (null rest), last rest == ']' -> init rest
      _ -> word

port :: ReadM PortNumber
port = fromInteger <$> numberBetween 0 65535

cores :: ReadM Int
cores = fromInteger <$> numberBetween 1 256

numberBetween :: Integer -> Integer -> ReadM Integer
numberBetween low high = eitherReader $ \word -> case readMaybe word of
  Just number | all isDigit word && number >= low && number <= high -> Right number
  _ -> Left ("'" <> word <> "' is not a number from " <> show low <> " to " <> show high)
