-- Must not know: servers.

-- | The options that a user can set, on the command line or in a configuration file.
module Millrace.Cli.Config.Options
  ( -- * Servers
    ServerOptions (..),
    usualDrainSeconds,
    ListenOptions (..),
    Speaking (..),
    ProxyHeader (..),
    Http3 (..),
    TlsOptions (..),

    -- * Files
    FilesOptions (..),
    plainFiles,

    -- * Proxies
    ProxyOptions (..),
    plainProxy,
    TargetLimits (..),
    HealthOptions (..),
    healthAt,
    HostOption (..),
    LoadBalancing (..),
  )
where

import Data.List.NonEmpty (NonEmpty (..))
import Millrace.Cli.Config.Limit (LimitOptions)
import Millrace.Cli.Files.CacheRule (CacheRule)
import Millrace.Cli.Files.Policy (Compression (..), Fallback (..), OnError (..))
import Millrace.Manager (Backend)
import Millrace.Socket (PortNumber)
import Network.Wai.Millrace.AccessLog (LogFormat (..))

-- | The options of a server.
data ServerOptions = ServerOptions
  { serverListens :: NonEmpty ListenOptions,
    -- | Whether other processes may listen on the same ports.
    serverReusePort :: Bool,
    -- | 'Nothing' is the automatic choice.
    serverBackend :: Maybe Backend,
    -- | 'Nothing': all cores, or fewer under a CPU quota.
    serverCores :: Maybe Int,
    serverAccessLog :: Maybe FilePath,
    serverLogFormat :: LogFormat,
    -- | The port of the status pages, on the loopback interface.
    serverStatusPort :: Maybe PortNumber,
    -- | 'Nothing': no address is for https.
    serverTls :: Maybe TlsOptions,
    serverLimits :: LimitOptions,
    -- | The time that open requests have to end when the server stops.
    serverDrainSeconds :: Int
  }
  deriving (Eq, Show)

-- | The usual 'serverDrainSeconds'. Longer than a usual request takes. Together with the rest of the shutdown it must
-- be shorter than service managers wait before they kill: Docker waits ten seconds.
usualDrainSeconds :: Int
usualDrainSeconds = 9

-- | An address to listen on, and the protocol there.
data ListenOptions = ListenOptions
  { listenSpeaking :: Speaking,
    listenHost :: String,
    -- | 0 takes any free port.
    listenPort :: PortNumber,
    listenProxyHeader :: ProxyHeader,
    -- | For https.
    listenHttp3 :: Http3,
    -- | The option or the key that has chosen this address, for messages.
    listenSaidBy :: String
  }
  deriving (Eq, Show)

-- | The protocol that clients must speak.
data Speaking
  = PlainHttp
  | Https
  | -- | Plain http that sends clients to https.
    RedirectToHttps
  deriving (Eq, Show)

-- | Whether each connection begins with a header in which a proxy names the client.
data ProxyHeader
  = NoProxyHeader
  | ProxyHeaderRequired
  deriving (Eq, Show)

-- | Whether HTTP\/3 is spoken on the port, too, over UDP.
data Http3
  = -- | If the program has HTTP\/3, and no other option rules it out.
    Http3IfPossible
  | -- | The server does not start without it.
    Http3Required
  | NoHttp3
  deriving (Eq, Show)

-- | The options of a server with https.
data TlsOptions = TlsOptions
  { -- | Certificates and their keys.
    tlsPairs :: [(FilePath, FilePath)],
    -- | The authorities of which clients must have a certificate.
    tlsClientAuthorities :: Maybe FilePath,
    -- | Files with keys for session tickets, shared with other servers and later runs. None: the server makes a key.
    tlsTicketKeys :: [FilePath]
  }
  deriving (Eq, Show)

-- | The files to serve, and how.
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

-- | The targets of a proxy, and how requests are passed on.
data ProxyOptions = ProxyOptions
  { proxyTargets :: [String],
    proxyHost :: HostOption,
    -- | Whether the fields Forwarded and X-Forwarded-* of clients are believed.
    proxyTrustsForwarded :: Bool,
    proxyLoadBalancing :: LoadBalancing,
    proxyConnectSeconds :: Int,
    proxyResponseSeconds :: Int,
    -- | The number of unused connections that are kept for each target.
    proxyKept :: Int,
    proxyLimits :: TargetLimits,
    -- | The health checks of targets. 'Nothing': only failed requests count.
    proxyHealth :: Maybe HealthOptions,
    -- | The authorities to trust for certificates of targets. 'Nothing': the system's.
    proxyAuthorities :: Maybe FilePath,
    -- | The directory with pages for the server's own errors.
    proxyErrorPages :: Maybe FilePath
  }
  deriving (Eq, Show)

-- | Limits for targets that only a configuration file can set.
data TargetLimits = TargetLimits
  { -- | The time for which a target may take nothing of a request.
    targetSendSeconds :: Int,
    -- | The time between two parts of a response. 'Nothing': the time that it may take to begin.
    targetStallSeconds :: Maybe Int,
    -- | The time for a request and its response together. 'Nothing': any time.
    targetTotalSeconds :: Maybe Int,
    -- | The time for which a tunnel may be silent.
    targetTunnelSeconds :: Int,
    -- | The time for which an unused connection is kept.
    targetKeepSeconds :: Int,
    -- | The number of requests that must fail in a row before a target is left out, and the time for which it is.
    targetFailures :: Int,
    targetLeftOutSeconds :: Int,
    -- | The size of a response's head.
    targetHeadBytes :: Int,
    -- | The time of silence after which a target of HTTP\/2 that has work is asked by PING.
    targetSilentSeconds :: Int
  }
  deriving (Eq, Show)

-- | Health checks of targets.
data HealthOptions = HealthOptions
  { healthPath :: String,
    healthEverySeconds :: Int,
    -- | The time that an answer may take.
    healthLimitSeconds :: Int,
    -- | The number of checks that must fail in a row before a target is left out.
    healthFailures :: Int,
    -- | The number of checks that must succeed in a row before it is used again.
    healthSuccesses :: Int
  }
  deriving (Eq, Show)

-- | The usual health checks, by this path.
healthAt :: String -> HealthOptions
healthAt path = HealthOptions path 5 2 2 2

-- | These targets with the usual options.
plainProxy :: [String] -> ProxyOptions
plainProxy targets =
  ProxyOptions
    { proxyTargets = targets,
      proxyHost = HostOfClient,
      proxyTrustsForwarded = False,
      proxyLoadBalancing = InTurn,
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

-- | The host that requests to a target name.
data HostOption
  = HostOfClient
  | HostOfTarget
  | HostAlways String
  deriving (Eq, Show)

-- | The way to choose one of several targets for a request.
data LoadBalancing
  = InTurn
  | ByLoad
  | ByClient
  | ByPath
  deriving (Eq, Show)
