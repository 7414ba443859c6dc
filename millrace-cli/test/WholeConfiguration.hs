-- | Configurations for tests: the usual one, and one with every key.
module WholeConfiguration
  ( usual,
    listening,
    files,
    every,
    everything,
  )
where

import Data.List.NonEmpty (NonEmpty (..))
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Limit
import Millrace.Cli.Config.Options
import Millrace.Cli.Files.CacheRule (cacheRule)
import Millrace.Cli.Files.Policy
import Millrace.Cli.Middleware.CrossOrigin
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Manager (Backend (..))
import Network.Wai.Millrace.AccessLog (LogFormat (..))
import UsualOptions

-- | A configuration without sites. All else has its usual value.
usual :: Configuration
usual =
  Configuration
    { configurationServer = usualServer (listening PlainHttp "127.0.0.1" 8080),
      configurationPidFile = Nothing,
      configurationSites = []
    }

-- | An address in a file.
listening :: Speaking -> String -> Int -> ListenOptions
listening speaking host port =
  ListenOptions speaking host (fromIntegral port) NoProxyHeader Http3IfPossible "'listen' in the configuration file"

-- | A route that serves a directory.
files :: [String] -> FilePath -> RouteOptions
files path directory = RouteOptions path plainPolicy (ServeFiles (usualFiles directory))

-- | The lines of a file that has every key.
every :: [String]
every =
  [ "listen:",
    "  - {https: '[::]:443', proxy-protocol: true, http3: off}",
    "  - redirect-to-https: 0.0.0.0:80",
    "  - http: 8080",
    "certificates:",
    "  - {certificate: a.pem, key: a.key}",
    "  - {certificate: b.pem, key: b.key}",
    "tls: {client-authorities: ca.pem, ticket-keys: t}",
    "process: {backend: epoll, cores: 2, reuse-port: true, access-log: l, log-format: json, status: 9090, \
    \drain-seconds: 30, pid-file: p}",
    "limits: {connections: 1, reserved-descriptors: 20, head-bytes: 2000, url-bytes: 40, fields: 3, body-bytes: 4, \
    \head-seconds: 5, body-seconds: 6, send-seconds: 7, idle-seconds: 8, total-seconds: 9, \
    \bytes-per-second: 17, rate-seconds: 18, streams: 10, resets: 11, \
    \resets-per-second: 12, useless-frames: 13, useless-frames-per-second: 14, stream-window-bytes: 65536, \
    \connection-window-bytes: 65537, largest-window-bytes: 65538, compression-table-bytes: 19}",
    "sites:",
    "  - hosts: [a.org, '*.a.org', '[::1]']",
    "    headers: {X: y, Z: 1}",
    "    security-headers: true",
    "    cors: {origins: ['https://a', 'http://b:80'], methods: PUT, headers: [X-A, X-B], expose: X-C, credentials: \
    \true, max-age-seconds: 5}",
    "    users: {file: u, realm: r s}",
    "    files: {directory: d, follow-links: true, listing: true, cache-seconds: 0, spa: true, error-pages: true, \
    \compress: true, cache-control: {/: no-cache, '*.css': max-age=60}}",
    "    routes:",
    "      - path: /api/v1",
    "        headers: {Q: r}",
    "        cors: '*'",
    "        users: v",
    "        proxy: {targets: [3000, 'unix:/s'], host-field: target, trust-forwarded: true, balance: load, \
    \connect-seconds: 1, response-seconds: 2, keep: 3, target-authorities: c, error-pages: e,",
    "          send-seconds: 4, stall-seconds: 5, total-seconds: 6, tunnel-seconds: 7, keep-seconds: 8, failures: 9, \
    \left-out-seconds: 10, head-bytes: 1100, silent-seconds: 12,",
    "          health: {path: /up, every-seconds: 13, limit-seconds: 14, failures: 15, successes: 16}}",
    "      - path: /old",
    "        redirect: https://new.example/x/",
    "  - files: e"
  ]

-- | What 'every' says.
everything :: Configuration
everything =
  Configuration
    { configurationServer = everyServer,
      configurationPidFile = Just "p",
      configurationSites =
        [ SiteOptions
            { siteHosts = [ExactHost "a.org", HostsBelow "a.org", ExactHost "[::1]"],
              sitePolicy =
                SitePolicy
                  { policyHeaders = [("X", "y"), ("Z", "1")],
                    policySecurity = UsualSecurityHeaders,
                    policySharing =
                      Just
                        CrossOrigin
                          { crossOrigins = TheseOrigins ["https://a", "http://b:80"],
                            crossMethods = ["PUT"],
                            crossFields = ["X-A", "X-B"],
                            crossExposed = ["X-C"],
                            crossCredentials = True,
                            crossSeconds = 5
                          },
                    policyUsers = Just (UsersOptions "u" "r s")
                  },
              siteRoutes =
                [ RouteOptions
                    { routePath = ["api", "v1"],
                      routePolicy =
                        SitePolicy
                          { policyHeaders = [("Q", "r")],
                            policySecurity = NoSecurityHeaders,
                            policySharing = Just (CrossOrigin AnyOrigin [] [] [] False 600),
                            policyUsers = Just (UsersOptions "v" "this site")
                          },
                      routeAction = PassOn everyProxy
                    },
                  RouteOptions ["old"] plainPolicy (RedirectTo "https://new.example/x"),
                  RouteOptions [] plainPolicy (ServeFiles everyFiles)
                ]
            },
          SiteOptions [AnyHost] plainPolicy [files [] "e"]
        ]
    }

everyServer :: ServerOptions
everyServer =
  ServerOptions
    { serverListens =
        (listening Https "::" 443) {listenProxyHeader = ProxyHeaderRequired, listenHttp3 = NoHttp3}
          :| [listening RedirectToHttps "0.0.0.0" 80, listening PlainHttp "127.0.0.1" 8080],
      serverReusePort = True,
      serverBackend = Just Epoll,
      serverCores = Just 2,
      serverAccessLog = Just "l",
      serverLogFormat = JsonLines,
      serverStatusPort = Just 9090,
      serverTls = Just (TlsOptions [("a.pem", "a.key"), ("b.pem", "b.key")] (Just "ca.pem") ["t"]),
      serverLimits = limitsFrom (zip [minBound ..] everyLimit),
      serverDrainSeconds = 30
    }
  where
    everyLimit = [1, 20, 2000, 40, 3, 4, 5, 6, 7, 8, 9, 17, 18, 10, 11, 12, 13, 14, 65536, 65537, 65538, 19]

everyProxy :: ProxyOptions
everyProxy =
  ProxyOptions
    { proxyTargets = ["3000", "unix:/s"],
      proxyHost = HostOfTarget,
      proxyTrustsForwarded = True,
      proxyLoadBalancing = ByLoad,
      proxyConnectSeconds = 1,
      proxyResponseSeconds = 2,
      proxyKept = 3,
      proxyLimits =
        TargetLimits
          { targetSendSeconds = 4,
            targetStallSeconds = Just 5,
            targetTotalSeconds = Just 6,
            targetTunnelSeconds = 7,
            targetKeepSeconds = 8,
            targetFailures = 9,
            targetLeftOutSeconds = 10,
            targetHeadBytes = 1100,
            targetSilentSeconds = 12
          },
      proxyHealth =
        Just
          HealthOptions
            { healthPath = "/up",
              healthEverySeconds = 13,
              healthLimitSeconds = 14,
              healthFailures = 15,
              healthSuccesses = 16
            },
      proxyAuthorities = Just "c",
      proxyErrorPages = Just "e"
    }

everyFiles :: FilesOptions
everyFiles =
  FilesOptions
    { filesDirectory = "d",
      filesFollowLinks = True,
      filesListing = True,
      filesCacheSeconds = 0,
      filesFallback = SinglePage,
      filesOnError = PageOfSite,
      filesCompression = CompressOnTheWay,
      filesCacheRules = [rule | Right rule <- [cacheRule "/" "no-cache", cacheRule "*.css" "max-age=60"]]
    }
