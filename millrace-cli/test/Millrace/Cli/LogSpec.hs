{-# LANGUAGE OverloadedStrings #-}

-- | The executable writes its access log, also where that is hard.
module Millrace.Cli.LogSpec (spec) where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (bracket)
import Control.Monad (forM_, forever)
import qualified Data.ByteString as ByteString
import Data.List (isInfixOf, isPrefixOf)
import GHC.Clock (getMonotonicTime)
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import Program
import ProgramClients
import System.Directory (createDirectory, removeDirectoryRecursive)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (hGetContents)
import System.Posix.Files (setFileSize)
import System.Posix.Signals (sigTERM)
import System.Process
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "the access log" . around withSite $ do
    it "logs while the log is being read" $ \_ -> withLargeFile $ \directory _ -> do
      let path = directory </> "large"
          isThere = ByteString.isInfixOf "GET /missing HTTP/1.1" . ByteString.drop 24000000 <$> ByteString.readFile path
      withServer ["serve", directory, "--port", "0", "--access-log", path] $ \server ->
        withClient server $ \client -> do
          Network.sendAll client "GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-0,2-\r\n\r\n"
          begun <- Network.recv client 1000
          begun `shouldSatisfy` ByteString.isPrefixOf "HTTP/1.1 206 "
          curl ["-o", "/dev/null", serverUrl server <> "/missing"] `shouldReturn` ""
          timeout 20000000 (untilTrue isThere) `shouldReturn` Just ()
    it "goes on, and stops, when nobody takes its log" $ \_ ->
      withServer ["pong", "--port", "0", "--access-log", "-"] $ \server -> do
        askOften server
        signalServer sigTERM server
        -- The drain's nine seconds are for busy connections.
        waitForExit 8 server `shouldReturn` ExitSuccess
    it "tells how much of its log was dropped" $ \_ ->
      withServer ["pong", "--port", "0", "--access-log", "-"] $ \server -> do
        askOften server
        bracket (forkIO (forever (nextLine server))) killThread $ \_ ->
          nextErrorLine server >>= (`shouldSatisfy` isInfixOf " lines of the access log dropped")
        signalServer sigTERM server
        waitForExit 8 server `shouldReturn` ExitSuccess
    it "explains a log that cannot be written" $ \site -> do
      outcome <- runMillrace [] ["serve", site, "--port", "0", "--access-log", site </> "no/log"]
      outcome `failsWith` ["cannot write the access log " <> site </> "no/log: ", "'access-log' names a file"]
    it "says once a second that its log cannot be written, however much there is to write" $ \site -> do
      let directory = site </> "logs"
      createDirectory directory
      withServer ["pong", "--port", "0", "--access-log", directory </> "log"] $ \server -> do
        removeDirectoryRecursive directory
        begun <- getMonotonicTime
        askOften server
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
        seconds <- subtract begun <$> getMonotonicTime
        complaints <- filter (isInfixOf "cannot write the access log") . lines <$> hGetContents (serverErrors server)
        fromIntegral (length complaints) `shouldSatisfy` (\count -> count >= 1 && count <= seconds + 2)
    it "begins another line of its log behind what a full disk has left of one" $ \site -> do
      path <- millracePath
      let file = site </> "access.log"
          -- As on a disk of a kilobyte.
          confined = "ulimit -S -f 1; exec \"$@\""
          askFor server name = curl ["-o", "/dev/null", serverUrl server <> name] `shouldReturn` ""
      withCommand "bash" ["-c", confined, "bash", path, "pong", "--port", "0", "--access-log", file] $ \server -> do
        forM_ [1 .. 20 :: Int] $ \number -> askFor server ("/before-" <> show number)
        nextErrorLine server
          >>= (`shouldSatisfy` isPrefixOf ("millrace: cannot write the access log " <> file <> ": File too large; "))
        getPid (serverProcess server)
          >>= mapM_ (\number -> callProcess "prlimit" ["--pid", show number, "--fsize=unlimited:"])
        askFor server "/after"
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
      written <- lines <$> readFile file
      length written `shouldSatisfy` (> 5)
      last written `shouldSatisfy` \line ->
        "127.0.0.1 - - [" `isPrefixOf` line && "GET /after HTTP/1.1" `isInfixOf` line
    forM_ [("file", ""), ("file of which several ranges are sent", "Range: bytes=0-9,20-\r\n")] $ \(what, field) ->
      it ("tells of a " <> what <> " that became shorter meanwhile") $ \_ -> withLargeFile $ \directory _ ->
        withServer ["serve", directory, "--port", "0"] $ \server -> do
          _ <- withBegunDownloadOf field server $ \client _ -> do
            setFileSize (directory </> "large") 1000000
            receiveToEnd client
          nextErrorLine server `shouldReturn` "millrace: GET /large: the file became shorter while it was sent"
    it "says nothing of a client that is gone" $ \_ -> withLargeFile $ \directory _ ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        forM_ [1 .. 10 :: Int] . const . withBegunDownload server $ \client _ ->
          Network.setSockOpt client Network.Linger (Network.StructLinger 1 0) -- closing resets the connection
        signalServer sigTERM server
        nextErrorLine server >>= (`shouldStartWith` "stopping ")
