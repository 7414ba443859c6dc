-- Must not know: servers, files.

-- | Writes a configuration as the text of a file.
module Millrace.Cli.Config.ConfigurationText
  ( renderConfiguration,
  )
where

import Data.Foldable (toList)
import Data.List (find)
import Millrace.Cli.Base.Address (authority)
import Millrace.Cli.Base.NameBytes (isForeignByte)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.ServerSettings
import Millrace.Cli.Config.Setting (written)
import Millrace.Cli.Config.SiteSettings
import Millrace.Cli.Config.YamlText

-- | Writes a configuration as text, which 'readConfiguration' reads back. It also writes keys that have their usual
-- value, so that the text shows what can be changed. 'Left' is a name that is not UTF-8: YAML cannot express it.
renderConfiguration :: Configuration -> Either String String
renderConfiguration found = maybe (Right (unlines (rendered whole))) Left (find (any isForeignByte) (texts whole))
  where
    whole =
      Keys $
        [("listen", Items (map listen (toList (serverListens server))))]
          ++ foldMap tls (serverTls server)
          ++ [("process", Keys (written processSettings server ++ written pidFileSetting (configurationPidFile found)))]
          ++ section "limits" (written limitSettings (serverLimits server))
          ++ [("sites", Items (map site (configurationSites found)))]
    server = configurationServer found

listen :: ListenOptions -> Value
listen found = Keys ([(key, Text address)] ++ written listenSettings found ++ written http3Setting found)
  where
    key = case listenSpeaking found of
      PlainHttp -> "http"
      Https -> "https"
      RedirectToHttps -> "redirect-to-https"
    address = authority (listenHost found) (listenPort found)

tls :: TlsOptions -> [(String, Value)]
tls options =
  ("certificates", Items (map (Keys . written certificateSettings) (tlsPairs options))) :
  section
    "tls"
    (written tlsSettings options)

-- A section without keys is left out.
section :: String -> [(String, Value)] -> [(String, Value)]
section name keys = [(name, Keys keys) | not (null keys)]

site :: SiteOptions -> Value
site found =
  Keys $
    [("hosts", Items (map (Text . showHost) (siteHosts found)))]
      ++ written policySettings (sitePolicy found)
      ++ [("routes", Items (map route (siteRoutes found)))]

route :: RouteOptions -> Value
route found =
  Keys
    ( [("path", Text (showPath (routePath found)))]
        ++ written policySettings (routePolicy found)
        ++ [action (routeAction found)]
    )

action :: Action -> (String, Value)
action found = case found of
  ServeFiles options -> ("files", Keys (written filesSettings options))
  PassOn options -> ("proxy", Keys (written proxySettings options))
  RedirectTo target -> ("redirect", Text target)
