-- | What a user can choose, whether on the command line or in a configuration file. Must not know: servers.
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
    Spread (..),
  )
where

import Data.List.NonEmpty (NonEmpty (..))
import Millrace.Cli.Config.Limit (LimitOptions)
import Millrace.Cli.Files.CacheRule (CacheRule)
import Millrace.Cli.Files.Policy (Compression (..), Fallback (..), OnError (..))
import Millrace.Cli.Observe.AccessLog (LogFormat (..))
import Millrace.Manager (Backend)
import Millrace.Socket (PortNumber)

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

-- | Longer than a usual request takes. Together with the rest of the shutdown it must be shorter than service managers
-- wait before they kill: Docker waits ten seconds.
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
