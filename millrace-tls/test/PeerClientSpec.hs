{-# LANGUAGE OverloadedStrings #-}

-- | Clients of others: OpenSSL, curl, GnuTLS, Python, Go, Node and Java. Tests of those that are not
-- installed are pending.
module PeerClientSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Millrace.Deadline (deadlineAfter, seconds)
import Millrace.Socket (accept, socketPort)
import qualified Millrace.Socket as Socket
import Millrace.Tls
import PeerSupport
import Support
import System.Exit (ExitCode (..))
import System.IO
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Folder (missing)

spec :: SpecWith Credentials
spec = do
  describe "that is a client" $ do
    forM_ ["-tls1_2", "-tls1_3"] $ \version ->
      it ("openssl s_client " ++ version) $ \credentials ->
        answering credentials "openssl" (\port -> clientOfOpenssl credentials port ++ ["-quiet", version])
    forM_ ["1.2", "1.3"] $ \version ->
      it ("curl, TLS " ++ version) $ \credentials ->
        withHttp credentials $ \port -> do
          (code, output, problems) <-
            readProcessWithExitCode
              "curl"
              [ "--silent",
                "--show-error",
                "--ipv4",
                "--cacert",
                certificateFile credentials "root",
                "--tls-max",
                version,
                "https://localhost:"
                  ++ show port
                  ++ "/"
              ]
              ""
          (code, output, problems) `shouldBe` (ExitSuccess, "hello", "")
    it "curl, which refuses another name" $ \credentials -> do
      missing "curl" >>= mapM_ pendingWith
      refused credentials "other" $ \port -> do
        (code, _, _) <-
          readProcessWithExitCode
            "curl"
            [ "--silent",
              "--ipv4",
              "--cacert",
              certificateFile credentials "root",
              "https://localhost:" ++ show port ++ "/"
            ]
            ""
        code `shouldBe` ExitFailure 60
    forM_ ["NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"] $ \priority ->
      it ("gnutls-cli " ++ priority) $ \credentials ->
        answering
          credentials
          "gnutls-cli"
          ( \port ->
              ["--x509cafile", certificateFile credentials "root", "--priority", priority, "-p", show port, "localhost"]
          )
    it "Python" $ \credentials ->
      answering
        credentials
        "python3"
        (\port -> ["test/peers/peer.py", "client", show port, certificateFile credentials "root"])
    it "Go" $ \credentials -> withGo credentials $ \program ->
      answering credentials program (\port -> ["client", show port, certificateFile credentials "root"])
    it "Node" $ \credentials ->
      answering credentials "node" (\port -> ["test/peers/peer.js", show port, certificateFile credentials "root"])
    it "Java" $ \credentials ->
      answering credentials "java" (\port -> ["test/peers/Peer.java", show port, certificateFile credentials "root"])
    forM_ receivers $ \(way, receive) -> it ("openssl s_client, which changes its keys and wants us to, " ++ way) $
      \credentials ->
        commanding credentials "-tls1_3" receive ["K\n", "question\n"] $ \outcome ->
          outcome `shouldSatisfy` either (const False) (== "question\n")
    it "openssl s_client, which may not renegotiate" $ \credentials ->
      commanding credentials "-tls1_2" recv ["R\n", "question\n"] $ \outcome ->
        outcome `shouldSatisfy` either (const True) (const False)

clientOfOpenssl :: Credentials -> Int -> [String]
clientOfOpenssl credentials port =
  [ "s_client",
    "-connect",
    "127.0.0.1:"
      ++ show port,
    "-servername",
    "localhost",
    "-CAfile",
    certificateFile credentials "root"
  ]
    ++ ["-verify_return_error", "-verify_hostname", "localhost"]

-- A server for one client.
serving :: Credentials -> String -> (Connection -> IO ()) -> (Int -> IO a) -> IO (Either SomeException (), a)
serving credentials name serve use = do
  context <- contextOf credentials [name] id
  withListener $ \listener _ -> do
    port <- socketPort listener
    job <- start . bracket (fst <$> accept listener) Socket.close $ \peer -> do
      deadline <- deadlineAfter (seconds 10)
      bracket (serverHandshakeBefore deadline context peer) (`gracefulClose` 1000) serve
    result <- within 20 "the client" (use (fromIntegral port))
    outcome <- try (within 20 "the server" (finish job))
    return (outcome, result)

-- A client that sends a question, and prints the answer.
answering :: Credentials -> String -> (Int -> [String]) -> IO ()
answering credentials program arguments = do
  missing program >>= mapM_ pendingWith
  (outcome, (_, output, problems)) <-
    serving credentials "server" serve (\port -> readProcessWithExitCode program (arguments port) "question\n")
  either throwIO return outcome
  (output ++ problems) `shouldSatisfy` isInfixOf "answer to question"
  where
    serve connection = do
      question <- receiveLine connection
      sendAll connection ("answer to " <> question)

withHttp :: Credentials -> (Int -> IO ()) -> IO ()
withHttp credentials use = do
  missing "curl" >>= mapM_ pendingWith
  (outcome, ()) <- serving credentials "server" serve use
  either throwIO return outcome
  where
    serve connection = do
      _ <- receiveHead connection ""
      sendAll connection "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    receiveHead connection earlier
      | "\r\n\r\n" `Char8.isSuffixOf` earlier = return earlier
      | otherwise = recv connection 1000 >>= receiveHead connection . (earlier <>)

-- The client refuses the server's certificate, and sends no question.
refused :: Credentials -> String -> (Int -> IO ()) -> IO ()
refused credentials name use = do
  (outcome, ()) <- serving credentials name (\connection -> receiveLine connection `shouldReturn` "") use
  -- The client may check the name after the handshake.
  problemOf outcome `shouldSatisfy` (`elem` [Nothing, Just RefusedByPeer, Just Truncated])

-- Types lines into s_client, which takes some letters for commands. The last argument checks the bytes that the server
-- received.
commanding :: Credentials -> String -> Receiver -> [String] -> (Either SomeException ByteString -> IO ()) -> IO ()
commanding credentials version receive typed check = do
  missing "openssl" >>= mapM_ pendingWith
  context <- contextOf credentials ["server"] id
  withListener $ \listener _ -> do
    port <- socketPort listener
    let command =
          (proc "openssl" (clientOfOpenssl credentials (fromIntegral port) ++ [version]))
            { std_in =
                CreatePipe,
              std_out = CreatePipe,
              std_err = CreatePipe
            }
    withCreateProcess command $ \input output problems process -> do
      job <- start . bracket (fst <$> accept listener) Socket.close $ \peer ->
        bracket (serverHandshake context peer) close $ \connection -> do
          sendAll connection "ready\n"
          received <- receiveLineBy (receive connection 1000)
          sendAll connection "answer\n"
          return received
      forM_ output $ \from -> start (hGetContents from >>= evaluate . length)
      forM_ problems $ \from -> start (hGetContents from >>= evaluate . length)
      threadDelay 200000
      forM_ input $ \to -> forM_ typed $ \line -> (hPutStr to line >> hFlush to >> threadDelay 200000) `catch` ignore
      outcome <- try (within 10 "the server" (finish job))
      forM_ input $ \to -> hClose to `catch` ignore
      terminateProcess process
      check outcome
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()
