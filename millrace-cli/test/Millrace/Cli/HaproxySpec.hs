{-# LANGUAGE OverloadedStrings #-}

-- | Three servers behind HAProxy, with the files of @examples\/behind-haproxy@.
module Millrace.Cli.HaproxySpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.Text as Text
import qualified Data.Text.IO as Text
import Load
import qualified Network.Socket as Network
import Program
import Site (withDirectory, write)
import System.Directory (findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM)
import System.Process
import Test.Hspec

spec :: Spec
spec =
  it "loses no request while three servers behind HAProxy are upgraded one by one, and knows the clients" $ do
    installed <- findExecutable "haproxy"
    maybe (pendingWith "haproxy is not installed: scripts/install-packages test cli") withHaproxy installed

withHaproxy :: FilePath -> Expectation
withHaproxy haproxy = withDirectory $ \folder -> withPorts 1 $ \fronts -> withPorts 3 $ \backs ->
  forM_ fronts $ \front -> do
    write folder "site/index.html" "Pong!"
    Text.writeFile (folder </> "haproxy.cfg")
      . replacing
        ( (":80\n", "127.0.0.1:" <> show front <> "\n") :
            [("127.0.0.1:800" <> show number, "127.0.0.1:" <> show port) | (number, port) <- zip [1 :: Int ..] backs]
        )
      =<< readFile (examples </> "haproxy.cfg")
    configuration <- readFile (examples </> "millrace.yaml")
    forM_ backs $ \port ->
      Text.writeFile
        (folder </> show port)
        ( replacing
            [ ("127.0.0.1:8001", "127.0.0.1:" <> show port),
              ("/var/log/millrace/access.log", folder </> "access.log"),
              ("/srv/example", folder </> "site"),
              ("process:\n", "process:\n  cores: 1\n  reuse-port: true\n")
            ]
            configuration
        )
    let start port = withServer ["run", folder </> show port]
        startAll [] use = use []
        startAll (port : others) use = start port $ \server -> startAll others (use . ((port, server) :))
    startAll backs $ \servers ->
      bracket
        (spawnProcess haproxy ["-q", "-db", "-f", folder </> "haproxy.cfg"])
        (\process -> terminateProcess process >> waitForProcess process)
        $ \_ ->
          do
            let url = "http://127.0.0.1:" <> show front <> "/"
            curl ["--retry", "10", "--retry-connrefused", "--retry-delay", "1", "--interface", "127.0.0.2", url]
              `shouldReturn` "Pong!"
            outcome <- underLoad front $ \endOfLoad -> upgraded start servers endOfLoad
            nothingIsLost outcome
    eventually
      "the client's address in the log"
      (any ("127.0.0.2 " `Char8.isPrefixOf`) . Char8.lines <$> Char8.readFile (folder </> "access.log"))
  where
    examples = "../examples/behind-haproxy"
    replacing pairs text =
      foldl (\result (from, to) -> Text.replace (Text.pack from) (Text.pack to) result) (Text.pack text) pairs

-- Stops each server, and starts the next version at its address.
upgraded :: (Int -> (Server -> IO a) -> IO a) -> [(Int, Server)] -> IO a -> IO a
upgraded _ [] end = end
upgraded start ((port, server) : others) end = do
  signalServer sigTERM server
  waitForExit 30 server `shouldReturn` ExitSuccess
  -- The upgrade takes a while, in which nobody listens.
  threadDelay 1000000
  start port $ \_ -> do
    -- HAProxy uses it again after a check.
    threadDelay 1500000
    upgraded start others end

-- | Ports that nobody else gets meanwhile, for servers that share them. HAProxy shares its own, too.
withPorts :: Int -> ([Int] -> IO a) -> IO a
withPorts count use = go count []
  where
    go 0 ports = use ports
    go left ports = bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \reserving -> do
      Network.setSocketOption reserving Network.ReusePort 1
      Network.bind reserving (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
      port <- Network.socketPort reserving
      go (left - 1) (fromIntegral port : ports)
