{-# LANGUAGE OverloadedStrings #-}

-- | The executable stops at signals.
module Millrace.Cli.StopSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, isPrefixOf)
import qualified Network.Socket.ByteString as Network
import Program
import ProgramClients
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (hClose, hGetContents)
import System.Posix.Signals (sigHUP, sigINT, sigQUIT, sigTERM, sigUSR1)
import System.Process
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "stops" $ do
    forM_ [("SIGTERM", sigTERM), ("SIGINT", sigINT), ("SIGQUIT", sigQUIT), ("SIGHUP", sigHUP)] $ \(name, signal) -> do
      it ("on " <> name) . withServer ["pong", "--port", "0"] $ \server -> do
        curl [serverUrl server] `shouldReturn` "Pong!"
        signalServer signal server
        waitForExit 20 server `shouldReturn` ExitSuccess
      it ("on " <> name <> " when a download is done") . withLargeFile $ \directory content ->
        withServer ["serve", directory, "--port", "0"] $ \server -> do
          received <- withBegunDownload server $ \client begun -> do
            signalServer signal server
            _ <- nextErrorLine server
            ByteString.append begun <$> receiveToEnd client
          let body = ByteString.drop 4 (snd (ByteString.breakSubstring "\r\n\r\n" received))
          (ByteString.length body, body == content) `shouldBe` (ByteString.length content, True)
          waitForExit 20 server `shouldReturn` ExitSuccess
    it "on signals that come together as on one: timeout(1) sends two" . withLargeFile $ \directory content ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        received <- withBegunDownload server $ \client begun -> do
          forM_ [sigTERM, sigTERM, sigINT, sigTERM] (`signalServer` server)
          _ <- nextErrorLine server
          ByteString.append begun <$> receiveToEnd client
        ByteString.length received `shouldSatisfy` (> ByteString.length content)
        waitForExit 20 server `shouldReturn` ExitSuccess
    forM_ [("the same", sigTERM), ("another", sigINT)] $ \(name, second) ->
      it ("at once on a second signal, " <> name) . withLargeFile $ \directory _ ->
        withServer ["serve", directory, "--port", "0"] $ \server -> withBegunDownload server $ \_ _ -> do
          signalServer sigTERM server
          _ <- nextErrorLine server
          pauseBetweenSignals
          signalServer second server
          waitForExit 8 server `shouldReturn` ExitFailure (negate (fromIntegral second))
    it "at once on a second signal, and has logged everything" . withLargeFile $ \directory _ -> do
      let path = directory </> "access.log"
      withServer ["serve", directory, "--port", "0", "--access-log", path] $ \server ->
        withBegunDownload server $ \_ _ -> do
          curl ["-o", "/dev/null", serverUrl server <> "/missing"] `shouldReturn` ""
          signalServer sigTERM server
          _ <- nextErrorLine server
          pauseBetweenSignals
          signalServer sigTERM server
          waitForExit 8 server `shouldReturn` ExitFailure (negate (fromIntegral sigTERM))
      readFile path >>= (`shouldSatisfy` isInfixOf "GET /missing HTTP/1.1")
    it "at once on a second signal, also as the first process of a container" . withLargeFile $ \directory _ -> do
      path <- millracePath
      let inContainer = ["--pid", "--fork", "--kill-child"]
      (possible, _, _) <- readProcessWithExitCode "unshare" (inContainer ++ ["true"]) ""
      if possible /= ExitSuccess
        then pendingWith "no PID namespaces for this user"
        else withCommand "unshare" (inContainer ++ [path, "serve", directory, "--port", "0"]) $ \server ->
          withBegunDownload server $ \_ _ -> do
            signalChild sigTERM server
            _ <- nextErrorLine server
            pauseBetweenSignals
            signalChild sigTERM server
            waitForExit 8 server `shouldReturn` ExitFailure (128 + fromIntegral sigTERM)
    it "and says so in whole lines" . withServer ["pong", "--port", "0"] $ \server -> do
      signalServer sigTERM server
      waitForExit 20 server `shouldReturn` ExitSuccess
      hGetContents (serverErrors server)
        `shouldReturn` "stopping when the open requests are done; a second signal stops at once\n"
    it "not on SIGHUP if that is ignored" $ do
      path <- millracePath
      withCommand "nohup" [path, "pong", "--port", "0"] $ \server -> do
        signalServer sigHUP server
        curl [serverUrl server] `shouldReturn` "Pong!"
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
    it "not on SIGUSR1, by which servers are told that their log was rotated" . withServer ["pong", "--port", "0"] $
      \server ->
        do
          signalServer sigUSR1 server
          curl [serverUrl server] `shouldReturn` "Pong!"
          signalServer sigTERM server
          waitForExit 20 server `shouldReturn` ExitSuccess
    it "also if nobody reads what it says" . withServer ["pong", "--port", "0"] $ \server -> do
      hClose (serverErrors server)
      signalServer sigTERM server
      waitForExit 20 server `shouldReturn` ExitSuccess
    it "at once if the connections are idle" . withServer ["pong", "--port", "0"] $ \server ->
      withClient server $ \client -> do
        Network.sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        answer <- Network.recv client 1000
        answer `shouldSatisfy` ByteString.isSuffixOf "Pong!"
        signalServer sigTERM server
        -- Busy ones have nine seconds.
        timeout 8000000 (receiveToEnd client) `shouldReturn` Just ""
        waitForExit 20 server `shouldReturn` ExitSuccess
    it "telling those that are busy that it is the last time" . withLargeFile $ \directory content ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        received <- withBegunDownload server $ \client begun -> do
          signalServer sigTERM server
          untilRefused server
          -- The next request of a connection that was busy when the server was told to stop.
          Network.sendAll client "GET /missing HTTP/1.1\r\nHost: localhost\r\n\r\n"
          ByteString.append begun <$> receiveToEnd client
        let (first, rest) = ByteString.breakSubstring "\r\n\r\n" received
            second = Char8.unpack (ByteString.drop (4 + ByteString.length content) rest)
        countLines "connection: close" (Char8.unpack first) `shouldBe` 0
        second `shouldSatisfy` isPrefixOf "HTTP/1.1 404 "
        countLines "connection: close" second `shouldBe` 1
        waitForExit 20 server `shouldReturn` ExitSuccess
    forM_ [("nine seconds", [], 30), ("as many seconds as it was told", ["--drain-seconds", "1"], 7)] $
      \(name, options, patience) ->
        it ("after " <> name <> ", whatever a client does") . withLargeFile $ \directory _ ->
          withServer (["serve", directory, "--port", "0"] <> options) $ \server -> withBegunDownload server $ \_ _ -> do
            signalServer sigTERM server
            waitForExit patience server `shouldReturn` ExitSuccess
            hGetContents (serverErrors server) >>= (`shouldSatisfy` isInfixOf "\nmillrace: 1 connection cut off")
