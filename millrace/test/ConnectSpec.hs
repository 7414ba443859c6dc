{-# LANGUAGE OverloadedStrings #-}

-- | Connecting to a name, and serving connections.
module ConnectSpec (spec) where

import Control.Concurrent (myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Exception
  ( AsyncException (ThreadKilled),
    SomeException,
    bracket,
    finally,
    throwIO,
    toException,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (foldM_, forM, forM_, replicateM, void, when)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.Error
import Millrace.Deadline
import Millrace.Name
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Connect hiding (connectTo)
import qualified Millrace.Socket.Connect as Connect
import Millrace.Stream (EndsWithin (..), TooLong (..))
import StreamSupport
import Support
import System.Environment (getProgName)
import Test.Hspec hiding (after, before)
import TestSupport.Folder (standardErrorOf)

spec :: Spec
spec = do
  describe "Millrace.Socket.Connect" $ do
    it "serves many connections, and ends with them" $
      withoutLeaks $
        withEcho defaultServer $ \query -> do
          clients <- forM [0 .. 49] $ \i -> start $ do
            s <- Connect.connectTo query
            sendAll s (bytesAt i 1000)
            shutdown s ShutdownSend
            void (receiveExactly s i 1000)
            close s
          mapM_ finish clients
    it "has no more connections than it may" $
      withoutLeaks $
        withEcho defaultServer {serverConnectionsMax = 2, serverGrace = seconds 0} $ \query -> do
          clients <- forM [1 .. 3 :: Int] (const (Connect.connectTo query))
          forM_ clients (`sendAll` "x")
          answers <- forM clients $ \s -> do
            soon <- deadlineAfter (milliseconds 100)
            either (const "" . asIOError) id <$> try (recvBefore soon s 1)
          filter (== "") answers `shouldBe` [""]
          mapM_ close clients
    it "interrupts connections when its time of grace is over" $
      withoutLeaks $ do
        begun <- newEmptyMVar
        ended <- newEmptyMVar
        let serve connection = do
              putMVar begun ()
              outcome <- try (recv connection 10)
              putMVar ended (either (const True . asException) (const False) outcome)
        client <- withServed defaultServer {serverGrace = milliseconds 1} serve $ \query -> do
          client <- Connect.connectTo query
          client <$ takeMVar begun
        takeMVar ended `shouldReturn` True
        close client
    it "tells of the problems of connections, but not that it has interrupted them" $
      withoutLeaks $ do
        told <- newIORef []
        begun <- newEmptyMVar
        let serve connection = do
              putMVar begun ()
              bytes <- recv connection 10
              when (bytes == "fail") $ ioError (userError "asked to fail")
            server =
              defaultServer
                { serverGrace = milliseconds 1,
                  serverProblem = \_ problem -> modifyIORef told (show problem :)
                }
        clients <- withServed server serve $ \query -> do
          let connected = Connect.connectTo query <* takeMVar begun
          failing <- connected
          staying <- connected
          sendAll failing "fail"
          recv failing 1 `shouldReturn` ""
          return [failing, staying]
        readIORef told `shouldReturn` ["user error (asked to fail)"]
        mapM_ close clients
    it "prints exceptions of connections in one line, but not their usual ends" $ do
      name <- getProgName
      let peer = SockAddrInet 7 (tupleToHostAddress (127, 0, 0, 1))
          problemOf action = either id (\() -> error "it has not failed") <$> try action
      soon <- deadlineAfter (milliseconds 1)
      ends <-
        mapM
          problemOf
          [ withUnixPair (\one other -> close other >> void (sendAll one "x" >> sendAll one "x")),
            withUnixPair (\one _ -> void (recvBefore soon one 1))
          ]
      printed <- standardErrorOf (mapM_ (printing peer) (toException (userError "one\ntwo\233") : ends))
      printed `shouldBe` name <> ": connection from 127.0.0.1:7: user error (one two\233)\n"
    it "prints no end of a connection that its peer or the network has caused, and ignores what it is told to" $ do
      let problem code = toException (errnoToIOError "recv" code Nothing Nothing)
          peer = SockAddrInet 7 (tupleToHostAddress (127, 0, 0, 1))
      standardErrorOf
        (forM_ [ePIPE, eCONNRESET, eCONNABORTED, eNOTCONN, eHOSTUNREACH, eNETUNREACH] (printing peer . problem))
        `shouldReturn` ""
      standardErrorOf (printing peer (problem eIO)) >>= (`shouldContain` "connection from 127.0.0.1:7: recv: ")
      standardErrorOf (mapM_ (printing peer) [toException (TooLong "line" 3), toException (EndsWithin "frame" 3 2)])
        `shouldReturn` ""
      standardErrorOf (ignoring peer (problem eIO)) `shouldReturn` ""
    it "says, once, that it is full, and serves others when it is not any more" . withoutLeaks $ do
      full <- newIORef (0 :: Int)
      said <- newEmptyMVar
      let serve connection = recv connection 1 >>= sendAll connection
          tell = modifyIORef full (+ 1) >> putMVar said () >> throwIO (userError "full")
          small = defaultServer {serverConnectionsMax = 1, serverFull = tell}
      withServed small serve $ \query -> do
        clients <- replicateM 3 (Connect.connectTo query)
        within 10 "the hook" (takeMVar said)
        forM_ clients $ \client -> do
          sendAll client "x"
          recv client 1 `shouldReturn` "x"
          close client
      readIORef full `shouldReturn` 1
    it "shares its port with another server, if both want that" . withoutLeaks $ do
      let sharing = defaultServer {serverSharesPort = True}
      withEcho sharing $ \query -> do
        withRunningServer sharing query {queryFlags = []} (\_ -> return ()) (return ())
        failsWith (withRunningServer defaultServer query {queryFlags = []} (\_ -> return ()) (return ()))
          >>= (`shouldSatisfy` hasCode eADDRINUSE)
    it "tells of every exception that it has not thrown itself" $
      withoutLeaks $ do
        told <- newMVar []
        let serve connection = do
              handler <- myThreadId
              -- As a linked thread does.
              bracket (start (recv connection 1 >> throwTo handler ForTest)) stop (\_ -> pause 60000000)
            server = defaultServer {serverProblem = \_ problem -> modifyMVar_ told (return . (show problem :))}
        withServed server serve $ \query -> do
          clients <- replicateM 3 (Connect.connectTo query)
          mapM_ (`sendAll` "x") clients
          forM_ clients $ \client -> recv client 1 >> close client
        readMVar told `shouldReturn` replicate 3 "ForTest"
    it "serves those who are in its queue when it ends" . withoutLeaks $ do
      let serve connection = recv connection 1 >>= sendAll connection
      -- Connecting on this machine does not wait, so the server has no time to accept.
      clients <- withServed defaultServer serve $ \query -> do
        address <- addrAddress . head <$> lookUp query
        replicateM 200 (connectTo address >>= \client -> client <$ sendAll client "x")
      answers <- forM clients (\client -> recv client 1 <* close client)
      answers `shouldBe` replicate 200 "x"
    it "can be hurried while it gives its connections time" $
      withoutLeaks $ do
        let server = defaultServer {serverGrace = minutes 1}
        begun <- newEmptyMVar
        let serve connection = putMVar begun () >> void (recv connection 10)
            during query = bracket (Connect.connectTo query) close (\_ -> takeMVar begun)
            staying query = Connect.connectTo query >>= \client -> client <$ takeMVar begun
        -- An exception while the action runs, or while the server ends, and then another one.
        kept <- newEmptyMVar
        let actionRuns query = staying query >>= putMVar kept >> pause 60000000
            serverEnds query = during query >> staying query >>= putMVar kept
        forM_ [actionRuns, serverEnds] $ \action -> do
          running <- start (withServed server serve action)
          client <- within 10 "the client" (takeMVar kept)
          interrupt running ThreadKilled
          pause 20000
          again <- start (interrupt running ThreadKilled)
          void (within 10 "the end" (outcomeOf running))
          finish again
          close client
    it "is not held for ever by a connection that does not end" $
      withoutLeaks $ do
        begun <- newEmptyMVar
        release <- newEmptyMVar
        let server = defaultServer {serverGrace = seconds 0, serverCleanUp = milliseconds 20}
            hangs = uninterruptibleMask_ (takeMVar release)
            serve connection = putMVar begun () >> void (recv connection 10) `finally` hangs
            -- It waits for its client, and ends when the connection is closed.
            waits connection =
              putMVar begun ()
                >> uninterruptibleMask_ (void (try (recv connection 10) :: IO (Either IOError ByteString.ByteString)))
        forM_ [serve, waits] $ \handler -> do
          client <-
            within 10 "the end" (withServed server handler (\query -> Connect.connectTo query <* takeMVar begun))
          close client
        putMVar release ()
    it "waits for the end of connections also if it is interrupted again" $
      withoutLeaks $ do
        ready <- newEmptyMVar
        begun <- newEmptyMVar
        ended <- newEmptyMVar
        let serve connection =
              (putMVar begun () >> void (recv connection 10)) `finally` (pause 100000 >> putMVar ended ())
        server <-
          start
            ( withServer
                defaultServer {serverGrace = seconds 0, serverReady = mapM_ (putMVar ready) . take 1}
                (passive "0") {queryHost = Just "127.0.0.1"}
                serve
            )
        address <- takeMVar ready
        client <- connectTo address
        takeMVar begun
        interrupt server ThreadKilled
        pause 10000
        again <- start (interrupt server ThreadKilled)
        void (outcomeOf server)
        tryTakeMVar ended `shouldReturn` Just ()
        finish again
        close client
    it "tells of every address why it could not connect" $
      withoutLeaks $ do
        (listener, address) <- newListener
        port <- socketPort listener
        close listener
        problem <- failsWith (Connect.connectTo (host "127.0.0.1" (show port)))
        problem `shouldSatisfy` hasCode eCONNREFUSED
        show problem
          `shouldBe` (show address ++ ": Millrace.Socket.Connect.connectTo: does not exist (Connection refused)")
    it "throws when it cannot listen" $
      withoutLeaks $
        withEcho defaultServer $ \query -> do
          outcome <- try (withRunningServer defaultServer query {queryFlags = []} (\_ -> return ()) (return ()))
          either (const (return ()) . asException) (const (expectationFailure "no exception")) outcome
    it "leaves nothing behind when connecting and serving are interrupted" $
      withoutLeaks $
        withEcho defaultServer $ \query -> forM_ [1 .. 100] $ \seed -> do
          random <- newRandom seed
          delay <- below random 3000
          client <- start (bracket (Connect.connectTo query) close (`recv` 1))
          pause delay
          stop client
    it "loses no socket when an exception comes together with the connection" $
      withoutLeaks $
        withEcho defaultServer $ \query -> do
          let round' delay = do
                connected <- newEmptyMVar
                -- Not connectTo alone: where a mask ends together with `start`'s own unmasking, no exception comes.
                client <- start (Connect.connectTo query >>= putMVar connected)
                pause delay
                stop client
                -- So most interruptions come when connecting ends.
                tryTakeMVar connected >>= maybe (return (delay + 20)) (\s -> max 0 (delay - 20) <$ close s)
          foldM_ (\delay _ -> round' delay) 300 [1 .. 1000 :: Int]

asIOError :: IOError -> IOError
asIOError = id

asException :: SomeException -> SomeException
asException = id

withEcho :: Server -> (Query -> IO a) -> IO a
withEcho server = withServed server echo
  where
    echo s = do
      bytes <- recv s 4096
      if ByteString.null bytes then return () else sendAll s bytes >> echo s

withServed :: Server -> (Socket -> IO ()) -> (Query -> IO a) -> IO a
withServed server serve use = do
  ready <- newEmptyMVar
  withRunningServer server {serverReady = putMVar ready} (passive "0") {queryHost = Just "127.0.0.1"} serve $ do
    addresses <- takeMVar ready
    case addresses of
      SockAddrInet port _ : _ -> use (host "127.0.0.1" (show port))
      other -> ioError (userError ("not one address: " ++ show other))
