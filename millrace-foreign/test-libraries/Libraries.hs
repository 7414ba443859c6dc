-- | libcurl, libpq, hiredis and the resolver, called by 'Millrace.Foreign.fiberCall' on two carriers.
--
-- If the servers do not run, it starts them, and then itself again.
module Main (main) where

import qualified CurlSpec
import Millrace.Foreign (startCarriers)
import qualified NameSpec
import qualified PostgresqlSpec
import qualified RedisSpec
import System.Environment (getArgs, getExecutablePath, lookupEnv, withArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Posix.Resource
import System.Process (callProcess)
import Test.Hspec (hspec)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  arguments <- getArgs
  hasServers <- lookupEnv "MILLRACE_TEST_REDIS_PORT"
  case hasServers of
    Nothing -> do
      self <- getExecutablePath
      callProcess "fiber/test/libraries/run" (self : "" : arguments)
    Just _ -> do
      setResourceLimit ResourceOpenFiles . (\limits -> limits {softLimit = hardLimit limits})
        =<< getResourceLimit ResourceOpenFiles
      startCarriers 2
      withArgs arguments $
        hspec $ do
          CurlSpec.spec
          PostgresqlSpec.spec
          RedisSpec.spec
          NameSpec.spec
