-- | All tests of the package.
module Main (main) where

import qualified ConnectSpec
import qualified ExchangeSpec
import qualified ProxySpec
import Support (withCredentials)
import System.Environment (unsetEnv)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec
import qualified TlsSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  mapM_ unsetEnv ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]
  withCredentials $ \credentials -> hspec . around_ limited $ do
    describe "connecting" ConnectSpec.spec
    describe "requests" ExchangeSpec.spec
    before (return credentials) $ do
      describe "https" TlsSpec.spec
      describe "proxies" ProxySpec.spec

-- A test that hangs fails, so that its name is printed.
limited :: IO () -> IO ()
limited test = timeout 120000000 test >>= maybe (expectationFailure "the test took longer than 120 s") return
