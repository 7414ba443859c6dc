{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.File.Buffered", and the deadlines of files.
module BufferedSpec (spec) where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception (finally, mask_, throwIO, uninterruptibleMask_)
import Control.Monad (forM, forM_, replicateM, replicateM_, void, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.List (sort)
import Millrace.Deadline
import Millrace.File
import Millrace.File.Buffered
import Millrace.Simulation (calm, outcomeResult, simulate)
import qualified Millrace.Timer as Timer
import Scenario (scenarioPassesIn)
import Support
import System.Directory (findExecutable)
import System.IO.Error (isDoesNotExistError, isEOFError)
import System.Posix.Process (getProcessID)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.File.Buffered" $ do
    describe "on the system" (onFiles id)
    describe "on a simulated machine" . needingKnownLayout $
      onFiles (simulate (calm 1) >=> either throwIO return . outcomeResult)
    it "gives each line to one of several threads" $
      withLines (Char8.unlines [Char8.pack (show i) | i <- [1 .. 20000 :: Int]]) $ \file -> do
        reader <- newReader file 0
        jobs <- replicateM 8 (start (linesUntilEnd reader 100))
        found <- concat <$> mapM finish jobs
        sort (map (read . Char8.unpack) found) `shouldBe` [1 .. 20000 :: Int]
    it "skips and repeats nothing when threads are interrupted" $
      withLines "" $ \file -> do
        let wanted = [bytesWithoutEnds i | i <- [1 .. 3000]]
        writer <- newWriter file 0
        done <- newMVar (0 :: Int)
        -- Masked: otherwise an exception may come when the line is written, and before the number says so.
        let writeNext = mask_ . modifyMVar_ done $ \i ->
              if i == 3000
                then return i
                else (i + 1) <$ writeLine writer (wanted !! i)
        forM_ [1 .. 60] $ \seed -> do
          random <- newRandom seed
          delay <- below random 500
          job <- start (replicateM_ 400 writeNext)
          pause delay
          stop job
        replicateM_ 3000 writeNext
        flush writer
        reader <- newReader file 0
        got <- newMVar []
        let readNext = mask_ . modifyMVar_ got $ \before -> maybe before (: before) <$> readLine reader 5000
        forM_ [1 .. 60] $ \seed -> do
          random <- newRandom seed
          delay <- below random 500
          job <- start (replicateM_ 400 readNext)
          pause delay
          stop job
        replicateM_ 3000 readNext
        (== wanted) . reverse <$> readMVar got `shouldReturn` True
    it "skips nothing when exceptions come with the results" $
      withLines (Char8.unlines (map (Char8.pack . show) [1 .. 4000 :: Int])) $ \file -> do
        reader <- newReader file 0
        got <- newIORef []
        let note line = modifyIORef' got (maybe id (:) line)
            -- The exception is thrown while the step is masked, and so arrives with its end.
            interrupted = do
              job <- start (readLine reader 100)
              yield
              stop job
              outcomeOf job >>= either (const (return ())) note
        replicateM_ 2000 interrupted
        found <- linesUntilEnd reader 100
        before <- readIORef got
        map (read . Char8.unpack) (reverse before ++ found) == [1 .. 4000 :: Int] `shouldBe` True
    it "writes nothing twice when exceptions come with the results" $
      withLines "" $ \file -> do
        writer <- newWriter file 0
        let untilWritten i = do
              job <- start (writeLine writer (bytesWithoutEnds i))
              yield
              stop job
              outcomeOf job >>= either (const (untilWritten i)) return
        forM_ [1 .. 600] untilWritten
        flush writer
        reader <- newReader file 0
        found <- linesUntilEnd reader 5000
        found == map bytesWithoutEnds [1 .. 600] `shouldBe` True
  describe "deadlines of files" $ do
    it "let functions end that need not wait" $
      withLines "text" $ \file -> do
        later <- deadlineAfter (seconds 10)
        readAtBefore later file 0 100 `shouldReturn` "text"
        writeAtBefore later file 4 " more"
        syncBefore later file
        readAtBefore noDeadline file 0 100 `shouldReturn` "text more"
        openFileBefore later "missing" ForReading `shouldThrow` isDoesNotExistError
        readExactlyAtBefore later file 5 4 `shouldReturn` "more"
        readExactlyAtBefore later file 9 0 `shouldReturn` ""
        problem <- failsWith (readExactlyAtBefore later file 5 5)
        problem `shouldSatisfy` isEOFError
        show problem `shouldContain` "4 of the 5 bytes"
    it "end an action at once that cannot be interrupted, and give its result back" $ do
      result <- newEmptyMVar
      blocked <- newEmptyMVar
      soon <- deadlineAfter (milliseconds 20)
      outcome <- failsWith (Timer.finishBeforeOr soon (putMVar result) (uninterruptibleMask_ (takeMVar blocked)))
      outcome `shouldSatisfy` isDeadlineError
      putMVar blocked "late"
      within 5 "the result" (takeMVar result) `shouldReturn` ("late" :: String)
    it "give a result back whose caller was interrupted" $ do
      result <- newEmptyMVar
      blocked <- newEmptyMVar
      later <- deadlineAfter (minutes 1)
      job <- start (Timer.finishBeforeOr later (putMVar result) (uninterruptibleMask_ (takeMVar blocked)))
      pause 10000
      within 5 "the interruption" (stop job)
      putMVar blocked "late"
      within 5 "the result" (takeMVar result) `shouldReturn` ("late" :: String)
    it "interrupt an action that can be" $ do
      ended <- newEmptyMVar
      soon <- deadlineAfter (milliseconds 10)
      void (failsWith (Timer.finishBefore soon (Timer.threadDelay 60000000 `finally` putMVar ended ())) :: IO IOError)
      within 5 "the action" (takeMVar ended)
    it "pass results and exceptions on, however close they come" $ do
      results <- forM [1 .. 300] $ \seed -> do
        random <- newRandom seed
        delay <- below random 400
        given <- newEmptyMVar
        soon <- deadlineAfter (microseconds 200)
        job <- start (Timer.finishBeforeOr soon (putMVar given) (Timer.threadDelay delay >> return seed))
        outcome <- outcomeOf job
        case outcome of
          Right value -> (value == seed &&) <$> isEmptyMVar given
          Left _ -> return True
      and results `shouldBe` True
    it "fail where the system takes no byte" $ do
      strace <- findExecutable "strace"
      let injected = "strace -qq -f -o /dev/null -e trace=pwrite64,pwritev -e inject=pwrite64,pwritev:retval=0 "
      case strace of
        Nothing -> pendingWith "strace is not installed"
        Just _ ->
          scenarioPassesIn
            [ "sh",
              "-c",
              injected
                ++ "true 2>/dev/null || exit 77; MILLRACE_BACKEND=epoll exec "
                ++ injected
                ++ "\"$@\"",
              "sh"
            ]
            "writes-of-nothing"
    it "do not wait for a disk that has stopped" $ do
      strace <- findExecutable "strace"
      case strace of
        Nothing -> pendingWith "strace is not installed"
        Just _ ->
          scenarioPassesIn
            [ "sh",
              "-c",
              "strace -qq -f -o /dev/null -e trace=fsync -e inject=fsync:delay_enter=3000000 true 2>/dev/null || \
              \exit 77; MILLRACE_BACKEND=epoll exec strace -qq -f -o /dev/null -e trace=fsync -e \
              \inject=fsync:delay_enter=3000000 \"$@\"",
              "sh"
            ]
            "stopped-disk"

onFiles :: (IO () -> IO ()) -> Spec
onFiles run = do
  it "reads lines wherever its pieces end" . run $ do
    let texts =
          [ "first",
            "",
            "third",
            ByteString.replicate 70000 120,
            "with a return",
            ByteString.replicate 65535 121,
            "last"
          ]
    withLines (ByteString.intercalate "\n" (map withReturn texts)) $ \file -> do
      reader <- newReader file 0
      linesUntilEnd reader 70000 `shouldReturn` texts
      readLine reader 1 `shouldReturn` Nothing
      readerOffset reader >>= \end -> fileSize file `shouldReturn` end
  it "continues when the file has grown" . run $
    withLines "one\n" $ \file -> do
      reader <- newReader file 0
      linesUntilEnd reader 10 `shouldReturn` ["one"]
      writeAt file 4 "two\n"
      linesUntilEnd reader 10 `shouldReturn` ["two"]
  it "refuses a line that is too long, stays before it, and can pass over it" . run $
    withLines (ByteString.concat ["12345\r\n", ByteString.replicate 200000 120, "\nend"]) $ \file -> do
      reader <- newReader file 0
      failsWith (readLine reader 4) `shouldReturn` TooLong "line" 4
      readLine reader 5 `shouldReturn` Just "12345"
      failsWith (readLine reader 100000) `shouldReturn` TooLong "line" 100000
      readerOffset reader `shouldReturn` 7
      skipLine reader `shouldReturn` True
      readLine reader 3 `shouldReturn` Just "end"
      skipLine reader `shouldReturn` False
  it "mixes lines and bytes" . run $
    withLines "head\n12345tail\n" $ \file -> do
      reader <- newReader file 0
      readLine reader 10 `shouldReturn` Just "head"
      readBytes reader 5 `shouldReturn` "12345"
      readLine reader 10 `shouldReturn` Just "tail"
      readBytes reader 5 `shouldReturn` ""
  it "writes what it is given, in order, when it is flushed or has much" . run $
    withLines "before" $ \file -> do
      writer <- newWriter file 6
      writeLine writer "."
      fileSize file `shouldReturn` 6
      flush writer
      fileSize file `shouldReturn` 8
      forM_ [0 .. 99] $ \i -> writeBytes writer (bytesAt (i * 3000) 3000)
      writerOffset writer `shouldReturn` 300008
      size <- fileSize file
      size `shouldSatisfy` (> 200000)
      flush writer
      reader <- newReader file 0
      readLine reader 10 `shouldReturn` Just "before."
      let go position =
            readBytes reader 10000 >>= \bytes ->
              if ByteString.null bytes
                then return position
                else checkFrom position bytes >>= go
      go 0 `shouldReturn` 300000
  it "flushes at the end of an action, unless it throws" . run $
    withLines "" $ \file -> do
      withWriter file 0 (`writeBytes` "whole")
      fileSize file `shouldReturn` 5
      void
        (failsWith (withWriter file 5 (\writer -> writeBytes writer "lost" >> throwIO (userError "no"))) :: IO IOError)
      fileSize file `shouldReturn` 5
  where
    withReturn text = if text == "with a return" then text <> "\r" else text

linesUntilEnd :: Reader -> Int -> IO [ByteString]
linesUntilEnd reader most = readLine reader most >>= maybe (return []) (\line -> (line :) <$> linesUntilEnd reader most)

bytesWithoutEnds :: Int -> ByteString
bytesWithoutEnds i =
  Char8.pack (show i ++ ":")
    <> ByteString.map (\byte -> if byte `elem` [10, 13] then 0 else byte) (bytesAt i (i `mod` 700))

withLines :: ByteString -> (File -> IO a) -> IO a
withLines content use = do
  path <- ("millrace-buffered-" ++) . show <$> getProcessID
  (withFile path ForWriting (\file -> writeAt file 0 content) >> withFile path ForUpdating use)
    `finally` removeFile path
