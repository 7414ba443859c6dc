-- Must not know: files.

-- | Makes a reverse proxy ("Millrace.Proxy") from the command's options.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Serve.ReverseProxy
  ( withReverseProxy,
    failureResponse,
    isOfLeavingClient,
  )
where

import Control.Exception (SomeException, catch, fromException, throwIO)
import Control.Monad (unless, void, when)
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (fromMaybe, isJust)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure (Failure (..), FileFailure (..), fileReason, newSeldomTeller, reasonOf, tell)
import Millrace.Cli.Base.Refusal (asRefusal)
import Millrace.Cli.Base.RequestName (requestName)
import Millrace.Cli.Config.Options
  ( HealthOptions (..),
    HostOption (..),
    LoadBalancing (..),
    ProxyOptions (..),
    TargetLimits (..),
  )
import Millrace.Cli.Observe.Upstream
import Millrace.Deadline (seconds, unlimited)
import Millrace.Proxy
import Millrace.Tls
  ( ClientSettings (..),
    Pem (..),
    SettingsError (..),
    Verification (..),
    clientSettings,
    newClientContext,
    settingsSource,
    trustIn,
  )
import Network.Wai (Application, Request, Response, rawPathInfo)

-- | Runs an action with the proxy's application. Meanwhile its targets are among the 'Upstreams'. The function adapts
-- the responses to requests that cannot be passed on. Throws 'Failure' for a text that is not a target, and
-- 'FileFailure' for certificates that cannot be used.
withReverseProxy :: Upstreams -> (Response -> IO Response) -> ProxyOptions -> (Application -> IO a) -> IO a
withReverseProxy upstreams adapt options use = do
  targets <- mapM (either (throwIO . noTarget) return . parsed) (proxyTargets options)
  telling <- newSeldomTeller
  let responding _ problem = adapt (asRefusal (problemResponse problem))
      settings = (settingsOf options telling) {respondToProblem = responding}
  -- Certificates that cannot be used are reported even if no target needs them.
  when (isJust (proxyAuthorities options)) (void (newClientContext (tlsSettings settings)) `catch` refuse)
  withWatchedProxy settings targets $ \application states ->
    withUpstreams upstreams (map upstreamOf <$> states) (use application)
  where
    parsed text = either (\reason -> Left (text, reason)) Right (parseTarget text)
    noTarget (text, reason) =
      Failure
        { failureAttempt = "pass requests on to '" <> text <> "'",
          failureReason = reason,
          failureRemedy = "Give http://HOST:PORT, https://HOST, h2c://HOST:PORT, a port of this machine, or unix:PATH."
        }

-- | The answer to a request that an exception has ended. If a target has caused that, the status says so (502 to 504).
failureResponse :: SomeException -> Response
failureResponse = asRefusal . onExceptionResponse

-- | Whether the client itself has ended the request that an exception has ended. Such an exception is not reported.
isOfLeavingClient :: SomeException -> Bool
isOfLeavingClient failure = (problemCause <$> fromException failure) == Just ClientLeft

upstreamOf :: TargetState -> Upstream
upstreamOf state =
  Upstream
    { upstreamTarget = showTarget (stateTarget state),
      upstreamHealth = case stateHealth state of
        Well -> UpstreamWell
        ChecksFailed -> UpstreamChecksFailed
        RequestsFailed -> UpstreamRequestsFailed,
      upstreamRequests = stateRequests state,
      upstreamKept = stateKept state
    }

settingsOf :: ProxyOptions -> (String -> IO ()) -> Settings
settingsOf options telling =
  defaultSettings
    { hostField = case proxyHost options of
        HostOfClient -> KeepHost
        HostOfTarget -> TargetHost
        HostAlways name -> FixedHost (Char8.pack name),
      forwarding = if proxyTrustsForwarded options then AppendForwarded else ReplaceForwarded,
      balancing = case proxyLoadBalancing options of
        InTurn -> RoundRobin
        ByLoad -> LeastConnections
        ByClient -> HashOf byClient
        ByPath -> HashOf rawPathInfo,
      limits =
        defaultLimits
          { connectLimit = seconds (proxyConnectSeconds options),
            firstByteLimit = seconds (proxyResponseSeconds options),
            betweenBytesLimit = seconds (fromMaybe (proxyResponseSeconds options) (targetStallSeconds limited)),
            sendLimit = seconds (targetSendSeconds limited),
            wholeLimit = maybe unlimited seconds (targetTotalSeconds limited),
            tunnelLimit = seconds (targetTunnelSeconds limited),
            keptConnections = proxyKept options,
            keepLimit = seconds (targetKeepSeconds limited),
            failuresMax = targetFailures limited,
            leftOutFor = seconds (targetLeftOutSeconds limited),
            headBytesMax = targetHeadBytes limited,
            silenceLimit = seconds (targetSilentSeconds limited)
          },
      tlsSettings =
        clientSettings
          { clientVerification = case proxyAuthorities options of
              Just file -> Verify (trustIn (PemFile file))
              Nothing -> clientVerification clientSettings
          },
      activeCheck = checkOf <$> proxyHealth options,
      onProblem = sayProblem telling,
      onHealth =
        \target -> tell . (("millrace: " <> showTarget target) <>) . maybe " is well again" (" is left out: " <>)
    }
  where
    limited = proxyLimits options
    checkOf chosen =
      defaultActiveCheck
        { checkPath = Char8.pack (healthPath chosen),
          checkInterval = seconds (healthEverySeconds chosen),
          checkLimit = seconds (healthLimitSeconds chosen),
          checkFailures = healthFailures chosen,
          checkSuccesses = healthSuccesses chosen
        }

-- Reports a problem with a request. A client that has closed its connection is none.
sayProblem :: (String -> IO ()) -> Request -> Problem -> IO ()
sayProblem telling request problem =
  unless (problemCause problem == ClientLeft) . telling $
    "millrace: " <> requestName request <> ": " <> describeProblem problem <> remedy
  where
    remedy = case problemCause problem of
      NotTrusted _ -> " 'target-authorities' takes the certificates of those that are trusted."
      _ -> ""

refuse :: SomeException -> IO ()
refuse reason = case (fromException reason :: Maybe SettingsError, fromException reason :: Maybe IOException) of
  (Just problem, _) -> throwIO (unusable (settingsSource problem) ("use " <> settingsSource problem) (reasonOf reason))
  (_, Just failure) ->
    throwIO (unusable (fromMaybe "" (ioe_filename failure)) "read the certificates" (fileReason failure))
  _ -> throwIO reason
  where
    unusable file attempt text =
      FileFailure
        ["target-authorities"]
        file
        Failure
          { failureAttempt = attempt,
            failureReason = text,
            failureRemedy =
              "'target-authorities' takes the certificates of authorities, in PEM. Without it the system's are used."
          }
