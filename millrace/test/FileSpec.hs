{-# LANGUAGE RankNTypes #-}

-- | "Millrace.File": files of the system, and those of a simulated machine with its faults.
module FileSpec (spec) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, bracket_, throwIO, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Either (isLeft)
import Data.Int (Int64)
import Foreign.C.Error (eSPIPE)
import GHC.IO.Exception (IOErrorType (InvalidArgument, OtherError))
import Millrace.File
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.File
import Support (bytesAt, forSeeds, hasCode, needingKnownLayout, receiveExactly)
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.IO.Error (ioeGetErrorString, ioeGetErrorType, isDoesNotExistError, isFullError)
import System.Posix.Files (createNamedPipe)
import System.Posix.Process (getProcessID)
import Test.Hspec

spec :: Spec
spec = describe "Millrace.File" $ do
  describe "on the system" $ do
    onFiles inDirectory

    it "refuses a FIFO at once, where opening it would wait for its other end" $
      inDirectory $ \directory -> do
        let path = directory </> "fifo"
        createNamedPipe path 0o600
        outcomes <- forM [minBound .. maxBound] $ \mode -> try (withFile path mode fileSize)
        outcomes `shouldSatisfy` all (either (hasCode eSPIPE) (const False))

    it "opens a directory, to sync it" $ inDirectory $ \directory -> withFile directory ForReading sync
  describe "on a simulated machine" . needingKnownLayout $ do
    onFiles (\test -> simulate (calm 1) (test "") >>= resultOf)

    it "loses nothing to short transfers, delays and interruptions" $
      forSeeds 100 $ \seed -> do
        outcome <- simulate (calm seed) {planFaultRates = [(f, 200000) | f <- [ShortTransfer, Delay, Interrupted]]} $
          withFile "file" ForUpdating $ \file -> do
            forM_ [0 .. 20] $ \i -> writeAt file (i * 100) (bytesAt (fromIntegral i * 100) 100) >> sync file
            readAll file 0
        resultOf outcome >>= (`shouldBe` bytesAt 0 2100)
        outcomeFaults outcome `shouldSatisfy` (> 0)
        outcomeOpenDescriptors outcome `shouldBe` 0

    it "fills up" $ do
      outcome <- simulate (calm 2) {planDiskBytes = 1000} $
        withFile "file" ForWriting $ \file -> do
          writeAt file 0 (bytesAt 0 900)
          full <- try (writeAt file 900 (bytesAt 900 200))
          kept <- readAll file 0
          removeFile "file"
          return (either isFullError (const False) full, kept)
      resultOf outcome >>= (`shouldBe` (True, bytesAt 0 1000)) -- the bytes that fitted on the disk
    it "is full where the plan says so" $ do
      outcome <- simulate (calm 3) {planFaults = [(2, DiskFull), (4, DiskFull), (5, DiskFull)]} $
        withFile "file" ForWriting $ \file -> do
          -- operation 1
          first <- try (writeAt file 0 (Char8.pack "x"))
          writeAt file 0 (Char8.pack "y")
          second <- try (sync file)
          third <- try (openFile "other" ForWriting)
          return
            [ either isFullError (const False) first,
              either isFullError (const False) second,
              either isFullError (const False) third
            ]
      resultOf outcome >>= (`shouldBe` [True, True, True])

    it "gives the same trace for the same seed" $
      forSeeds 100 $ \seed -> do
        let machine = simulate (troubled seed) {planDiskBytes = 5000} manyWriters
        first <- machine
        second <- machine
        unless (outcomeTrace first == outcomeTrace second) $ expectationFailure ("seed " ++ show seed)
        outcomeOpenDescriptors second `shouldBe` 0

-- The examples that must pass for every file. The function runs a test in a new directory.
onFiles :: (forall a. (FilePath -> IO a) -> IO a) -> Spec
onFiles run = do
  it "reads what was written, at any offset" $ do
    parts <- run $ \directory -> withFile (directory </> "file") ForUpdating $ \file -> do
      writeAt file 10 (Char8.pack "abcdef")
      writeAt file 12 (Char8.pack "XY")
      sync file
      sequence [readAt file 0 11, readAt file 11 100, readAt file 16 100]
    parts `shouldBe` [ByteString.replicate 10 0 <> Char8.pack "a", Char8.pack "bXYef", ByteString.empty]

  it "writes and reads more than a mebibyte" $ do
    (size, again) <- run $ \directory -> withFile (directory </> "file") ForUpdating $ \file -> do
      writeAt file 0 (bytesAt 0 large)
      (,) <$> fileSize file <*> readAll file 0
    size `shouldBe` fromIntegral large
    again == bytesAt 0 large `shouldBe` True

  it "opens as it was asked to" $ do
    (missing, readOnly, kept, emptied) <- run $ \directory -> do
      let path = directory </> "file"
      missing <- try (openFile path ForReading)
      withFile path ForWriting $ \file -> writeAt file 0 (Char8.pack "some text")
      readOnly <- try (withFile path ForReading $ \file -> writeAt file 0 (Char8.pack "x"))
      kept <- withFile path ForUpdating fileSize
      emptied <- withFile path ForWriting fileSize
      return (either isDoesNotExistError (const False) missing, readOnly, kept, emptied)
    missing `shouldBe` True
    (readOnly :: Either IOError ()) `shouldSatisfy` isLeft
    (kept, emptied) `shouldBe` (9, 0)

  it "refuses a path with a NUL, and leaves alone the file that is named by what comes before" $ do
    (outcomes, kept) <- run $ \directory -> do
      let path = directory </> "file"
      withFile path ForWriting $ \file -> writeAt file 0 (Char8.pack "some text")
      outcomes <- mapM try [withFile (path ++ "\NUL.old") ForWriting (\_ -> return ()), removeFile (path ++ "\NUL.old")]
      kept <- withFile path ForReading fileSize
      return (outcomes, kept)
    map (either ioeGetErrorType (const OtherError)) outcomes `shouldBe` [InvalidArgument, InvalidArgument]
    kept `shouldBe` 9

  it "names the file and the call in errors" $ do
    problem <- run $ \directory -> do
      file <- openFile (directory </> "file") ForWriting
      closeFile file
      try (readAt file 0 1)
    either show show (problem :: Either IOError ByteString)
      `shouldSatisfy` \text ->
        all (\part -> part `ByteString.isInfixOf` Char8.pack text) [Char8.pack "readAt", Char8.pack "file"]

  it "throws what the action throws, although closing fails" $ do
    outcome <- run $ \directory -> try $
      withFile (directory </> "file") ForWriting $ \file -> do
        closeFile file
        ioError (userError "the action's own")
    either ioeGetErrorString (const "") (outcome :: Either IOError ()) `shouldBe` "the action's own"

  it "serves many threads at once" $ do
    parts <- run $ \directory -> withFile (directory </> "file") ForUpdating $ \file -> do
      ends <- forM [0 .. 19] $ \i -> do
        end <- newEmptyMVar
        void $
          forkIO $
            ( try (writeAt file (i * 1000) (bytesAt (fromIntegral i * 1000) 1000) >> readAt file (i * 1000) 1000) ::
                IO (Either IOError ByteString)
            )
              >>= putMVar end
        return end
      mapM takeMVar ends >>= mapM (either throwIO return)
    parts `shouldBe` [bytesAt (i * 1000) 1000 | i <- [0 .. 19]]

  it "is what sendFile sends" $ do
    received <- run $ \directory -> withFile (directory </> "file") ForUpdating $ \file -> do
      writeAt file 0 (bytesAt 0 5000)
      pair <- socketPair AF_UNIX Stream defaultProtocol
      bracket (return pair) (\(a, b) -> close a >> close b) $ \(here, there) -> do
        void $ sendFile here (fileDescriptor file) 1000 2000
        receiveExactly there 1000 2000
    received `shouldBe` 3000

large :: Int
large = 2500000

readAll :: File -> Int64 -> IO ByteString
readAll file offset = do
  part <- readAt file offset large
  if ByteString.null part
    then return part
    else (part <>) <$> readAll file (offset + fromIntegral (ByteString.length part))

-- Threads that write to one file until they have met an error or come to their end.
manyWriters :: IO ()
manyWriters = do
  opened <-
    try
      ( withFile "file" ForUpdating $ \file -> do
          ends <- forM [0 .. 4] $ \i -> do
            end <- newEmptyMVar
            void $
              forkIO $
                ( try
                    ( replicateM_
                        10
                        (chance 6000 >>= \offset -> writeAt file (fromIntegral offset) (bytesAt i 100) >> sync file)
                    ) ::
                    IO (Either IOError ())
                )
                  >>= putMVar end
            return end
          mapM_ takeMVar ends
      )
  either (\problem -> note (show (problem :: IOError))) return opened

resultOf :: Outcome a -> IO a
resultOf = either throwIO return . outcomeResult

inDirectory :: (FilePath -> IO a) -> IO a
inDirectory test = do
  root <- getTemporaryDirectory
  process <- getProcessID
  let directory = root </> ("millrace-files-" ++ show process)
  bracket_ (createDirectory directory) (removeDirectoryRecursive directory) (test directory)
