{-# LANGUAGE OverloadedStrings #-}

-- | Log files, and logs that are full.
module LogSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (AsyncException (ThreadKilled), throwIO, try)
import Control.Monad (forM, forM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import GHC.Conc (BlockReason (BlockedOnMVar), ThreadStatus (ThreadBlocked), threadStatus)
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
        settings = LogSettings (LogAction target) NoRotation DropLines (\problem -> modifyIORef problems (problem :))
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
        keep problem = modifyMVar_ problems (return . (problem :))
        settings = LogSettings (LogAction target) NoRotation DropLines keep
        line = Char8.replicate 65535 'x'
    withLog settings $ \output -> do
      logLine output "held"
      takeMVar begun
      -- There is space for 64 of them.
      forM_ [1 .. 80 :: Int] (\_ -> logLine output line)
      putMVar opened ()
      eventually "the log" (not . null <$> readMVar problems)
    readMVar problems `shouldReturn` [Dropped 16]
  it "makes threads wait for lines that come faster than they are taken, if it is told to, and loses none" $
    withFullLog $ \full -> do
      jobs <- forM [1 .. 3 :: Int] $ \number -> do
        job <- start (logLine (fullLog full) (Char8.pack (show number)))
        job <$ eventually "the wait" (waits job)
      letThrough full
      mapM_ finish jobs
      eventually "the lines" ((== ["1", "2", "3"]) . drop 65 <$> linesTaken full)
      readIORef (fullProblems full) `shouldReturn` []
  it "leaves out a line whose thread is interrupted while it waits" $
    withFullLog $ \full -> do
      left <- start (logLine (fullLog full) "left out")
      eventually "the wait" (waits left)
      job <- start (logLine (fullLog full) "not left out")
      eventually "the wait" (waits job)
      stop left
      letThrough full
      finish job
      eventually "the line" ((== ["not left out"]) . drop 65 <$> linesTaken full)
      readIORef (fullProblems full) `shouldReturn` []
  it "makes nobody wait for a target that fails, and says how many lines are lost" $ do
    problems <- newIORef []
    let broken = mkIOError fullErrorType "test" Nothing Nothing
        target bytes = when (bytes /= "") (throwIO broken)
        keep problem = atomicModifyIORef' problems (\others -> (problem : others, ()))
    within 20 "the log" . withLog (LogSettings (LogAction target) NoRotation WaitForSpace keep) $ \output ->
      -- Three times as much as there is space for.
      forM_ [1 .. 192 :: Int] (\_ -> logLine output (Char8.replicate 65535 'x'))
    reported <- readIORef problems
    sum [count | NotWritten count _ <- reported] `shouldBe` 192
  it "writes the lines that wait when it ends" $
    withFullLog $ \full -> do
      job <- start (logLine (fullLog full) "the last one")
      eventually "the wait" (waits job)
      ending <- start (endLog (fullLog full))
      eventually "the end" (waits ending)
      letThrough full
      within 20 "the line" (finish job)
      finish ending
      drop 65 <$> linesTaken full `shouldReturn` ["the last one"]
      readIORef (fullProblems full) `shouldReturn` []
  it "lets threads go on that wait when it ends although its target takes no more" $
    withFullLog $ \full -> do
      job <- start (logLine (fullLog full) "lost")
      eventually "the wait" (waits job)
      endLog (fullLog full)
      within 20 "the line" (finish job)
      readIORef (fullProblems full) `shouldReturn` [EndedUnwritten]
      -- Nobody waits any more.
      forM_ [1 .. 200 :: Int] (\_ -> logLine (fullLog full) (Char8.replicate 65535 'x'))
  it "lets threads go on that wait when its own thread ends by an exception" $ do
    begun <- newEmptyMVar
    opened <- newEmptyMVar
    let target bytes = when (bytes /= "") (putMVar begun () >> takeMVar opened >> throwIO ThreadKilled)
    withLog (LogSettings (LogAction target) NoRotation WaitForSpace (\_ -> return ())) $ \output -> do
      logLine output "held"
      takeMVar begun
      fill output
      job <- start (logLine output "lost")
      eventually "the wait" (waits job)
      putMVar opened ()
      within 20 "the line" (finish job)
  it "ends although its target takes no more, and says so" $ do
    problems <- newMVar []
    never <- newEmptyMVar
    let target bytes = when (bytes /= "") (takeMVar never)
        keep problem = modifyMVar_ problems (return . (problem :))
        settings = LogSettings (LogAction target) NoRotation DropLines keep
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

-- A log that makes threads wait, and is full. Its target has taken a line, and takes no more yet.
data FullLog = FullLog
  { fullLog :: Log,
    fullProblems :: IORef [LogProblem],
    fullTaken :: IORef ByteString,
    fullOpened :: MVar ()
  }

withFullLog :: (FullLog -> IO a) -> IO a
withFullLog use = do
  problems <- newIORef []
  taken <- newIORef ByteString.empty
  begun <- newEmptyMVar
  opened <- newEmptyMVar
  let target bytes = when (bytes /= "") $ do
        _ <- tryPutMVar begun ()
        readMVar opened
        modifyIORef' taken (<> bytes)
      settings = LogSettings (LogAction target) NoRotation WaitForSpace (\problem -> modifyIORef problems (problem :))
  withLog settings $ \output -> do
    logLine output "held"
    takeMVar begun
    fill output
    use (FullLog output problems taken opened)

-- As many lines as there is space for.
fill :: Log -> IO ()
fill output = forM_ [1 .. 64 :: Int] (\_ -> logLine output (Char8.replicate 65535 'x'))

letThrough :: FullLog -> IO ()
letThrough full = putMVar (fullOpened full) ()

linesTaken :: FullLog -> IO [ByteString]
linesTaken full = Char8.lines <$> readIORef (fullTaken full)

waits :: Job a -> IO Bool
waits job = (== ThreadBlocked BlockedOnMVar) <$> threadStatus (jobThread job)
