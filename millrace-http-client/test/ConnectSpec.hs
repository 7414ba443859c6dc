{-# LANGUAGE OverloadedStrings #-}

-- | Connecting: several addresses, deadlines, and interruption.
module ConnectSpec (spec) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.List (isInfixOf)
import Millrace.Deadline
import Millrace.HttpClient.Connect
import Millrace.HttpClient.Name
import Millrace.Socket
import qualified Millrace.Socket.ByteString as Plain
import Network.HTTP.Client hiding (port)
import Network.HTTP.Client.Internal (hostAddress)
import Network.HTTP.Client.Millrace
import Support
import Test.Hspec
import TestSupport.Folder (freePort)
import TestSupport.Process (withoutNewDescriptors)
import TestSupport.Time (eventually, within)

spec :: Spec
spec = do
  it "looks a name up" $
    withServer (\_ peer -> serveRequests (plainWire peer) (const (return "here"))) $ \port -> do
      manager <- managerWith defaultSettings
      get manager ("http://localhost:" ++ show port) `shouldReturn` "here"
  it "says that there is no such host, and that its time is over" $ do
    forM_ [return noDeadline, deadlineAfter (seconds 20)] $ \limit -> do
      deadline <- limit
      addressesOf deadline "no-such-host.invalid" 80 `shouldThrow` (not . isDeadlineError)
    passed <- deadlineAfter (seconds 0)
    addressesOf passed "localhost" 80 `shouldThrow` \problem ->
      isDeadlineError problem && "localhost" `isInfixOf` show problem
  it "says that descriptors have run out, and what helps" $ do
    outcome <- withoutNewDescriptors (try (addressesOf noDeadline "localhost" 80))
    let said = either (\problem -> show (problem :: IOException)) (const "it has found the host") outcome
    forM_ ["localhost: looking up the host", "Too many open files", "ulimit -n"] (said `shouldContain`)
  it "uses an address that the request has" $
    withServer (\_ peer -> serveRequests (plainWire peer) (const (return "here"))) $ \port -> do
      manager <- managerWith defaultSettings
      request <- parseRequest ("http://nobody.test:" ++ show port)
      response <- httpLbs request {hostAddress = Just (tupleToHostAddress (127, 0, 0, 1))} manager
      responseBody response `shouldBe` "here"
  it "ends with the network's problem if nobody listens" $ do
    port <- freePort :: IO Int
    manager <- managerWith defaultSettings
    outcome <- try (get manager ("http://127.0.0.1:" ++ show port))
    networkProblemOf outcome `shouldSatisfy` maybe False (not . isDeadlineError)
  it "gives up at the deadline, and closes what it has opened" $
    withFullQueue $ \port -> do
      (opened, record) <- recorder
      manager <-
        managerWith defaultSettings {limits = defaultLimits {connectLimit = milliseconds 100}, onSocket = record}
      outcome <- try (get manager ("http://127.0.0.1:" ++ show port))
      networkProblemOf outcome `shouldSatisfy` maybe False isDeadlineError
      allClosed opened 1
  it "can be interrupted, and closes what it has opened" $
    withFullQueue $ \port -> do
      (opened, record) <- recorder
      manager <- managerWith defaultSettings {onSocket = record}
      ended <- newEmptyMVar
      request <- parseRequest ("http://127.0.0.1:" ++ show port)
      runner <-
        forkIO
          ( void (try (httpLbs request manager) :: IO (Either SomeException (Response Lazy.ByteString)))
              `finally` putMVar ended ()
          )
      eventually "the sockets are open" ((== 1) . length <$> readIORef opened)
      killThread runner
      takeMVar ended
      allClosed opened 1
  describe "to several addresses" $ do
    it "goes on at once when one refuses" $
      withServer (\_ peer -> Plain.sendAll peer "second") $ \port -> do
        closed <- freePort
        begin <- monotonicNanoseconds
        bracket (connectFirst nothing noDeadline [at closed, at port]) close $ \made ->
          Plain.recv made 100 `shouldReturn` "second"
        end <- monotonicNanoseconds
        (end - begin) `shouldSatisfy` (< 1000 * fromIntegral attemptDelay)
    it "goes on after a while when one does not answer, and closes it" $
      withFullQueue $ \full -> withServer (\_ peer -> Plain.sendAll peer "second") $ \port -> do
        (opened, record) <- recorder
        begin <- monotonicNanoseconds
        bracket (connectFirst record noDeadline [at full, at port]) close $ \made -> do
          Plain.recv made 100 `shouldReturn` "second"
          end <- monotonicNanoseconds
          (end - begin) `shouldSatisfy` (>= 900 * fromIntegral attemptDelay)
        allClosed opened 2
    it "uses a slow one that answers while others are tried" $
      withFullQueue $ \full -> withServer (\_ peer -> Plain.sendAll peer "third") $ \port -> do
        closed <- freePort
        bracket (connectFirst nothing noDeadline [at full, at closed, at port]) close $ \made ->
          Plain.recv made 100 `shouldReturn` "third"
    it "ends with a problem if all refuse" $ do
      closed <- replicateM 3 freePort
      outcome <- try (connectFirst nothing noDeadline (map at closed))
      either (not . isDeadlineError) (const False) outcome `shouldBe` True
    it "gives up at the deadline" $
      withFullQueue $ \full -> do
        (opened, record) <- recorder
        deadline <- deadlineAfter (milliseconds 400)
        outcome <- try (within 10 "connecting" (connectFirst record deadline [at full, at full, at full]))
        either isDeadlineError (const False) outcome `shouldBe` True
        allClosed opened 2
    it "can be interrupted" $
      withFullQueue $ \full -> do
        (opened, record) <- recorder
        ended <- newEmptyMVar
        runner <-
          forkIO
            ( void (connectFirst record noDeadline [at full, at full, at full]) `catch` \problem ->
                putMVar ended (problem :: AsyncException)
            )
        eventually "the sockets are open" ((== 3) . length <$> readIORef opened)
        killThread runner
        takeMVar ended `shouldReturn` ThreadKilled
        allClosed opened 3
  it "takes families in turn" $ do
    let six = AddrInfo [] AF_INET6 Stream defaultProtocol (SockAddrInet6 1 0 (0, 0, 0, 1) 0) Nothing
    map addrAddress (interleave [six, six, six, at 1, at 2]) `shouldBe` map addrAddress [six, at 1, six, at 2, six]
    map addrAddress (interleave [at 1, at 2]) `shouldBe` map addrAddress [at 1, at 2]

-- Notes the sockets that are made.
recorder :: IO (IORef [Socket], Socket -> IO ())
recorder = do
  opened <- newIORef []
  return (opened, \one -> atomicModifyIORef' opened (\others -> (one : others, ())))

-- At least this many were made, and all of them are closed.
allClosed :: IORef [Socket] -> Int -> IO ()
allClosed opened least = do
  made <- readIORef opened
  length made `shouldSatisfy` (>= least)
  -- A thread that was interrupted closes what it has right after.
  forM_ made $ \one -> eventually "the socket is closed" (either isClosed (const False) <$> try (getSocketName one))
  where
    isClosed :: IOException -> Bool
    isClosed _ = True

nothing :: Socket -> IO ()
nothing _ = return ()

at :: Int -> AddrInfo
at port =
  AddrInfo
    []
    AF_INET
    Stream
    defaultProtocol
    (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
    Nothing

-- A port that does not answer, because the queue of connections to accept is full.
withFullQueue :: (Int -> IO a) -> IO a
withFullQueue use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 0
  port <- fromIntegral <$> socketPort listener
  let fill opened = do
        one <- socket AF_INET Stream defaultProtocol
        deadline <- deadlineAfter (milliseconds 200)
        outcome <- try (connectBefore deadline one (addrAddress (at port)))
        case outcome of
          Right () -> fill (one : opened)
          Left problem
            | isDeadlineError problem -> close one >> return opened
            | otherwise -> throwIO problem
  bracket (fill []) (mapM_ close) (\_ -> use port)
