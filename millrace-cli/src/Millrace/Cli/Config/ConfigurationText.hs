-- | Writes a configuration as the text of a file. Must not know: servers, files.
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

-- | The text of a file that says this ('readConfiguration' reads it back). Also has the keys whose value is the usual
-- one, because the text shows what there is to change. 'Left' a name that is not UTF-8: YAML has no way to write it.
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
listen place = Keys ([(key, Text address)] ++ written listenSettings place ++ written http3Setting place)
  where
    key = case listenSpeaking place of
      PlainHttp -> "http"
      Https -> "https"
      RedirectToHttps -> "redirect-to-https"
    address = authority (listenHost place) (listenPort place)

tls :: TlsOptions -> [(String, Value)]
tls options =
  ("certificates", Items (map (Keys . written certificateSettings) (tlsPairs options))) :
  section
    "tls"
    (written tlsSettings options)

-- Without keys it is left out.
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
