-- | Servers for tests, from Warp's interface.
module Network.Wai.Handler.Warp.WithApplication (testWithApplication, withApplication) where

import Network.Wai.Handler.Warp (testWithApplication, withApplication)
