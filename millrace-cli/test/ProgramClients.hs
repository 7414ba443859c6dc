{-# LANGUAGE OverloadedStrings #-}

-- | What tests of the whole program share: sites, clients, and what they check.
module ProgramClients
  ( redirected,
    failsWith,
    machineHasIPv6,
    countLines,
    withSite,
    withLargeFile,
    withBegunDownload,
    withBegunDownloadOf,
    pauseBetweenSignals,
    withConfined,
    withBusyClients,
    withClient,
    withClientOf,
    askOften,
    withReservedPort,
    isAccepted,
    untilRefused,
    untilTrue,
    refusals,
    receiveToEnd,
    answerTo,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket, try)
import Control.Monad (forM_, when)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (char7, intDec, toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.List (isInfixOf, isPrefixOf)
import GHC.IO.Exception (IOException (..))
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import Program
import Site
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink)
import System.Process
import System.Timeout (timeout)
import Test.Hspec

-- | Runs the program with its output redirected by a shell.
redirected :: String -> [String] -> IO (ExitCode, String, String)
redirected redirection arguments = do
  path <- millracePath
  readProcessWithExitCode "bash" (["-c", "\"$@\" " <> redirection, "bash", path] ++ arguments) ""

-- | The program has failed with these texts in its message.
failsWith :: Outcome -> [String] -> Expectation
failsWith outcome texts = do
  outcomeExit outcome `shouldBe` ExitFailure 1
  outcomeOutput outcome `shouldBe` ""
  forM_ ("millrace: " : texts) $ \text -> outcomeErrors outcome `shouldSatisfy` isInfixOf text

machineHasIPv6 :: IO Bool
machineHasIPv6 = either failed (const True) <$> try (bracket open Network.close (`Network.bind` address))
  where
    open = Network.socket Network.AF_INET6 Network.Stream 0
    address = Network.SockAddrInet6 0 0 (Network.tupleToHostAddress6 (0, 0, 0, 0, 0, 0, 0, 1)) 0
    failed :: IOException -> Bool
    failed _ = False

-- | The number of lines that begin with this text, in upper or lower case.
countLines :: String -> String -> Int
countLines text = length . filter (isPrefixOf text) . lines . map lower
  where
    lower character = if character `elem` ['A' .. 'Z'] then toEnum (fromEnum character + 32) else character

withSite :: (FilePath -> IO a) -> IO a
withSite use = withDirectory $ \site -> do
  writeOld site "root/hello.txt" "Hello, world\n"
  writeOld site "root/index.html" "<p>index"
  writeOld site "root/sub/index.html" "<p>sub"
  writeOld site "root/.hidden" "secret"
  writeOld site "secret" "secret"
  createSymbolicLink "../secret" (site </> "root/outside")
  use site

-- | 24 MB: more than all socket buffers on the way take.
withLargeFile :: (FilePath -> ByteString.ByteString -> IO a) -> IO a
withLargeFile use = withDirectory $ \directory -> do
  let content = Lazy.toStrict (toLazyByteString (foldMap (\n -> intDec n <> char7 '\n') [1 .. 3300000]))
  writeOld directory "large" content
  use directory content

-- | Asks for the large file and reads no more than the beginning of it. The file is too large for the buffers on the
-- way.
withBegunDownload :: Server -> (Network.Socket -> ByteString.ByteString -> IO a) -> IO a
withBegunDownload = withBegunDownloadOf ""

-- | Begins a download as 'withBegunDownload' does, with fields in the request, each with its end of line.
withBegunDownloadOf :: ByteString.ByteString -> Server -> (Network.Socket -> ByteString.ByteString -> IO a) -> IO a
withBegunDownloadOf fields server action = withClient server $ \client -> do
  Network.sendAll client ("GET /large HTTP/1.1\r\nHost: localhost\r\n" <> fields <> "\r\n")
  Network.recv client 1000 >>= action client

-- Signals that come within a tenth of a second count as one.
pauseBetweenSignals :: IO ()
pauseBetweenSignals = threadDelay 200000

-- A server that may have 64 descriptors.
withConfined :: [String] -> (Server -> IO a) -> IO a
withConfined arguments use = do
  path <- millracePath
  withCommand "bash" (["-c", "ulimit -n 64; exec \"$@\"", "bash", path] ++ arguments) use

-- This many clients are in the middle of their first request.
withBusyClients :: Network.PortNumber -> Int -> IO a -> IO a
withBusyClients port count action =
  foldr (\_ others -> withClientOf port (\client -> Network.sendAll client "GET / HT" >> others)) action [1 .. count]

-- | A connection to the server.
withClient :: Server -> (Network.Socket -> IO a) -> IO a
withClient = withClientOf . fromIntegral . serverPort

withClientOf :: Network.PortNumber -> (Network.Socket -> IO a) -> IO a
withClientOf port use =
  bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \client -> do
    Network.connect client (Network.SockAddrInet port (Network.tupleToHostAddress (127, 0, 0, 1)))
    use client

-- | So often that the log has ten megabytes to tell.
askOften :: Server -> IO ()
askOften server = withClient server $ \client -> do
  let request = "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: " <> Char8.replicate 5000 'u' <> "\r\n\r\n"
      answered left = when (left > 0) $ do
        bytes <- Network.recv client 65536
        ByteString.null bytes `shouldBe` False
        answered (left - Char8.count '!' bytes)
  forM_ [1 .. 100 :: Int] $ \_ -> do
    Network.sendAll client (ByteString.concat (replicate 20 request))
    timeout 20000000 (answered 20) `shouldReturn` Just ()

-- | A port that nobody else gets meanwhile, for a server with @--reuse-port@.
withReservedPort :: (Network.PortNumber -> IO a) -> IO a
withReservedPort use = bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \reserving -> do
  Network.setSocketOption reserving Network.ReusePort 1
  Network.bind reserving (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
  Network.socketPort reserving >>= use

-- | Whether a program listens there.
isAccepted :: Network.PortNumber -> IO Bool
isAccepted port = either refused (const True) <$> try (withClientOf port (const (pure ())))
  where
    refused :: IOException -> Bool
    refused _ = False

-- | Returns when nobody can connect any more.
untilRefused :: Server -> IO ()
untilRefused server = untilTrue (not <$> isAccepted (fromIntegral (serverPort server)))

-- | Asks again and again.
untilTrue :: IO Bool -> IO ()
untilTrue ask = do
  answer <- ask
  if answer then pure () else threadDelay 50000 >> untilTrue ask

-- | A status that the server answers itself, a request that gets it, and the line of the log behind the time.
refusals :: [(Int, ByteString.ByteString, String)]
refusals =
  [ (400, "GET / HTTP/1.1\r\n\r\n", " \"GET / HTTP/1.1\" 400 16 \"-\" \"-\""),
    (400, "\x16\x03\x01\"\r\n", " \"\\x16\\x03\\x01\\x22\" 400 16 \"-\" \"-\""),
    ( 414,
      "GET /"
        <> long
        <> " HTTP/1.1\r\nHost: a\r\n\r\n",
      " \"GET /"
        <> Char8.unpack long
        <> " HTTP/1.1\" 414 25 \"-\" \"-\""
    ),
    ( 417,
      "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nExpect: wonders\r\n\r\n",
      " \"GET /x HTTP/1.1\" 417 23 \"-\" \"u\""
    ),
    ( 431,
      "GET / HTTP/1.1\r\nHost: a\r\n"
        <> Char8.concat (replicate 200 "A: b\r\n")
        <> "\r\n",
      " \"GET / HTTP/1.1\" 431 36 \"-\" \"-\""
    ),
    ( 501,
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
      " \"POST / HTTP/1.1\" 501 20 \"-\" \"-\""
    ),
    (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n", " \"GET / HTTP/2.0\" 505 31 \"-\" \"-\"")
  ]
  where
    long = Char8.replicate 8200 'x'

receiveToEnd :: Network.Socket -> IO ByteString.ByteString
receiveToEnd client = ByteString.concat <$> go
  where
    go = do
      bytes <- Network.recv client 65536
      if ByteString.null bytes then pure [] else (bytes :) <$> go

-- | Sends a request, and receives until the server closes the connection.
answerTo :: Server -> ByteString.ByteString -> IO ByteString.ByteString
answerTo server text =
  within 30 "an answer" . withClient server $ \client -> Network.sendAll client text >> receiveToEnd client
