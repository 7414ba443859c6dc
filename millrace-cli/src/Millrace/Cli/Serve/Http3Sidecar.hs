{-# LANGUAGE LambdaCase #-}

-- Must not know: files.

-- | Starts servers of HTTP\/3 beside servers of https, and tells the user about them.
module Millrace.Cli.Serve.Http3Sidecar
  ( Service (..),
    Origin (..),
    withHttp3Sidecars,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (throwIO)
import Control.Monad (unless)
import Millrace.Cli.Base.Failure (Failure (..), tell)
import Millrace.Cli.Config.Options
  ( Http3 (..),
    ListenOptions (..),
    ProxyHeader (..),
    ServerOptions (..),
    Speaking (..),
    TlsOptions (..),
  )
import Millrace.Cli.Serve.Http3
import Millrace.Cli.Serve.Http3.Server (Http3Server (..))
import Millrace.Cli.Serve.Tls (Tls (..))
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Listener, Settings)

-- | A server that is ready to run.
data Service = Service
  { serviceListen :: ListenOptions,
    serviceOrigin :: Origin,
    serviceListeners :: [Listener],
    serviceSettings :: Settings,
    serviceApplication :: Application
  }

-- | The origin of listening sockets.
data Origin
  = OpenedHere
  | -- | The program that started this one has opened them. This one may be in another network namespace, where clients
    -- cannot reach a socket that it opens itself: services of systemd with @PrivateNetwork@ are.
    Inherited
  deriving (Eq, Show)

-- | Runs an action with these servers, those of https with HTTP\/3 beside them where the options want it. Throws
-- 'Failure' if they demand it and it is not possible.
withHttp3Sidecars :: ServerOptions -> Maybe Tls -> [Service] -> ([Service] -> IO a) -> IO a
withHttp3Sidecars options protection = go []
  where
    go done [] use = use (reverse done)
    go done (service : others) use = case (serverTls options, protection) of
      (Just chosen, Just tls) | isWanted -> maybe (speaking chosen tls) without (obstacle chosen endpoint)
      _ -> continue service
      where
        endpoint = serviceListen service
        isWanted =
          listenSpeaking endpoint == Https
            && (isRequired || listenHttp3 endpoint == Http3IfPossible && serviceOrigin service == OpenedHere)
        isRequired = listenHttp3 endpoint == Http3Required
        continue ready = go (ready : done) others use
        without reason = if isRequired then throwIO reason else continue service
        speaking chosen tls =
          withHttp3 chosen (serviceSettings service) (serviceListeners service) (serviceApplication service) $ \case
            Right http3 -> do
              alsoFor tls (http3Certificates http3)
              continue
                service
                  { serviceSettings =
                      besideHttp3 http3 (serviceSettings service),
                    serviceApplication = announcingHttp3 http3 (serviceApplication service)
                  }
            Left failure -> do
              unless isRequired (tell ("millrace: https without HTTP/3: " <> failureReason failure))
              without failure

-- The reason why HTTP\/3 cannot be spoken here, if there is one. HTTP\/3 is then left out silently, unless the user
-- demands it.
obstacle :: TlsOptions -> ListenOptions -> Maybe Failure
obstacle tls endpoint = either Just (const Nothing) http3Libraries <|> clients <|> header
  where
    clients =
      ( "clients must show certificates, and HTTP/3 asks for none"
          `because` "--client-authorities ('client-authorities')"
      )
        <$ tlsClientAuthorities tls
    header
      | listenProxyHeader endpoint == ProxyHeaderRequired =
        Just ("the header of a proxy is for connections of TCP" `because` "--proxy-protocol ('proxy-protocol')")
      | otherwise = Nothing
    because reason other =
      Failure "speak HTTP/3" reason ("Leave out '--http3 on' ('http3: on' in a configuration), or " <> other <> ".")
