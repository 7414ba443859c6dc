-- | All tests of the package.
module Main (main) where

import qualified ConnectSpec
import qualified ExchangeSpec
import qualified ProxySpec
import System.Environment (unsetEnv)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec
import TestSupport.Credentials (withCredentials)
import TestSupport.Time (limited)
import qualified TlsSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  mapM_ unsetEnv ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]
  withCredentials $ \credentials -> hspec . around_ (limited 120) $ do
    describe "connecting" ConnectSpec.spec
    describe "requests" ExchangeSpec.spec
    before (return credentials) $ do
      describe "https" TlsSpec.spec
      describe "proxies" ProxySpec.spec
