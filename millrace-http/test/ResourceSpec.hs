{-# LANGUAGE OverloadedStrings #-}

-- | Too few descriptors, too many slow clients, files that shrink, and sockets that come from elsewhere. Servers with
-- limits of their own are this program, started again.
module ResourceSpec (spec, serveInherited, isServer) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (IOException, bracket, finally, try)
import Control.Monad (forever, replicateM)
import qualified Data.ByteString as B
import Data.List (sort)
import Data.Maybe (isJust)
import GHC.Clock (getMonotonicTime)
import Network.HTTP.Types
import Network.Socket (close)
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Directory (getTemporaryDirectory, removeFile)
import System.Environment (getExecutablePath, lookupEnv)
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.Process
import Test.Hspec

spec :: Spec
spec = do
  describe "inherited sockets" $
    it "are served: a connection that came before the server is answered" $
      withOtherServer 256 $ \port -> map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
  describe "descriptors that run out" $
    it "delay new connections, and nothing else" $
      withOtherServer 40 $ \port -> withConnection port $ \early -> do
        kept early
        withMany 60 port $ \crowd -> do
          mapM_ (`send` "GET / HTTP/1.1\r\nHost: a\r\n\r\n") crowd
          answers <- mapM (fmap (B.null . fst) . receiveUntilTimeout 20000) crowd
          (or answers, and answers) `shouldBe` (True, False) -- Some have none, and some have one.
          kept early
        map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
  describe "slow clients" $
    it "leave fast ones as fast as they were, within reason" $
      withServer id pong $ \port -> do
        alone <- latency port
        withMany 500 port $ \crowd ->
          withAsync (forever (mapM_ (`send` "G") (take 1 crowd) >> threadDelay 1000)) $ \_ -> do
            mapM_ (`send` "GET / HTTP/1.1\r\nHost: a\r\nX: ") crowd
            among <- latency port
            (alone, among) `shouldSatisfy` \(quietly, crowded) -> crowded < 5 * quietly + 0.02
  describe "a file that shrinks while it is sent" $
    it "ends the connection in the middle: nothing else tells the truth" $ do
      folder <- getTemporaryDirectory
      let path = folder </> "millrace-http-shrinking"
          size = 50000000 :: Int
      B.writeFile path (B.replicate size 0x78)
      flip finally (removeFile path) . withServer id (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \port ->
        withSmallConnection port $ \client -> do
          send client get
          begun <- receiveSome client 1000
          withBinaryFile path ReadWriteMode (`hSetFileSize` 1000000)
          rest <- receiveAll client
          (B.length begun + B.length rest) `shouldSatisfy` (< size)
          -- The server goes on.
          statusOf <$> exchange port get `shouldReturn` 200
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    kept client = do
      send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      replyBody <$> receiveResponse client `shouldReturn` "Pong"

-- The middle of a hundred times.
latency :: Int -> IO Double
latency port = withConnection port $ \client -> do
  times <- replicateM 100 $ do
    start <- getMonotonicTime
    send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    _ <- receiveResponse client
    end <- getMonotonicTime
    return (end - start)
  return (sort times !! 50)

withMany :: Int -> Int -> ([Client] -> IO a) -> IO a
withMany count port use = go count []
  where
    go 0 clients = use clients
    go left clients = withConnection port (\client -> go (left - 1 :: Int) (client : clients))

-- | Is this process to be such a server?
isServer :: IO Bool
isServer = isJust <$> lookupEnv variable

variable :: String
variable = "MILLRACE_HTTP_TEST_SERVER"

-- | Serves on the inherited sockets until it is killed.
serveInherited :: IO ()
serveInherited = runSettingsInherited (quiet defaultSettings) pong

-- A server in a process that may have so many descriptors, and has inherited the socket it is to serve.
withOtherServer :: Int -> (Int -> IO a) -> IO a
withOtherServer descriptors use = do
  program <- getExecutablePath
  port <- bracket openFreePort (close . snd) (return . fst)
  let arguments = ["-c", script, show port, show descriptors, program, variable]
  withCreateProcess (proc "python3" arguments) $ \_ _ _ process -> (connected port >> use port) `finally` terminateProcess process
  where
    connected port = within "the other server's socket" (go port)
    go port = do
      outcome <- try (withConnection port (const (return ()))) :: IO (Either IOException ())
      either (const (threadDelay 20000 >> go port)) return outcome
    script =
      unlines
        [ "import os, resource, socket, sys",
          "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=128)",
          "os.dup2(listener.fileno(), 3)",
          "os.set_inheritable(3, True)",
          "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))",
          "os.environ.update({'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid()), sys.argv[4]: '1'})",
          "os.execv(sys.argv[3], [sys.argv[3]])"
        ]
