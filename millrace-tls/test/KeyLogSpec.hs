{-# LANGUAGE OverloadedStrings #-}

-- | The log of secrets, as Wireshark reads it: compared with what OpenSSL's own client writes about the same
-- connections.
module KeyLogSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isHexDigit)
import Data.List (sort)
import Millrace.Socket (SockAddr (..), accept)
import Millrace.Tls
import Support
import System.Directory (removePathForcibly)
import System.IO (hClose)
import System.Posix.Files (fileMode, getFileStatus)
import System.Process
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  forM_ [("-tls1_2", secretsOf12), ("-tls1_3", secretsOf13)] $ \(version, labels) ->
    it ("has the lines that openssl s_client " ++ version ++ " writes, of each connection") $ \credentials -> do
      let ours = fileOf credentials "ours.log"
          theirs = fileOf credentials "theirs.log"
      mapM_ removePathForcibly [ours, theirs]
      server <- contextOf credentials ["server"] (\settings -> settings {serverKeyLog = Just ours})
      replicateM_ 2 (talk server ["-keylogfile", theirs, version])
      logged <- secretsIn ours
      secretsIn theirs `shouldReturn` logged
      [label | (label, _, _) <- logged] `shouldBe` sort (concat (replicate 2 labels))
      forM_ logged $ \(_, random, secret) -> do
        (ByteString.length random, isHex random) `shouldBe` (64, True)
        (ByteString.length secret `elem` [64, 96], isHex secret) `shouldBe` (True, True)
      (`mod` 0o1000) . fileMode <$> getFileStatus ours `shouldReturn` 0o600
  it "appends to the file, and moves to another file" $ \credentials -> do
    let first = fileOf credentials "first.log"
        second = fileOf credentials "second.log"
    mapM_ removePathForcibly [first, second]
    ByteString.writeFile first "# somebody else's\n"
    server <- contextOf credentials ["server"] (\settings -> settings {serverKeyLog = Just first})
    talk server ["-tls1_2"]
    length . Char8.lines <$> ByteString.readFile first `shouldReturn` 2
    next <- identity credentials "server"
    replaceServerSettings server (serverSettings next) {serverKeyLog = Just second}
    talk server ["-tls1_2"]
    length . Char8.lines <$> ByteString.readFile first `shouldReturn` 2
    length . Char8.lines <$> ByteString.readFile second `shouldReturn` 1
  it "is not begun where it cannot be written" $ \credentials ->
    contextOf credentials ["server"] (\settings -> settings {serverKeyLog = Just (fileOf credentials "none/secrets")})
      `shouldThrow` (const True :: IOException -> Bool)
  where
    secretsOf12 = ["CLIENT_RANDOM"]
    secretsOf13 =
      [ "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0"
      ]
    isHex = Char8.all isHexDigit

type Secret = (ByteString.ByteString, ByteString.ByteString, ByteString.ByteString)

-- The lines without comments, in one order.
secretsIn :: FilePath -> IO [Secret]
secretsIn path = do
  content <- ByteString.readFile path
  fmap sort . forM (filter (not . ("#" `ByteString.isPrefixOf`)) (Char8.lines content)) $ \line ->
    case Char8.words line of
      [label, random, secret] -> return (label, random, secret)
      _ -> ioError (userError ("a line is wrong: " ++ show line))

-- One connection of OpenSSL's client, with an exchange of bytes.
talk :: ServerContext -> [String] -> IO ()
talk server options = withListener $ \listener address -> do
  served <- newEmptyMVar
  _ <- start . (putMVar served <=< try) $ do
    (peer, _) <- accept listener
    bracket (serverHandshake server peer) close $ \connection -> do
      sendAll connection "hello\n"
      endSending connection
      receiveAll connection
  let arguments =
        ["s_client", "-connect", "127.0.0.1:" ++ portOf address, "-servername", "localhost", "-quiet", "-no_ign_eof"]
          ++ options
  withCreateProcess (proc "openssl" arguments) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe} $
    \input output _ process ->
      do
        forM_ output ByteString.hGetContents
        mapM_ hClose input
        void (waitForProcess process)
  within 20 "the server" (takeMVar served)
    >>= either (\problem -> throwIO (problem :: SomeException)) (const (return ()))
  where
    portOf address = case address of
      SockAddrInet port _ -> show port
      other -> show other
