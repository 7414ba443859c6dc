-- | Options with the usual values, spelt out: tests compare them with what the command's parsers and records give.
module UsualOptions
  ( usualServer,
    usualProxy,
    usualFiles,
    usualHealth,
  )
where

import Millrace.Cli.Config.Limit (noLimitOptions)
import Millrace.Cli.Config.Options
import Millrace.Cli.Files.Policy (Compression (..), Fallback (..), OnError (..))
import Network.Wai.Millrace.AccessLog (LogFormat (..))

-- | A server that listens on this address.
usualServer :: ListenOptions -> ServerOptions
usualServer listened =
  ServerOptions
    { serverListens = pure listened,
      serverReusePort = False,
      serverBackend = Nothing,
      serverCores = Nothing,
      serverAccessLog = Nothing,
      serverLogFormat = Combined,
      serverStatusPort = Nothing,
      serverTls = Nothing,
      serverLimits = noLimitOptions,
      serverDrainSeconds = 9
    }

-- | A proxy for these targets.
usualProxy :: [String] -> ProxyOptions
usualProxy targets =
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

-- | The files of a directory.
usualFiles :: FilePath -> FilesOptions
usualFiles directory =
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

-- | Checks by this path.
usualHealth :: String -> HealthOptions
usualHealth path =
  HealthOptions
    { healthPath = path,
      healthEverySeconds = 5,
      healthLimitSeconds = 2,
      healthFailures = 2,
      healthSuccesses = 2
    }
