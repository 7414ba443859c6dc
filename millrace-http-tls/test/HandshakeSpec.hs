{-# LANGUAGE OverloadedStrings #-}

-- | Handshakes, their limits and reports.
module HandshakeSpec (spec) where

import Applications
import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.IORef
import Data.List (find)
import Data.Maybe (listToMaybe)
import Millrace.Duration (seconds, unlimited)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec

spec :: Credentials -> TLSSettings -> WithClient -> Spec
spec _ server client = do
  it "are bounded in time, and counted" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeLimit = seconds 1} id telling $ \port ->
      withPlain port $ \slow -> do
        Plain.sendAll slow beginning
        within 30 "the end" (Plain.recv slow 100) >>= (`shouldBe` "")
        untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "timed out")

  it "are reported with how long they took" $ do
    durations <- newIORef []
    let watched = server {tlsOnHandshake = Just (\ended -> modifyIORef durations (handshakeNanoseconds ended :))}
    withServer watched {tlsHandshakeLimit = seconds 1} id telling $ \port -> do
      withPlain port $ \slow -> Plain.sendAll slow beginning >> within 30 "the end" (void (Plain.recv slow 100))
      taken <- untilJust "the report" (listToMaybe <$> readIORef durations)
      taken `shouldSatisfy` \nanoseconds -> nanoseconds >= 1000000000 && nanoseconds < 30000000000

  it "have all the time that there is, if that is wanted" $
    withServer server {tlsHandshakeLimit = unlimited, tlsWatchInterval = unlimited} id telling $ \port ->
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"

  it "are bounded in time for a client that sends a byte at a time" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeLimit = seconds 2} id telling $ \port ->
      withPlain port $ \slow -> do
        sender <-
          forkIO
            ( forM_
                (B.unpack (B.append beginning (B.replicate 1000 0)))
                (\byte -> Plain.sendAll slow (B.singleton byte) >> threadDelay 200000)
                `catch` gone
            )
        untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "timed out")
        killThread sender

  it "that are slow do not keep others waiting" $
    withServer server {tlsHandshakeLimit = seconds 20} id telling $ \port ->
      manyPlain 100 port $ \slow -> do
        forM_ slow (`Plain.sendAll` beginning)
        forM_ [1 .. 10 :: Int] $ \_ ->
          client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"

  it "that are slow are aborted for others" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeLimit = seconds 25, tlsMaximumHandshakes = 3} id telling $ \port ->
      manyPlain 3 port $ \slow -> do
        forM_ slow (`Plain.sendAll` beginning)
        -- They have begun their handshakes when the next client comes.
        threadDelay 300000
        client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
        -- The aborted handshake reports it from its own thread.
        void (untilJust "the count" (find (/= "done") <$> readIORef outcomes))
        filter (/= "done") <$> readIORef outcomes `shouldReturn` ["aborted"]

  it "with garbage are refused, and counted" $ do
    (outcomes, watched) <- watching server
    withServer watched id telling $ \port -> do
      void (plainExchange port (B.append (B.pack [22, 3, 3, 0, 100]) (B.replicate 100 255)))
      untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "refused")

  it "that a client leaves are counted" $ do
    (outcomes, watched) <- watching server
    withServer watched id telling $ \port -> do
      withPlain port (`Plain.sendAll` beginning)
      untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "refused")

  it "end with the server" $ do
    (outcomes, watched) <- watching server
    begun <- newEmptyMVar
    let choosing = watched {tlsCredentialsFor = Just (\_ -> putMVar begun () >> forever (threadDelay 1000000))}
    withServer choosing id telling $ \port ->
      void (forkIO (client port (const (return ())) `catch` failed) >> within 30 "the handshake" (takeMVar begun))
    -- The server waits for them, and they learn why.
    readIORef outcomes `shouldReturn` ["lost"]
  where
    failed :: SomeException -> IO ()
    failed _ = return ()
    watching tls = do
      outcomes <- newIORef []
      return
        ( outcomes,
          tls
            { tlsOnHandshake =
                Just (\ended -> atomicModifyIORef' outcomes (\before' -> (name (handshakeOutcome ended) : before', ())))
            }
        )
    name :: HandshakeOutcome -> String
    name outcome = case outcome of
      HandshakeDone _ -> "done"
      HandshakeRefused _ -> "refused"
      HandshakeTimedOut -> "timed out"
      HandshakeAborted -> "aborted"
      HandshakeLost _ -> "lost"
    gone :: IOException -> IO ()
    gone _ = return ()
    manyPlain :: Int -> Socket.PortNumber -> ([Socket.Socket] -> IO a) -> IO a
    manyPlain 0 _ use = use []
    manyPlain count port use = withPlain port (\one -> manyPlain (count - 1) port (use . (one :)))

-- | The first bytes of a handshake.
beginning :: ByteString
beginning = B.pack [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]
