{-# LANGUAGE OverloadedStrings #-}

-- | Log files.
module LogSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (throwIO, try)
import Control.Monad (forM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Directory (rename)
import Millrace.File (Mode (ForReading), readAt, withFile)
import Millrace.File.Temporary (withTemporaryDirectory)
import Millrace.Log
import Support
import System.Directory (createDirectory, removeDirectory, removeFile)
import System.IO.Error (fullErrorType, ioeSetErrorString, isDoesNotExistError, mkIOError)
import Test.Hspec

spec :: Spec
spec = describe "Millrace.Log" $ do
  it "has every line when it has ended, in order" . inDirectory $ \path -> do
    withLog (logTo path) (forM_ numbers . logLine)
    Char8.lines <$> ByteString.readFile path `shouldReturn` numbers
  it "is written to once a second, appended to, and may be renamed" . inDirectory $ \path -> do
    ByteString.writeFile path "before\n"
    withLog (logTo path) $ \output -> do
      logLine output "one"
      eventually "the log" ((== Right "before\none\n") <$> attempted path)
      rename path (path ++ ".old")
      logLine output "two"
      eventually "the log" ((== Right "two\n") <$> attempted path)
    ByteString.readFile (path ++ ".old") `shouldReturn` "before\none\n"
  it "keeps as many old files as it is told to, and loses no line while it has them" . inDirectory $ \path -> do
    -- Each write has one line, because the action waits for it.
    withLog (logTo path) {logRotation = Rotation 12 2} $ \output -> forM_ (take 5 numbers) $ \line -> do
      logLine output line
      eventually "the log" (either (const False) (ByteString.isSuffixOf (line <> "\n")) <$> attempted path)
    mapM ByteString.readFile [path ++ ".2", path ++ ".1", path]
      `shouldReturn` ["10001\n10002\n", "10003\n10004\n", "10005\n"]
    attempted (path ++ ".3") >>= (`shouldSatisfy` either isDoesNotExistError (const False))
  it "can share its file with another log of the program" . inDirectory $ \path -> do
    writers <- mapM (start . logs path) [1 .. 4 :: Int]
    mapM_ finish writers
    length . Char8.lines <$> ByteString.readFile path `shouldReturn` 400
  it "that cannot be written to throws at the beginning" . inDirectory $ \path -> do
    problem <- failsWith (withLog (logTo (path ++ "/no/log")) (\_ -> return ()))
    problem `shouldSatisfy` isDoesNotExistError
  it "says which lines are lost, and why, and goes on" $ do
    problems <- newIORef []
    isFull <- newIORef False
    taken <- newIORef ByteString.empty
    let full = mkIOError fullErrorType "test" Nothing Nothing
        target bytes = readIORef isFull >>= \now -> if now then throwIO full else modifyIORef' taken (<> bytes)
        settings = LogSettings (LogAction target) NoRotation (\problem -> modifyIORef problems (problem :))
    withLog settings $ \output -> do
      writeIORef isFull True
      mapM_ (logLine output) ["one", "two"]
      eventually "the log" (not . null <$> readIORef problems)
      writeIORef isFull False
      logLine output "three"
    readIORef problems `shouldReturn` [NotWritten 2 full]
    readIORef taken `shouldReturn` "three\n"
  it "drops lines that come faster than they are taken, says how many, and never holds up who logs" $ do
    problems <- newMVar []
    begun <- newEmptyMVar
    opened <- newEmptyMVar
    let target bytes = when (bytes /= "") (tryPutMVar begun () >> readMVar opened)
        settings = LogSettings (LogAction target) NoRotation (\problem -> modifyMVar_ problems (return . (problem :)))
        line = Char8.replicate 65535 'x'
    withLog settings $ \output -> do
      logLine output "held"
      takeMVar begun
      -- There is space for 64 of them.
      forM_ [1 .. 80 :: Int] (\_ -> logLine output line)
      putMVar opened ()
      eventually "the log" (not . null <$> readMVar problems)
    readMVar problems `shouldReturn` [Dropped 16]
  it "ends although its target takes no more, and says so" $ do
    problems <- newMVar []
    never <- newEmptyMVar
    let target bytes = when (bytes /= "") (takeMVar never)
        settings = LogSettings (LogAction target) NoRotation (\problem -> modifyMVar_ problems (return . (problem :)))
    withLog settings (`logLine` "lost")
    readMVar problems `shouldReturn` [EndedUnwritten]
    void (tryPutMVar never ())
  it "begins a new line where a write that failed has left part of one" . inDirectory $ \path -> do
    problems <- newIORef []
    withLog (logTo path) {logProblem = \problem -> modifyIORef problems (problem :)} $ \output -> do
      removeFile path
      -- Nobody can write to a directory.
      createDirectory path
      logLine output "lost"
      eventually "the problem" (not . null <$> readIORef problems)
      removeDirectory path
      ByteString.writeFile path "to"
      logLine output "two"
    ByteString.readFile path `shouldReturn` "to\ntwo\n"
  it "tells people what is missing, and why" $ do
    let full = ioeSetErrorString (mkIOError fullErrorType "test" Nothing Nothing) "the disk is full"
    map
      (describeLogProblem "the log")
      [NotWritten 1 full, NotWritten 7 full, Dropped 1, Dropped 2, EndedUnwritten]
      `shouldBe` [ "cannot write the log: the disk is full; 1 line lost",
                   "cannot write the log: the disk is full; up to 7 lines lost",
                   "1 line of the log dropped: they came faster than they could be written",
                   "2 lines of the log dropped: they came faster than they could be written",
                   "the log takes no more: its last lines are lost"
                 ]
  where
    numbers = map (Char8.pack . show) [10001 .. 12000 :: Int]
    logs path k = forM_ [1 .. 20 :: Int] $ \_ ->
      withLog (logTo path) (\output -> forM_ [1 .. 5 :: Int] (\_ -> logLine output (Char8.pack (show k))))
    inDirectory use = withTemporaryDirectory "." "millrace-test" (\directory -> use (directory ++ "/log"))
    -- Handles would refuse to read a file that is being written.
    attempted path = try (withFile path ForReading (\file -> readAt file 0 100000)) :: IO (Either IOError ByteString)
