{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Streams, connecting to names, and serving.
module StreamSpec (spec) where

import Control.Concurrent (forkIO, myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Exception
  ( AsyncException (StackOverflow, ThreadKilled),
    Exception (..),
    SomeException,
    asyncExceptionFromException,
    asyncExceptionToException,
    bracket,
    finally,
    mask_,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (foldM_, forM, forM_, forever, replicateM, unless, void, when)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.Error (eCONNREFUSED)
import Millrace.Deadline
import Millrace.Name
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Connect hiding (connectTo)
import qualified Millrace.Socket.Connect as Connect
import Millrace.Stream
import qualified Millrace.Timer as Timer
import Support
import Test.Hspec hiding (after, before)

-- | An exception of an asynchronous type, as that of the async package for threads that are linked.
data ForTest = ForTest
  deriving (Eq, Show)

instance Exception ForTest where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

spec :: Spec
spec = do
  describe "Millrace.Stream" $ do
    it "copies, reports, counts and stops" $ do
      received <- newIORef []
      reports <- newIORef []
      (source, count) <- fromPieces ["ab", "", "cde", "f"] >>= counting
      limited <- atMost 4 source
      copyReporting limited (\piece -> modifyIORef received (piece :)) (\n -> modifyIORef reports (n :))
        `shouldReturn` 4
      readIORef received `shouldReturn` ["cd", "ab"]
      readIORef reports `shouldReturn` [4, 2]
      count `shouldReturn` 5
    it "loses no piece that comes together with an exception" $ do
      taken <- newIORef 0
      got <- newIORef []
      let source = uninterruptibleMask_ $ do
            number <- atomicModifyIORef' taken (\n -> (n + 1, n))
            reader <- myThreadId
            when (number == 3) $ forkIO (throwTo reader ThreadKilled) >> pause 20000
            return (if number < 10 then ByteString.singleton number else "")
          readAll next = next >>= \piece -> unless (ByteString.null piece) (modifyIORef got (piece :) >> readAll next)
      (counted, count) <- counting source
      limited <- atMost 100 counted
      start (readAll limited) >>= outcomeOf >>= (`shouldSatisfy` either (const True) (const False))
      start (readAll limited) >>= finish
      ByteString.concat . reverse <$> readIORef got `shouldReturn` ByteString.pack [0 .. 9]
      count `shouldReturn` 10
    it "cuts lines wherever the pieces end" $ do
      let text = "first\r\n\nthird line\nlast"
      forM_ [1 .. 25] $ \size -> do
        next <- fromPieces (pieces size text) >>= linesOf 20
        collect next `shouldReturn` ["first", "", "third line", "last"]
      next <- fromPieces (pieces 3 "12345678\n") >>= linesOf 5
      failsWith next `shouldReturn` TooLong "line" 5
    it "refuses a line at its first byte too many, and never reads on" $
      forM_ [1 .. 9] $ \size -> do
        (source, count) <- fromPieces (pieces size "12345\r\n12345\n123456789\nx") >>= counting
        next <- linesOf 5 source
        next `shouldReturn` Just "12345"
        next `shouldReturn` Just "12345"
        failsWith next `shouldReturn` TooLong "line" 5
        read' <- count
        read' `shouldSatisfy` (\n -> n >= 19 && n < 19 + fromIntegral size)
        failsWith next `shouldReturn` TooLong "line" 5
        count `shouldReturn` read'
    it "takes a return for a part of a longer line, and for the end's first byte" $ do
      next <- fromPieces ["12345", "\r", "\n", "123\r5\n1", "2345", "\r", "6"] >>= linesOf 5
      next `shouldReturn` Just "12345"
      next `shouldReturn` Just "123\r5"
      failsWith next `shouldReturn` TooLong "line" 5
      atEnd <- fromPieces ["123", "\r"] >>= linesOf 3
      failsWith atEnd `shouldReturn` TooLong "line" 3
    it "loses nothing when lines, frames and pieces are interrupted" $ do
      let wanted = [bytesAt i (1 + i `mod` 40) | i <- [1 .. 1500]]
          noReturns = ByteString.map (\byte -> if byte `elem` [10, 13] then 0 else byte)
      surviving (ByteString.concat [noReturns line <> "\n" | line <- wanted]) (linesOf 100) (map noReturns wanted)
      surviving (ByteString.concat (map (frame Length16) wanted)) (framesOf Length16 100) wanted
      let taken source = do
            (takeBytes, hasEnded') <- exactly source
            return (hasEnded' >>= \over -> if over then return Nothing else Just <$> takeBytes 7)
      surviving (bytesAt 0 28000) taken (pieces 7 (bytesAt 0 28000))
    it "cuts frames wherever the pieces end" $ do
      let framed = ByteString.concat [frame Length16 (bytesAt 0 n) | n <- [0, 1, 255, 256, 1000]]
      forM_ [1, 2, 3, 7, 100, 5000] $ \size -> do
        next <- fromPieces (pieces size framed) >>= framesOf Length16 1000
        collect next `shouldReturn` [bytesAt 0 n | n <- [0, 1, 255, 256, 1000]]
      next <- fromPieces [frame Length32 "too long"] >>= framesOf Length32 3
      failsWith next `shouldReturn` TooLong "frame" 3
    it "tells where a stream ends too early" $ do
      next <- fromPieces [frame Length16 "whole", "\NUL\ETXab"] >>= framesOf Length16 100
      next `shouldReturn` Just "whole"
      failsWith next `shouldReturn` EndsWithin "frame" 5 4
      within' <- fromPieces ["\NUL"] >>= framesOf Length16 100
      failsWith within' `shouldReturn` EndsWithin "frame's length" 2 1
      (takeBytes, _) <- fromPieces ["abc"] >>= exactly
      show <$> (failsWith (takeBytes 5) :: IO EndsWithin)
        `shouldReturn` "Millrace.Stream: the stream ends after 3 of the 5 bytes of a piece; perhaps the sender has failed"
      takeBytes 3 `shouldReturn` "abc"
    it "reads ahead by so many pieces and no more, and passes failures on" $ do
      taken <- newIORef (0 :: Int)
      let source = do
            n <- atomicModifyIORef' taken (\n -> (n + 1, n))
            if n == 10 then ioError (userError "ten") else return "x"
      outcome <- try $
        concurrently 3 source $ \ahead -> do
          void ahead
          pause 20000
          readIORef taken >>= (`shouldSatisfy` (<= 5))
          whole 100 ahead
      either
        (\problem -> show (problem :: IOError) `shouldContain` "ten")
        (const (expectationFailure "no exception"))
        outcome
    it "hands over every exception of a source that is read ahead" $ do
      forM_ [toException ThreadKilled, toException StackOverflow, toException ForTest] $ \problem -> do
        outcome <- within 10 "the exception" (try (concurrently 2 (throwIO problem) (whole 100)))
        either (\seen -> show (seen :: SomeException)) show outcome `shouldBe` show problem
      -- There is no room when it comes.
      thread <- newEmptyMVar
      let source = (myThreadId >>= tryPutMVar thread) >> return "x"
      outcome <- within 10 "the exception" . try . concurrently 1 source $ \ahead -> do
        reader <- readMVar thread
        void . start $ throwTo reader ForTest
        forever (ahead >> pause 1000)
      outcome `shouldBe` (Left ForTest :: Either ForTest ())
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
        withEcho defaultServer {serverConnectionsMax = 2, serverGraceMicros = 0} $ \query -> do
          clients <- forM [1 .. 3 :: Int] (const (Connect.connectTo query))
          forM_ clients (`sendAll` "x")
          answers <- forM clients $ \s -> do
            soon <- deadlineAfter 100000
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
        client <- withServed defaultServer {serverGraceMicros = 1000} serve $ \query -> do
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
              defaultServer {serverGraceMicros = 1000, serverProblem = \_ problem -> modifyIORef told (show problem :)}
        clients <- withServed server serve $ \query -> do
          let connected = Connect.connectTo query <* takeMVar begun
          failing <- connected
          staying <- connected
          sendAll failing "fail"
          recv failing 1 `shouldReturn` ""
          return [failing, staying]
        readIORef told `shouldReturn` ["user error (asked to fail)"]
        mapM_ close clients
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
    it "can be hurried while it gives its connections time" $
      withoutLeaks $ do
        let server = defaultServer {serverGraceMicros = 60000000}
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
        let server = defaultServer {serverGraceMicros = 0, serverCleanUpMicros = 20000}
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
        let serve connection = (putMVar begun () >> void (recv connection 10)) `finally` (pause 100000 >> putMVar ended ())
        server <-
          start
            ( withServer
                defaultServer {serverGraceMicros = 0, serverReady = mapM_ (putMVar ready) . take 1}
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
        ConnectError name attempts <- failsWith (Connect.connectTo (host "127.0.0.1" (show port)))
        name `shouldContain` show port
        map fst attempts `shouldBe` [address]
        map (hasCode eCONNREFUSED . snd) attempts `shouldBe` [True]
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
                place <- newEmptyMVar
                -- Not connectTo alone: where a mask ends together with `start`'s own unmasking, no exception comes.
                client <- start (Connect.connectTo query >>= putMVar place)
                pause delay
                stop client
                -- So most interruptions come when connecting ends.
                tryTakeMVar place >>= maybe (return (delay + 20)) (\s -> max 0 (delay - 20) <$ close s)
          foldM_ (\delay _ -> round' delay) 300 [1 .. 1000 :: Int]
  where
    -- Sends bytes in random pieces, and takes what is cut from them under deadlines that pass all the time.
    surviving bytes cut wanted = withUnixPair $ \here there -> do
      random <- newRandom 3
      let sending left = unless (ByteString.null left) $ do
            size <- below random 60
            let (now, later) = ByteString.splitAt (1 + size) left
            sendAll there now
            when (size < 10) (pause 100)
            sending later
          taking next got interrupted = do
            limit <- below random 150
            taken <- newIORef Nothing
            -- Masked, because the deadline could otherwise pass between the end of `next` and that of `timeout`.
            _ <- Timer.timeout (1 + limit) (mask_ (next >>= writeIORef taken . Just))
            readIORef taken >>= \case
              Nothing -> taking next got (interrupted + 1 :: Int)
              Just Nothing -> return (reverse got, interrupted)
              Just (Just one) -> taking next (one : got) interrupted
      sender <- start (sending bytes >> shutdown there ShutdownSend)
      next <- cut (recv here 50)
      (got, interrupted) <- taking next [] 0
      finish sender
      (got == wanted) `shouldBe` True
      interrupted `shouldSatisfy` (> 20)
    pieces size bytes
      | ByteString.null bytes = []
      | otherwise = let (now, later) = ByteString.splitAt size bytes in now : pieces size later

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
