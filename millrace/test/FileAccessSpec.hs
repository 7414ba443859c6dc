{-# LANGUAGE OverloadedStrings #-}

-- | All ways to open, read, write, lock and copy files, and temporary files.
module FileAccessSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (try)
import Control.Monad (forM, forM_, replicateM_)
import Data.Bits ((.&.))
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr)
import Data.IORef
import DirectorySupport
import Foreign.C.Error (eEXIST, eISDIR, eLOOP)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (castPtr)
import Millrace.Deadline (deadlineAfter, isDeadlineError, milliseconds, monotonicNanoseconds)
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Temporary
import qualified Millrace.Manager as Manager
import qualified Millrace.Timer as Timer
import Support
import System.IO.Error (ioeGetFileName, tryIOError)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.File.Access" $
    around inTree $ do
      it "opens as it was asked to" $ \root -> do
        let path = root ++ "/file"
        withFileWith path WriteOnly [CreateWith (Permissions 0o600), Exclusive] (`append` "one ")
        withFileWith path WriteOnly [Append] (`append` "two")
        contents path `shouldReturn` "one two"
        failsWith (openFileWith path WriteOnly [CreateWith (Permissions 0o600), Exclusive])
          >>= (`shouldSatisfy` hasCode eEXIST)
        createSymbolicLink path (root ++ "/link")
        failsWith (openFileWith (root ++ "/link") ReadOnly [NoFollow]) >>= (`shouldSatisfy` hasCode eLOOP)
        withFileWith path ReadWrite [Truncate] fileSize `shouldReturn` 0
      it "writes whole pieces when many threads append" $ \root -> do
        let path = root ++ "/log"
        withFileWith path WriteOnly [CreateWith (Permissions 0o600), Append] $ \file -> do
          jobs <- forM [0 .. 19] $ \i ->
            start (forM_ [1 .. 20 :: Int] (\_ -> append file (ByteString.replicate 1000 i)))
          mapM_ finish jobs
        whole <- contents path
        ByteString.length whole `shouldBe` 20 * 20 * 1000
        forM_ [0 .. 399] $ \i -> do
          let piece = ByteString.take 1000 (ByteString.drop (i * 1000) whole)
          piece `shouldBe` ByteString.replicate 1000 (ByteString.head piece)
      it "reads and writes vectors" $ \root -> withFile (root ++ "/file") ForWriting $ \file -> do
        let pieces = [bytesAt (i * 100) 100 | i <- [0 .. 2999]]
        writeVectorAt file 7 pieces
        readAll file 7 `shouldReturn` bytesAt 0 300000
        parts <- readVectorAt file 7 [1, 10, 1000]
        parts `shouldBe` [bytesAt 0 1, bytesAt 1 10, bytesAt 11 1000]
      it "reads and writes memory, also past the system's" $ \root -> do
        let path = root ++ "/direct"
        memory <- directMemory 8192
        withForeignPtr memory $ \address ->
          ByteString.useAsCStringLen (bytesAt 0 8192) $ \(from, size) -> copyBytes address (castPtr from) size
        outcome <- try (openFileWith path ReadWrite [CreateWith (Permissions 0o600), Direct])
        case outcome of
          Left problem -> pendingWith ("no direct access here: " ++ show (problem :: IOError))
          Right file -> do
            writeFromMemory file 4096 memory 8192
            other <- directMemory 8192
            readIntoMemory file 4096 other 8192 `shouldReturn` 8192
            -- An operation or a helper waits for the disk, and never a call that holds the capability.
            before <- Manager.operations <$> Manager.counters
            replicateM_ 10 (readIntoMemory file 4096 other 8192)
            after <- Manager.operations <$> Manager.counters
            (after - before) `shouldSatisfy` (>= 10)
            closeFile file
            (ByteString.drop 4096 <$> contents path) `shouldReturn` bytesAt 0 8192
      it "writes no more into memory when it was interrupted" $ \root -> do
        let path = root ++ "/direct"
            size = 1048576
        write path (ByteString.replicate size 1)
        outcome <- try (openFileWith path ReadOnly [Direct])
        case outcome of
          Left problem -> pendingWith ("no direct access here: " ++ show (problem :: IOError))
          Right file -> do
            memory <- directMemory size
            random <- newRandom 11
            forM_ [1 .. 100 :: Int] $ \_ -> do
              delay <- below random 500
              reader <- start (readIntoMemory file 0 memory size)
              pause delay
              stop reader
              withForeignPtr memory $ \address -> fillBytes address 0 size
              pause 3000
              ByteString.all (== 0) (fromForeignPtr memory 0 size) `shouldBe` True
            closeFile file
      it "changes sizes, and makes and fills holes" $ \root -> withFile (root ++ "/file") ForWriting $ \file -> do
        setFileSize file 100000
        readAt file 0 3 `shouldReturn` "\0\0\0"
        allocate file 0 200000
        fileSize file `shouldReturn` 200000
        writeAt file 0 (ByteString.replicate 65536 1)
        punchHole file 0 65536
        readAt file 0 3 `shouldReturn` "\0\0\0"
        syncData file
      it "locks a file against others, and waits for a lock without a thread" $ \root -> do
        let path = root ++ "/lock"
            open = openFileWith path ReadWrite [CreateWith (Permissions 0o600)]
        one <- open
        other <- open
        lockFile one Sole
        tryLockFile other Shared `shouldReturn` False
        Timer.timeout 20000 (lockFile other Sole) `shouldReturn` Nothing
        begin <- monotonicNanoseconds
        soon <- deadlineAfter (milliseconds 20)
        failsWith (withLockedFileBefore soon other Shared (expectationFailure "it is locked twice"))
          >>= (`shouldSatisfy` isDeadlineError)
        end <- monotonicNanoseconds
        (end - begin) `shouldSatisfy` (\spent -> spent >= 20000000 && spent < 2000000000)
        waiter <- start (withLockedFile other Sole (return ()))
        unlockFile one
        within 5 "the lock" (finish waiter)
        lockFile one Shared
        tryLockFile other Shared `shouldReturn` True
        closeFile one >> closeFile other
      it "copies a file with its permissions, and leaves nothing behind if it is interrupted" $ \root -> do
        let path = root ++ "/file"
        withFile path ForWriting $ \file ->
          forM_ [0 .. 39] $ \i -> writeAt file (i * 1000000) (bytesAt (fromIntegral i * 1000000) 1000000)
        setPermissions path (Permissions 0o751)
        copyFile path (root ++ "/copy")
        (statusPermissions <$> status (root ++ "/copy")) `shouldReturn` Permissions 0o751
        -- The usual umask would take one of these away.
        forM_ [0o4664, 0o777, 0o400] $ \bits -> do
          write (root ++ "/small") "x"
          setPermissions (root ++ "/small") (Permissions bits)
          copyFile (root ++ "/small") (root ++ "/small copy")
          (statusPermissions <$> status (root ++ "/small copy")) `shouldReturn` Permissions (bits .&. 0o777)
          mapM_ (\name -> removeFile (root ++ name)) ["/small", "/small copy"]
        withFile (root ++ "/copy") ForReading (`readAll` 0) `shouldReturn` bytesAt 0 40000000
        failsWith (copyFile path (root ++ "/copy")) >>= (`shouldSatisfy` hasCode eEXIST)
        failsWith (copyFile (root ++ "/none") (root ++ "/third")) >>= \problem -> do
          ioeGetFileName problem `shouldBe` Just (root ++ "/none")
          show problem `shouldContain` "Millrace.File.Access.copyFile"
        failsWith (copyFile root (root ++ "/third")) >>= (`shouldSatisfy` hasCode eISDIR)
        exists (root ++ "/third") `shouldReturn` False
        began <- newEmptyMVar
        copying <-
          start (copyFileReporting path (root ++ "/second") (\_ _ -> putMVar began () >> Timer.threadDelay 10000000))
        takeMVar began
        stop copying
        exists (root ++ "/second") `shouldReturn` False
      it "copies a small file by one call of a helper, and reports it" $ \root -> do
        write (root ++ "/file") "content"
        reports <- newIORef []
        before <- Manager.helpersDone <$> Manager.helperCounts
        copyFileReporting (root ++ "/file") (root ++ "/copy") (curry (\report -> modifyIORef reports (report :)))
        after <- Manager.helpersDone <$> Manager.helperCounts
        after - before `shouldBe` 1
        readIORef reports `shouldReturn` [(7, 7)]
        contents (root ++ "/copy") `shouldReturn` "content"
        failsWith (copyFileReporting (root ++ "/file") (root ++ "/other") (\_ _ -> ioError (userError "no")))
          >>= \problem -> show (problem :: IOError) `shouldContain` "no"
        exists (root ++ "/other") `shouldReturn` False
      it "copies files whose size the system does not know" $ \root -> do
        copyFile "/proc/self/maps" (root ++ "/copy")
        contents (root ++ "/copy") >>= (`shouldSatisfy` (not . ByteString.null))
      it "leaves no copy behind when it is interrupted, at whatever moment" $ \root -> do
        let path = root ++ "/file"
            copied = root ++ "/copy"
        write path "content"
        random <- newRandom 7
        forM_ [1 .. 500 :: Int] $ \_ -> do
          delay <- below random 300
          copying <- start (copyFile path copied)
          pause delay
          stop copying
          -- A helper that was opening the copy removes it a little later.
          outcomeOf copying >>= either (\_ -> exists copied `shouldBecome` False) (\() -> removeFile copied)
  describe "Millrace.File.Temporary" $
    around inTree $ do
      it "removes what it has made, whatever the action does" $ \root -> do
        path <- withTemporaryFile root "name" $ \path file ->
          writeAt file 0 "x" >> (exists path `shouldReturn` True) >> return path
        exists path `shouldReturn` False
        outcome <-
          try
            ( withTemporaryDirectory root "name" $ \directory ->
                write (directory ++ "/file") "x" >> ioError (userError "no")
            )
        either (const (return ())) (const (expectationFailure "no exception")) (outcome :: Either IOError ())
        list root `shouldReturn` []
        withNamelessFile root (\file -> writeAt file 0 "x" >> list root) `shouldReturn` []
      it "replaces a file as a whole or not at all" $ \root -> do
        let path = root ++ "/file"
        write path "old"
        setPermissions path (Permissions 0o640)
        outcome <- try (replaceFile path (\file -> writeAt file 0 "half" >> ioError (userError "no")))
        either (const (return ())) (const (expectationFailure "no exception")) (outcome :: Either IOError ())
        contents path `shouldReturn` "old"
        replaceFile path (\file -> writeAt file 0 "new")
        contents path `shouldReturn` "new"
        (statusPermissions <$> status path) `shouldReturn` Permissions 0o640
        (map entryName <$> list root) `shouldReturn` ["file"]
      it "names the file that it replaces in its errors" $ \root -> do
        let fails path change = either ioeGetFileName (\() -> Nothing) <$> tryIOError (replaceFile path change)
        createDirectory (root ++ "/directory") ownerOnly
        fails (root ++ "/missing/file") (\_ -> return ()) `shouldReturn` Just (root ++ "/missing/file")
        fails (root ++ "/directory") (\_ -> return ()) `shouldReturn` Just (root ++ "/directory")
        fails (root ++ "/file") (\file -> writeAt file (-1) "x") `shouldReturn` Just (root ++ "/file")
        (map entryName <$> list root) `shouldReturn` ["directory"]
