-- Must not know: servers.

-- | The command line: its commands, options and help texts.
module Millrace.Cli.Config.Command
  ( Command (..),
    DoctorOptions (..),
    SettingsFormat (..),
    readCommand,
  )
where

import Data.List (intercalate, stripPrefix)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (isJust)
import Millrace.Cli.Config.Consistency (commandLineProblem)
import Millrace.Cli.Config.Limit (limitName)
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.ServerSettings
import Millrace.Cli.Config.Setting
import Millrace.Cli.Config.SiteSettings
import Millrace.Cli.Config.Suggestion (nearest)
import Millrace.Manager (Backend, version)
import Millrace.Socket (PortNumber)
import Options.Applicative
import Options.Applicative.Common (mapParser)
import Options.Applicative.Help.Chunk (Chunk (..), paragraph, stringChunk, vcatChunks, vsepChunks)
import Options.Applicative.Help.Pretty (Doc)
import Options.Applicative.Types (Context (..), OptName (..), OptReader (..), Option (optMain))

-- | A command that the program carries out.
data Command
  = Serve FilesOptions ServerOptions
  | Proxy ProxyOptions ServerOptions
  | Pong ServerOptions
  | -- | Print the configuration file that says the same as this.
    Print Command
  | -- | Serve with this configuration file.
    Run FilePath
  | Check FilePath
  | -- | Wait for this many seconds at most.
    Reload Int FilePath
  | Doctor DoctorOptions
  | -- | Print the table of all settings.
    ShowSettings SettingsFormat
  deriving (Eq, Show)

-- | The format of the table: for people or for programs.
data SettingsFormat
  = SettingsAsText
  | SettingsAsJson
  deriving (Eq, Show)

-- | The options of 'Doctor': the backend to examine, and the format of the result.
data DoctorOptions = DoctorOptions
  { doctorBackend :: Maybe Backend,
    doctorJson :: Bool
  }
  deriving (Eq, Show)

-- | Reads the arguments of the program. A failure has the text for the user, and the exit status: 2 for wrong usage, 0
-- for help.
readCommand :: [String] -> ParserResult Command
readCommand arguments = case execParserPure preferences commandLine arguments of
  Success (Right found) -> Success found
  Success (Left problem) -> Failure (parserFailure preferences commandLine (ErrorMsg problem) contexts)
  Failure failure -> overFailure (suggesting optionNames) (Failure failure)
  CompletionInvoked completion -> CompletionInvoked completion
  where
    chosen = [(name, found) | name <- take 1 arguments, Just found <- [lookup name commands]]
    contexts = [Context name found | (name, found) <- chosen]
    optionNames = concatMap (longNames . infoParser . snd) chosen

-- Adds the option that was probably meant to the message about one that there is not. The library's own suggestions
-- leave out options that may be missing.
suggesting :: [String] -> ParserHelp -> ParserHelp
suggesting names explanation = case (unChunk (helpSuggestions explanation), unknown >>= nearest names) of
  (Nothing, Just name) -> explanation {helpSuggestions = meant name}
  _ -> explanation
  where
    unknown = takeWhile (/= '\'') <$> (unChunk (helpError explanation) >>= stripPrefix "Invalid option `--" . show)
    meant name = stringChunk ("Did you mean --" <> name <> "?")

-- The long names of all options.
longNames :: Parser a -> [String]
longNames parser = concat (mapParser (const (names . optMain)) parser ++ [["help"]])
  where
    names :: OptReader b -> [String]
    names option' = case option' of
      OptReader found _ _ -> [name | OptLong name <- found]
      FlagReader found _ -> [name | OptLong name <- found]
      _ -> []

-- Options that cannot be used together are a 'Left' that says why.
commandLine :: ParserInfo (Either String Command)
commandLine =
  info (hsubparser (foldMap (uncurry command) commands) <**> versionOption <**> helper) . mconcat $
    [ fullDesc,
      header ("millrace " <> version <> " - a web server with its own I/O manager"),
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

-- The layout of the help.
preferences :: ParserPrefs
preferences = prefs (showHelpOnEmpty <> noBacktrack <> columns 100)

commands :: [(String, ParserInfo (Either String Command))]
commands =
  [ explained
      "serve"
      (printable (serving Serve <$> onCommandLine filesSettings <*> serverOptions))
      serveNotes
      "Serve the files of a directory",
    explained
      "proxy"
      (printable (serving Proxy <$> onCommandLine proxySettings <*> serverOptions))
      proxyNotes
      "Pass requests on to other servers",
    explained
      "pong"
      (fmap Pong <$> serverOptions)
      pongNotes
      "Answer every request with 200 and the text Pong!",
    explained
      "run"
      (Right . Run <$> configurationFile)
      runNotes
      "Serve what a configuration file says: sites by name, files, proxies",
    explained
      "check"
      (Right . Check <$> configurationFile)
      checkNotes
      "Report the mistakes in a configuration file",
    explained
      "reload"
      (Right <$> (Reload <$> patience <*> configurationFile))
      reloadNotes
      "Make the running server use its changed configuration file",
    explained
      "doctor"
      (Right . Doctor <$> doctorOptions)
      doctorNotes
      "Examine this machine: kernel, limits, and which backends work",
    explained
      "settings"
      (Right . ShowSettings <$> format)
      mempty
      "List all settings: options, keys of configuration files, values, what they mean"
  ]
  where
    explained name parser notes description = (name, info parser (progDesc description <> footerDoc (unChunk notes)))
    serving make = fmap . make
    format = flag SettingsAsText SettingsAsJson (long "json" <> help "Print them as JSON")

printable :: Parser (Either String Command) -> Parser (Either String Command)
printable parser =
  flip fmap <$> parser
    <*> flag
      id
      Print
      ( long "print-config"
          <> help
            "Print the configuration file that says the same (for 'millrace run'), and exit"
      )

serveNotes :: Chunk Doc
serveNotes =
  vsepChunks
    [ examples
        [ ("millrace serve", "the current directory on http://127.0.0.1:8080"),
          ("millrace serve site --port 0", "on a free port, which the first line of output names"),
          ("millrace serve --host 0.0.0.0 ~/public", "to every machine that can reach this one"),
          ("millrace serve site --access-log access.log --status 9090", "with an access log and counters"),
          ("millrace serve dist --spa", "a single-page application"),
          ( "millrace serve site -p 443 --certificate fullchain.pem --key privkey.pem --redirect-to-https 80",
            "https, and http that leads there"
          )
        ],
      paragraph
        "A directory answers with its index.html or index.htm. A file NAME.br, NAME.zst or NAME.gz is sent \
        \instead of NAME to \
        \clients that accept the coding, unless it is more than two seconds older than NAME. Only regular files \
        \are served. Names that begin with a dot are not served, except .well-known.",
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
          ("millrace proxy 3000 --certificate chain.pem --key key.pem", "https in front of http")
        ],
      paragraph
        "A target is http://HOST[:PORT], HOST:PORT, a port of this machine, or unix:PATH, for HTTP/1.1; \
        \https://HOST[:PORT], for TLS and \
        \the version that the target chooses (ALPN); https1://, for TLS and HTTP/1.1; h2://, for TLS and \
        \HTTP/2; h2c:// or \
        \h2c+unix:PATH, for HTTP/2 without TLS. Connections are kept, and shared by many requests on HTTP/2. \
        \Bodies are streamed both ways; WebSockets and other upgrades are passed on. \
        \Targets learn of the client by Forwarded and X-Forwarded-For, -Proto and -Host, and get X-Request-Id \
        \and traceparent. A \
        \response that programs could read differently is answered with 502, one that is late with 504; a \
        \message says why.",
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
    "With --certificate and --key the server speaks https: TLS 1.2 and 1.3. Both files are PEM; the first one \
    \has the certificate and \
    \its chain. Give both options again for each further certificate: the name that a client asks for chooses. \
    \When the files change, \
    \new connections use the new certificates; SIGUSR2 has them read at once. Broken ones are reported, and the \
    \old ones stay. A file \
    \FILE.ocsp beside a certificate is its authority's OCSP answer. A file of --ticket-keys holds keys of 80 \
    \bytes, one behind \
    \another ('openssl rand 80' makes one): the first one protects new tickets, all of them open tickets. \
    \Clients then resume their \
    \sessions with every server that has the keys, also after a restart. Clients are also offered HTTP/3, on \
    \the same port over UDP, if this \
    \program has it ('millrace doctor' says so), the sockets are not inherited, and neither \
    \--client-authorities nor --proxy-protocol is given."

changing :: Chunk Doc
changing =
  paragraph $
    "--limit changes one of these: " <> intercalate ", " (map limitName [minBound ..])
      <> ". What is usual, and what each means: millrace settings."

stopping :: Chunk Doc
stopping =
  vsepChunks
    [ paragraph
        "Prints 'listening on http://HOST:PORT' when ready ('listening on unix:PATH' on an inherited Unix socket). \
        \Ctrl-C, SIGTERM, SIGQUIT or SIGHUP (a terminal that closes) makes the server finish the open requests \
        \and stop, after \
        \ten seconds at the latest (--drain-seconds and one more). A second signal stops it at once. If nobody \
        \reads the access log, the server waits two seconds for it. Under nohup, SIGHUP does nothing.",
      paragraph
        "To restart without losing a connection, let systemd hold the socket (LISTEN_FDS). Connections then \
        \wait in it for the \
        \next server, and --host and --port are ignored. Or run every server with --reuse-port: start the new \
        \server, wait until it is ready, then send SIGTERM to the old one."
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
        "If a backend is chosen by name, only that one is tried. Some sandboxes kill a program that tries \
        \io_uring: there, use --backend epoll or MILLRACE_BACKEND=epoll.",
      paragraph "Exit status: 0 if a server could start with this backend, 1 if not."
    ]

runNotes :: Chunk Doc
runNotes =
  vsepChunks
    [ examples [("millrace run /etc/millrace.yaml", "the sites of this file")],
      vcatChunks (map stringChunk ("A small file:" : map ("  " <>) smallConfiguration)),
      paragraph
        "SIGHUP has the file read again: open requests end as they began, and new ones are answered as the new \
        \file says. A file with \
        \mistakes is refused, and nothing changes. So is one that changes 'listen', 'process' or 'limits', \
        \which needs a restart.",
      paragraph
        "Prints 'listening on http://HOST:PORT' for each address when ready. Ctrl-C, SIGTERM or SIGQUIT makes \
        \the server finish the open \
        \requests and stop, after ten seconds at the latest ('drain-seconds' and one more). A second signal \
        \stops it at once.",
      paragraph
        "To restart without losing a connection, let systemd hold the sockets (LISTEN_FDS): each is listened on \
        \in the way that 'listen' \
        \has for its port. Or use 'reuse-port': start the new server, wait until it is ready, then send SIGTERM \
        \to the old one."
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
        "Also opens directories, and reads users, certificates and keys, as 'millrace run' does before it \
        \listens. So run it as the server's \
        \user. The folders of the access log and of 'pid-file' must be there, except those that a service \
        \manager makes (in /run and /var/log): for them there is a message.",
      paragraph
        "Exit status: 0 if 'millrace run' would take the file, 1 if not. Mistakes are printed as \
        \FILE:LINE:COLUMN: TEXT."
    ]

reloadNotes :: Chunk Doc
reloadNotes =
  vsepChunks
    [ examples [("millrace reload /etc/millrace.yaml", "says whether the server that runs with the file takes it")],
      paragraph
        "The server is asked by the socket beside 'pid-file' in the file's 'process', so run it as the server's \
        \user, or as root. Without \
        \'pid-file', send SIGHUP to the server: its messages then say the outcome. Changes of 'listen', \
        \'process' and 'limits' need a restart.",
      paragraph
        "Exit status: 0 if the server answers new requests as the file says, 1 if not; then the reasons are printed."
    ]

patience :: Parser Int
patience =
  option
    (eitherReader (formArgument (numberFrom 1 3600 "SECONDS")))
    ( long "timeout" <> metavar "SECONDS" <> value 60 <> showDefault
        <> help
          "How long to wait for the server's answer"
    )

configurationFile :: Parser FilePath
configurationFile = strArgument (metavar "FILE" <> action "file" <> help "Configuration file, in YAML")

-- Commands and what they do, in two columns.
examples :: [(String, String)] -> Chunk Doc
examples entries = vcatChunks (map stringChunk ("Examples:" : map example entries))
  where
    example (invocation, meaning) = "  " <> invocation <> replicate (width - length invocation) ' ' <> "  " <> meaning
    width = maximum (map (length . fst) entries)

-- The options that every server has.
serverOptions :: Parser (Either String ServerOptions)
serverOptions =
  gathered
    <$> onCommandLine addressSettings
    <*> onCommandLine processSettings
    <*> onCommandLine listenSettings
    <*> onCommandLine limitSettings
    <*> secureOptions
  where
    gathered (name, number) process proxyHeader limits secured = do
      secure <- secured
      let speaking = if null (tlsPairs (secureTls secure)) then PlainHttp else Https
          listened = ListenOptions speaking name number proxyHeader (secureHttp3 secure) "--port"
          redirect other = ListenOptions RedirectToHttps name other NoProxyHeader Http3IfPossible "--redirect-to-https"
          tls = if speaking == Https then Just (secureTls secure) else Nothing
          options = process (listened :| foldMap (pure . redirect) (secureRedirect secure)) tls limits
      maybe (Right options) Left (commandLineProblem options)

-- The options that have no meaning without a certificate.
data SecureOptions = SecureOptions
  { secureTls :: TlsOptions,
    secureHttp3 :: Http3,
    -- The port of the server that sends clients to https.
    secureRedirect :: Maybe PortNumber
  }

-- Without certificates, all of them must have their usual values.
secureOptions :: Parser (Either String SecureOptions)
secureOptions =
  gathered
    <$> many (onCommandLine certificateSetting)
    <*> many (onCommandLine keySetting)
    <*> onCommandLine tlsSettings
    <*> onCommandLine http3Setting
    <*> onCommandLine redirectSetting
  where
    gathered certificates keys (authorities, ticketKeys) http3 redirect
      | length certificates > length keys = Left "each --certificate needs a --key"
      | length certificates < length keys = Left "each --key needs a --certificate"
      | null certificates, name : _ <- given = Left (name <> " needs --certificate and --key")
      | otherwise = Right (SecureOptions (TlsOptions (zip certificates keys) authorities ticketKeys) http3 redirect)
      where
        given =
          ["--client-authorities" | isJust authorities]
            <> ["--ticket-keys" | not (null ticketKeys)]
            <> ["--http3" | http3 /= Http3IfPossible]
            <> ["--redirect-to-https" | isJust redirect]

doctorOptions :: Parser DoctorOptions
doctorOptions = DoctorOptions <$> onCommandLine (backendSetting doctorBackend) <*> jsonOption

jsonOption :: Parser Bool
jsonOption = switch (long "json" <> help "Report as JSON")
