{-# LANGUAGE OverloadedStrings #-}

-- | Sources and sinks of conduit, and bytes that are not used.
module ConduitSpec (spec) where

import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
import qualified Conduit
import Control.Concurrent (killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (ErrorCall (..), bracket, throwIO)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.Conduit.Network as Extra
import Data.IORef
import Data.List (sort)
import Data.Word (Word8)
import Millrace.Deadline (deadlineAfter, isDeadlineError, milliseconds)
import Millrace.File (Mode (..), withFile)
import Millrace.File.Buffered (newReader, readBytes)
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Stream (fromPieces, linesOf)
import Millrace.Streaming.Conduit
import qualified Millrace.Timer as Timer
import Support
import System.FilePath ((</>))
import System.IO.Error (isDoesNotExistError)
import System.Posix.Files (createSymbolicLink)
import Test.Hspec hiding (before)
import TestSupport.ByteStream (bytesAt, receiveAllBy)
import TestSupport.Job (withThread)
import TestSupport.Leaks (withoutLeaks)
import TestSupport.Process (liveBytes)

spec :: Spec
spec = do
  describe "sockets" $ do
    it "carry random sizes" $
      forM_ [1 .. 5] $ \seed -> withPair $ \here there -> do
        let pieces = sizes seed 40
            sent = [bytesAt offset size | (offset, size) <- zip (scanl (+) 0 pieces) pieces]
        withThread (runConduit (yieldMany sent .| sinkSocket there) >> shutdown there ShutdownSend) $ \_ -> do
          got <- runConduit (sourceSocket here .| sinkList)
          (ByteString.concat got == ByteString.concat sent) `shouldBe` True
          maximum (map ByteString.length got) `shouldSatisfy` (<= 16384)
          got `shouldSatisfy` (not . any ByteString.null)
    it "leave what a consumer does not ask for" . withPair $ \here there -> do
      sendAll there (bytesAt 0 40000)
      Just first <- runConduit (sourceSocket here .| await)
      shutdown there ShutdownSend
      rest <- receiveAllBy (recv here 5000)
      first <> rest `shouldBe` bytesAt 0 40000
    it "pass their errors through" . withPair $ \here _ -> do
      deadlineAfter (milliseconds 10) >>= setReadDeadline here
      runConduit (sourceSocket here .| sinkNull) `shouldThrow` isDeadlineError
      close here
      runConduit (yield "x" .| sinkSocket here) `shouldThrow` anyIOException
    it "need constant memory for 100 MB" . withPair $ \here there -> do
      withThread (runConduit (replicateC 1600 (bytesAt 0 65536) .| sinkSocket there) >> shutdown there ShutdownSend) $
        \_ ->
          staysSmall (\watch -> runConduit (sourceSocket here .| watch .| lengthCE))
            `shouldReturn` (1600 * 65536 :: Int)

  describe "streams" $ do
    it "are sources and sinks" $ do
      source <- fromPieces ["one", "two", "three"]
      got <- newIORef []
      runConduit
        (sourceStream source .| (yield "" >> awaitForever yield) .| sinkStream (\piece -> modifyIORef' got (piece :)))
      readIORef got `shouldReturn` ["three", "two", "one"]
    it "may be files that are read through a buffer" . withFolder $ \folder -> do
      let path = folder </> "file"
      runConduitRes (yield (bytesAt 0 200000) .| sinkFile path)
      withFile path ForReading $ \file -> do
        buffered <- newReader file 10
        runConduit (sourceStream (readBytes buffered 65536) .| sinkLazy)
          `shouldReturn` Lazy.fromStrict (bytesAt 10 199990)

  describe "consume" $ do
    it "keeps what is given back, and what was not asked for" $
      forM_ [1 .. 30] $ \seed -> do
        let pieces = map (`mod` 50) (take 40 (randoms seed))
        reader <-
          fromPieces [bytesAt offset size | (offset, size) <- zip (scanl (+) 0 pieces) pieces] >>= newStreamReader
        got <- mapM (\size -> consume reader (takeCE (size `mod` 70) .| foldC)) (take 20 (randoms (seed + 100)))
        rest <- receiveAllBy (nextPiece reader)
        ByteString.concat got <> rest `shouldBe` bytesAt 0 (sum pieces)
    it "keeps several pieces in order" $ do
      reader <- fromPieces ["one", "two", "three"] >>= newStreamReader
      consume
        reader
        (await >>= \one -> await >>= \two -> mapM_ leftover two >> mapM_ leftover one >> leftover "" >> leftover "zero")
      runConduit (sourceStream (nextPiece reader) .| sinkList) `shouldReturn` ["zero", "one", "two", "three"]
    it "is a stream again" $ do
      reader <- fromPieces ["head\nline", " one\nline two"] >>= newStreamReader
      consume reader line `shouldReturn` "head"
      next <- linesOf 100 (nextPiece reader)
      next `shouldReturn` Just "line one"
      next `shouldReturn` Just "line two"
      next `shouldReturn` Nothing
    it "needs constant memory for 100 MB" . withPair $ \here there -> do
      withThread (runConduit (replicateC 1600 (bytesAt 0 65536) .| sinkSocket there)) $ \_ -> do
        reader <- newStreamReader (recv here 16384)
        staysSmall (\watch -> consume reader (takeCE 104857000 .| watch .| lengthCE)) `shouldReturn` (104857000 :: Int)
        consume reader (takeCE 600 .| foldC) `shouldReturn` bytesAt (65536 - 600) 600

  describe "attempt" $ do
    it "loses no byte when a deadline passes" . withPair $ \here there -> withThread (slowly there) $ \_ -> do
      reader <- newStreamReader (recv here 100)
      passed <- newIORef (0 :: Int)
      let collect _ before | length before == 3000 = return (reverse before)
          collect [] before = return before
          collect (limit : limits) before =
            Timer.timeout (1 + limit `mod` 400) (attempt reader line)
              >>= maybe (modifyIORef' passed (+ 1) >> collect limits before) (collect limits . (: before))
      got <- collect (randoms 5) []
      (got == [lineAt i | i <- [1 .. 3000]]) `shouldBe` True
      readIORef passed >>= (`shouldSatisfy` (> 10))
    it "loses no byte when an await is interrupted" . withPair $ \here there -> withThread (slowly there) $ \_ -> do
      reader <- newStreamReader (recv here 100)
      let total = 3000 * 26
          collect _ before | sum (map ByteString.length before) >= total = return (ByteString.concat (reverse before))
          collect [] _ = return "no more numbers"
          collect (limit : limits) before =
            Timer.timeout (1 + limit `mod` 100) (attempt reader (await <* liftIO (Timer.threadDelay 50)))
              >>= collect limits . maybe before (maybe before (: before))
      got <- collect (randoms 6) []
      (got == ByteString.concat [lineAt i <> "\n" | i <- [1 .. 3000]]) `shouldBe` True
    it "leaves the reader as it was when its consumer fails" $ do
      reader <- fromPieces ["one", "two", "three"] >>= newStreamReader
      consume reader (mapM_ leftover =<< await)
      attempt reader (await >> await >>= mapM_ leftover >> liftIO (failing "no"))
        `shouldThrow` (\(ErrorCall text) -> text == "no")
      attempt reader (takeCE 5 .| foldC) `shouldReturn` "onetw"
      runConduit (sourceStream (nextPiece reader) .| foldC) `shouldReturn` "othree"

  describe "files" $ do
    it "carry random sizes" . withFolder $ \folder -> withoutLeaks $ do
      let pieces = sizes 11 100
      runConduitRes
        ( yieldMany [bytesAt offset size | (offset, size) <- zip (scanl (+) 0 pieces) pieces]
            .| sinkFile
              (folder </> "file")
        )
      got <- runConduitRes (sourceFile (folder </> "file") .| sinkLazy)
      (Lazy.toStrict got == bytesAt 0 (sum pieces)) `shouldBe` True
    it "are closed when a consumer ends early" . withFolder $ \folder -> withoutLeaks $ do
      runConduitRes (yield (bytesAt 0 1000000) .| sinkFile (folder </> "file"))
      runConduitRes (sourceFile (folder </> "file") .| takeCE 10 .| foldC) `shouldReturn` bytesAt 0 10
    it "have what came before an exception" . withFolder $ \folder -> withoutLeaks $ do
      let path = folder </> "file"
      runConduitRes ((yield (bytesAt 0 100000) >> yield "end" >> liftIO (failing "no")) .| sinkFile path)
        `shouldThrow` errorCall "no"
      ByteString.readFile path `shouldReturn` bytesAt 0 100000 <> "end"
    it "pass their errors through" . withFolder $ \folder ->
      runConduitRes (sourceFile (folder </> "missing") .| sinkNull) `shouldThrow` isDoesNotExistError
    it "need constant memory for 100 MB" . withFolder $ \folder -> do
      staysSmall (\watch -> runConduitRes (replicateC 1600 (bytesAt 0 65536) .| watch .| sinkFile (folder </> "file")))
      staysSmall (\watch -> runConduitRes (sourceFile (folder </> "file") .| watch .| lengthCE))
        `shouldReturn` (1600 * 65536 :: Int)

  describe "directories" $ do
    it "are given as conduit gives them" . withFolder $ \folder -> withoutLeaks $ do
      forM_ [1 .. 3000 :: Int] $ \i ->
        createSymbolicLink "nowhere" (folder </> ("a name that needs some space " ++ show i))
      expected <- runConduitRes (Conduit.sourceDirectory folder .| sinkList)
      got <- runConduitRes (sourceDirectory folder .| sinkList)
      (length got, sort got) `shouldBe` (3000, sort expected)
    it "are closed when a consumer ends early, or fails" . withFolder $ \folder -> withoutLeaks $ do
      forM_ [1 .. 3000 :: Int] $ \i ->
        createSymbolicLink "nowhere" (folder </> ("a name that needs some space " ++ show i))
      runConduitRes (sourceDirectory folder .| takeC 10 .| lengthC) `shouldReturn` (10 :: Int)
      runConduitRes (sourceDirectory folder .| mapM_C (\_ -> liftIO (failing "no"))) `shouldThrow` errorCall "no"
    it "pass their errors through" . withFolder $ \folder ->
      runConduitRes (sourceDirectory (folder </> "missing") .| sinkNull) `shouldThrow` isDoesNotExistError

  describe "servers and clients" $ do
    it "work in both directions" . withTCP id (\app -> runConduit (appSource app .| appSink app)) $ \settings ->
      runTCPClient settings (withConduits 21 appSource appSink)
    it "work for clients of conduit-extra" . withTCP id (\app -> runConduit (appSource app .| appSink app)) $
      \settings ->
        Extra.runTCPClient settings (withConduits 22 Extra.appSource Extra.appSink)
    it "work with servers of conduit-extra" $ do
      port <- newEmptyMVar
      bracket
        ( Extra.forkTCPServer
            (tellPort port (serverSettings 0 "127.0.0.1"))
            (\app -> runConduit (Extra.appSource app .| Extra.appSink app))
        )
        killThread
        $ \_ ->
          do
            number <- takeMVar port
            runGeneralTCPClient (clientSettings number "127.0.0.1") (withConduits 23 appSource appSink)
    it "run in other monads" . withoutLeaks $ do
      port <- newEmptyMVar
      let serve app = runConduit (appSource app .| appSink app)
      withThread (runResourceT (runGeneralTCPServer (tellPort port (serverSettings 0 "127.0.0.1")) serve)) $ \_ -> do
        number <- takeMVar port
        runResourceT
          ( runGeneralTCPClient
              (clientSettings number "127.0.0.1")
              (\app -> runConduit (yield "echo" .| appSink app) >> liftIO (appRead app))
          )
          `shouldReturn` "echo"
    it "run in a new thread" . withoutLeaks $ do
      port <- newEmptyMVar
      bracket
        ( forkTCPServer
            (tellPort port (serverSettings 0 "127.0.0.1"))
            (\app -> runConduit (appSource app .| appSink app))
        )
        killThread
        $ \_ ->
          do
            -- The server has already reported its port.
            Just number <- tryTakeMVar port
            runTCPClient (clientSettings number "127.0.0.1") (withConduits 24 appSource appSink)
    it "tell that they cannot listen" $ do
      port <- newEmptyMVar
      bracket (forkTCPServer (tellPort port (serverSettings 0 "127.0.0.1")) (\_ -> return ())) killThread $ \_ -> do
        number <- takeMVar port
        void (forkTCPServer (serverSettings number "127.0.0.1") (\_ -> return ())) `shouldThrow` anyIOException

line :: Monad m => ConduitT ByteString o m ByteString
line = (takeWhileCE (/= newline) .| foldC) <* dropCE 1
  where
    newline = 10 :: Word8

-- A line of 25 bytes, without its end.
lineAt :: Int -> ByteString
lineAt number = ByteString.map (\byte -> 97 + byte `mod` 26) (bytesAt number 25)

-- Three thousand lines of 25 bytes, in pieces of other sizes.
slowly :: Socket -> IO ()
slowly s = go (map (\n -> 1 + n `mod` 90) (randoms 4)) (ByteString.concat [lineAt i <> "\n" | i <- [1 .. 3000]])
  where
    go (size : others) bytes = unless (ByteString.null bytes) $ do
      let (now, later) = ByteString.splitAt size bytes
      sendAll s now
      when (size < 4) (threadDelay 300)
      go others later
    go [] _ = return ()

withPair :: (Socket -> Socket -> IO a) -> IO a
withPair use =
  bracket (socketPair AF_UNIX Stream defaultProtocol) (\(here, there) -> close here >> close there) (uncurry use)

failing :: String -> IO a
failing = throwIO . ErrorCall

-- Sends pieces of random sizes, while they come back.
withConduits :: Int -> (app -> ConduitT () ByteString IO ()) -> (app -> ConduitT ByteString Void IO ()) -> app -> IO ()
withConduits seed source sink app = do
  let pieces = sizes (fromIntegral seed) 30
  withThread
    (runConduit (yieldMany [bytesAt offset size | (offset, size) <- zip (scanl (+) 0 pieces) pieces] .| sink app))
    $ \_ ->
      do
        back <- runConduit (source app .| takeCE (sum pieces) .| sinkLazy)
        (Lazy.toStrict back == bytesAt 0 (sum pieces)) `shouldBe` True

-- Runs a conduit with a part that measures the live memory after each 8 MB. Fails if it grows much.
staysSmall :: MonadIO m => (ConduitT ByteString ByteString m () -> IO a) -> IO a
staysSmall run = do
  before <- liveBytes
  most <- newIORef 0
  let watch size =
        await >>= mapM_ (\piece -> look (size + ByteString.length piece) >>= \next -> yield piece >> watch next)
      look size
        | size < 8000000 = return size
        | otherwise = 0 <$ liftIO (liveBytes >>= modifyIORef' most . max)
  result <- run (watch 0)
  grown <- subtract before <$> readIORef most
  grown `shouldSatisfy` (< 4000000)
  return result
