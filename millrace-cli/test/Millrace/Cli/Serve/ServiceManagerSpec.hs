{-# LANGUAGE OverloadedStrings #-}

-- | The messages for a service manager: the test listens on the socket that systemd would have.
module Millrace.Cli.Serve.ServiceManagerSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.Serve.ServiceManager
import Network.Socket
import Network.Socket.ByteString (recv)
import Program
import Site
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigTERM)
import Test.Hspec

spec :: Spec
spec = do
  it "is told where the server listens, when it is ready, and then that it stops" . withManager $ \manager name ->
    withNotifying ["NOTIFY_SOCKET=" <> name] $ \server -> do
      message manager `shouldReturn` ("READY=1\nSTATUS=listening on " <> Char8.pack (serverUrl server))
      curl [serverUrl server] `shouldReturn` "Pong!"
      stopped server
      message manager `shouldReturn` "STOPPING=1\nSTATUS=finishing the open requests"
  it "may have a name that is in no file system" $ do
    name <- ("millrace-cli-notify-" <>) . show <$> getProcessID
    withSocketAt (SockAddrUnix ('\0' : name)) $ \manager ->
      withNotifying ["NOTIFY_SOCKET=@" <> name] $ \_ -> Char8.take 8 <$> message manager `shouldReturn` "READY=1\n"
  it "gets signs of life if it wants some" . withManager $ \manager name ->
    withNotifying ["NOTIFY_SOCKET=" <> name, "WATCHDOG_USEC=200000"] $ \_ -> do
      Char8.take 8 <$> nextButLife manager `shouldReturn` "READY=1\n"
      replicateM_ 3 (message manager `shouldReturn` "WATCHDOG=1")
  it "is not needed: without it the server says why, and serves" . withDirectory $ \directory ->
    withNotifying ["NOTIFY_SOCKET=" <> (directory </> "missing")] $ \server -> do
      nextErrorLine server >>= (`shouldStartWith` "millrace: cannot tell the service manager READY=1: ")
      curl [serverUrl server] `shouldReturn` "Pong!"
  it "wants a sign of life twice in the time that it waits" $ do
    map watchdogInterval ["3000000", "2", "1", "", "0", "-4", "soon", "99999999999999999999"]
      `shouldBe` [Just 1500000, Just 1, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing]

-- | The server, with additions to its environment.
withNotifying :: [String] -> (Server -> IO a) -> IO a
withNotifying additions use = do
  path <- millracePath
  withCommand "env" (additions ++ [path, "pong", "--port", "0"]) use

-- | The socket of a service manager, and its path.
withManager :: (Socket -> String -> IO a) -> IO a
withManager use = withDirectory $ \directory ->
  let path = directory </> "notify" in withSocketAt (SockAddrUnix path) (`use` path)

withSocketAt :: SockAddr -> (Socket -> IO a) -> IO a
withSocketAt address use =
  bracket (socket AF_UNIX Datagram defaultProtocol) close $ \manager -> bind manager address >> use manager

message :: Socket -> IO ByteString
message manager = within 20 "a message to the service manager" (recv manager 1000)

-- | The server may have begun to give signs of life before it was ready.
nextButLife :: Socket -> IO ByteString
nextButLife manager = message manager >>= \text -> if text == "WATCHDOG=1" then nextButLife manager else pure text

stopped :: Server -> IO ()
stopped server = do
  signalServer sigTERM server
  waitForExit 30 server `shouldReturn` ExitSuccess
