{-# LANGUAGE OverloadedStrings #-}

-- | Directories, the other ways to use files, temporary files, and watches.
module DirectorySpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void, when, (>=>))
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr)
import Data.IORef
import Data.List (find, sort)
import qualified Data.Set as Set
import Foreign.C.Error (eBADF, eEXIST, eLOOP, eNOENT, eNOTEMPTY)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (castPtr)
import Millrace.Deadline (deadlineAfter, isDeadlineError, monotonicNanoseconds)
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Temporary
import qualified Millrace.Manager as Manager
import qualified Millrace.Timer as Timer
import Millrace.Watch
import Scenario (scenarioPassesIn)
import Support
import System.Directory (listDirectory, renameFile)
import qualified System.Posix.Files as Files
import System.Posix.User (getEffectiveUserID)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.Directory" $
    around inTree $ do
      it "makes, lists and removes directories" $ \root -> do
        createDirectories (root ++ "/a/b/c") ownerOnly
        createDirectories (root ++ "/a/b/c") ownerOnly
        write (root ++ "/a/file") "x"
        createSymbolicLink "file" (root ++ "/a/link")
        found <- sort . map (\entry -> (entryName entry, entryKind entry)) <$> list (root ++ "/a")
        found `shouldBe` [("b", Directory), ("file", RegularFile), ("link", SymbolicLink)]
        failsWith (removeDirectory (root ++ "/a")) >>= (`shouldSatisfy` hasCode eNOTEMPTY)
        removeTree (root ++ "/a")
        exists (root ++ "/a") `shouldReturn` False
      it "removes nothing behind a link that takes the place of a directory" $ \root -> do
        let tree = root ++ "/tree"
        createDirectory (root ++ "/other") ownerOnly
        write (root ++ "/other/precious") "x"
        flipping <- start (forever (void (attempt (exchange (tree ++ "/a") (tree ++ "/b")))))
        forM_ [1 .. 200 :: Int] $ \_ -> do
          void (attempt (createDirectories (tree ++ "/a") ownerOnly))
          void (attempt (write (tree ++ "/a/own") "x"))
          void (attempt (createSymbolicLink "../other" (tree ++ "/b")))
          void (attempt (removeTree tree))
        stop flipping
        exists (root ++ "/other/precious") `shouldReturn` True
      it "knows that nothing is below a file" $ \root -> do
        write (root ++ "/file") "x"
        exists (root ++ "/file/below") `shouldReturn` False
      it "names the function and the path in errors" $ \root -> do
        problem <- failsWith (status (root ++ "/none"))
        problem `shouldSatisfy` hasCode eNOENT
        show problem `shouldContain` "Millrace.Directory.status"
        show problem `shouldContain` "/none"
      it "knows sizes, permissions, times and links" $ \root -> do
        let path = root ++ "/file"
        write path "12345"
        setPermissions path (Permissions 0o640)
        setTimes path Nothing (Just (Time 1000000000 5000))
        createLink path (root ++ "/other")
        known <- status (root ++ "/other")
        (statusSize known, statusPermissions known, statusModified known, statusLinks known, statusKind known)
          `shouldBe` (5, Permissions 0o640, Time 1000000000 5000, 2, RegularFile)
        (statusInode <$> withFile path ForReading fileStatus) `shouldReturn` statusInode known
        createSymbolicLink "nowhere" (root ++ "/link")
        readSymbolicLink (root ++ "/link") `shouldReturn` "nowhere"
        exists (root ++ "/link") `shouldReturn` False
        (statusKind <$> linkStatus (root ++ "/link")) `shouldReturn` SymbolicLink
      it "renames, also only if the new name is new, and exchanges" $ \root -> do
        let one = root ++ "/one"
            two = root ++ "/two"
        write one "1" >> write two "2"
        failsWith (renameNew one two) >>= (`shouldSatisfy` hasCode eEXIST)
        exchange one two
        contents one `shouldReturn` "2"
        rename one two
        contents two `shouldReturn` "2"
        exists one `shouldReturn` False
      it "walks a tree, and stops at a loop of links" $ \root -> do
        createDirectories (root ++ "/d/e") ownerOnly
        write (root ++ "/d/e/f") ""
        createSymbolicLink ".." (root ++ "/d/loop")
        let visited follow = do
              seen <- newIORef []
              walk root follow (\entry -> modifyIORef seen (drop (length root + 1) (entryPath entry) :))
              sort <$> readIORef seen
        visited Never `shouldReturn` ["d", "d/e", "d/e/f", "d/loop"]
        visited Always `shouldReturn` ["d", "d/e", "d/e/f", "d/loop"]
      it "lists many names in other scripts" $ \root -> do
        let names = [root ++ "/näme-" ++ show i | i <- [1 .. 500 :: Int]]
        ends <- forM names $ \path -> start (write path "")
        mapM_ finish ends
        (sort . map entryPath <$> list root) `shouldReturn` sort names
      it "reads of a large directory only as much as its consumer wants" $ \root -> withMany root $ \many -> do
        (seen, calls) <-
          countingCalls
            (foldEntries many (0 :: Int) (\count _ -> return (if count == 9 then Stop 10 else Proceed (count + 1))))
        (seen, calls) `shouldBe` (10, 1)
        (first, callsOfStream) <- countingCalls (withDirectory many (replicateM 10 . nextEntry))
        (length first, callsOfStream) `shouldBe` (10, 1)
        (below', callsOfTree) <-
          countingCalls
            (foldTree root Never (0 :: Int) (\count _ -> return (if count == 10 then Stop 10 else Proceed (count + 1))))
        (below', callsOfTree) `shouldBe` (10, 2)
        (names, callsOfAll) <-
          countingCalls
            (foldEntries many Set.empty (\names entry -> return (Proceed (Set.insert (entryName entry) names))))
        Set.size names `shouldBe` manyNames
        callsOfAll `shouldSatisfy` (\calls' -> calls' > 5 && calls' < 40)
      it "needs constant memory for a large directory" $ \root -> withMany root $ \many -> do
        let growthOf run = do
              before <- liveBytes
              most <- newIORef 0
              let look count = when (count `mod` 2000 == 0) (liveBytes >>= modifyIORef' most . max . subtract before)
              run (\count _ -> (count + 1 :: Int) <$ look count) `shouldReturn` manyNames
              readIORef most
            going step count entry = Proceed <$> step count entry
        growthOf (foldEntries many 0 . going) >>= (`shouldSatisfy` (< 1000000))
        growthOf (foldTree many Never 0 . going) >>= (`shouldSatisfy` (< 1000000))
        growthOf
          ( \step ->
              withDirectory
                many
                (\stream -> let next count = nextEntry stream >>= maybe (return count) (step count >=> next) in next 0)
          )
          >>= (`shouldSatisfy` (< 1000000))
      it "loses no name when a thread is interrupted, and returns none twice" $ \root ->
        withMany root $ \many -> withDirectory many $ \stream -> do
          random <- newRandom 3
          interrupted <- newIORef (0 :: Int)
          let collect found = do
                delay <- below random 200
                outcome <- Timer.timeout (fromIntegral delay) (nextEntry stream)
                case outcome of
                  Nothing -> modifyIORef' interrupted (+ 1) >> collect found
                  Just Nothing -> return found
                  Just (Just entry) -> collect (entryName entry : found)
          found <- collect []
          (length found, Set.size (Set.fromList found)) `shouldBe` (manyNames, manyNames)
          readIORef interrupted >>= (`shouldSatisfy` (> 5))
      it "closes a directory whatever happens, at whatever moment" $ \root -> withMany root $ \many -> do
        let failing run =
              void
                ( run
                    ( \count _ ->
                        if count == 15000
                          then throwIO (userError "no")
                          else return (Proceed (count + 1 :: Int))
                    )
                )
                `shouldThrow` anyIOException
        failing (foldEntries many 0)
        failing (foldTree root Never 0)
        random <- newRandom 5
        forM_ [1 .. 200 :: Int] $ \i -> do
          delay <- below random (if even i then 500 else 20000)
          reader <- start (void (foldTree root Never () (\() _ -> return (Proceed ()))))
          pause delay
          stop reader
        stream <- openDirectory many
        closeDirectory stream
        closeDirectory stream
        failsWith (nextEntry stream) >>= (`shouldSatisfy` hasCode eBADF)
        descriptorOf many `shouldBecome` Nothing
      it "walks a tree that its visitor changes" $ \root -> do
        forM_ [1 .. 5 :: Int] $ \i -> createDirectories (root ++ "/" ++ show i ++ "/below/more") ownerOnly
        seen <- newIORef []
        walk root Never $ \entry -> do
          modifyIORef seen (entryName entry :)
          -- It is still visited, and then skipped.
          when (entryName entry == "below") (removeTree (entryPath entry))
        (sort <$> readIORef seen) `shouldReturn` sort (map show [1 .. 5 :: Int] ++ replicate 5 "below")
      it "removes a large directory" $ \root -> withMany root $ \many -> do
        removeTree many
        exists many `shouldReturn` False
      it "does not follow links below" $ \root -> do
        createDirectories (root ++ "/other/inside") ownerOnly
        createDirectory (root ++ "/tree") ownerOnly
        createDirectory (root ++ "/tree/a") ownerOnly
        seen <- newIORef []
        walk (root ++ "/tree") Never $ \entry -> do
          modifyIORef seen (entryName entry :)
          -- A link takes the place of the directory after it was visited.
          removeDirectory (entryPath entry) >> createSymbolicLink "../other" (entryPath entry)
        readIORef seen `shouldReturn` ["a"]
      it "tells how much room there is" $ \root -> do
        known <- space root
        spaceTotal known `shouldSatisfy` (>= spaceAvailable known)
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
        withForeignPtr memory $ \place ->
          ByteString.useAsCStringLen (bytesAt 0 8192) $ \(from, size) -> copyBytes place (castPtr from) size
        outcome <- try (openFileWith path ReadWrite [CreateWith (Permissions 0o600), Direct])
        case outcome of
          Left problem -> pendingWith ("no direct access here: " ++ show (problem :: IOError))
          Right file -> do
            writeFromMemory file 4096 memory 8192
            other <- directMemory 8192
            readIntoMemory file 4096 other 8192 `shouldReturn` 8192
            -- The disk is waited for by an operation or a helper, and never within a call that holds the capability.
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
              withForeignPtr memory $ \place -> fillBytes place 0 size
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
        soon <- deadlineAfter 20000
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
        began <- newEmptyMVar
        copying <-
          start (copyFileReporting path (root ++ "/second") (\_ _ -> putMVar began () >> Timer.threadDelay 10000000))
        takeMVar began
        stop copying
        exists (root ++ "/second") `shouldReturn` False
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
  describe "Millrace.Watch" $
    around inTree $ do
      it "reports what happens in a tree that grows, and pairs renames" $ \root ->
        withWatch [root] Recursive $ \watch -> do
          createDirectories (root ++ "/a/b") ownerOnly
          seen <- eventsUntil watch (Event (root ++ "/a/b") Created)
          seen `shouldSatisfy` elem (Event (root ++ "/a") Created)
          write (root ++ "/a/b/file") "x"
          void $ eventsUntil watch (Event (root ++ "/a/b/file") Written)
          rename (root ++ "/a/b/file") (root ++ "/a/other")
          void $ eventsUntil watch (Event (root ++ "/a/b/file") (RenamedTo (root ++ "/a/other")))
          rename (root ++ "/a/b") (root ++ "/c")
          void $ eventsUntil watch (Event (root ++ "/a/b") (RenamedTo (root ++ "/c")))
          write (root ++ "/c/file") "x"
          void $ eventsUntil watch (Event (root ++ "/c/file") Created)
          removeFile (root ++ "/c/file")
          void $ eventsUntil watch (Event (root ++ "/c/file") Removed)
      it "tells what has left and what has come" $ \root -> do
        createDirectories (root ++ "/in") ownerOnly
        write (root ++ "/outside") "x"
        withWatch [root ++ "/in"] Flat $ \watch -> do
          rename (root ++ "/outside") (root ++ "/in/file")
          void $ eventsUntil watch (Event (root ++ "/in/file") MovedIn)
          rename (root ++ "/in/file") (root ++ "/outside")
          void $ eventsUntil watch (Event (root ++ "/in/file") MovedAway)
      it "loses nothing when threads are interrupted" $ \root -> do
        let names = map show [1 .. 100 :: Int]
            inside name = root ++ "/in/" ++ name
        mapM_ (`createDirectories` ownerOnly) ((root ++ "/in") : map ((root ++ "/out/") ++) names)
        withWatch [root ++ "/in"] Recursive $ \watch -> do
          random <- newRandom 1
          let interruptedUntil wanted seen
                | all (`elem` seen) wanted = return ()
                | otherwise = do
                  job <- start (nextEvents watch)
                  below random 4000 >>= pause
                  stop job
                  outcomeOf job >>= interruptedUntil wanted . either (const seen) (++ seen)
          -- Each has one half only, so that the call waits for the other one.
          mover <- start (forM_ names (\name -> rename (root ++ "/out/" ++ name) (inside name) >> pause 1000))
          within 30 "the directories" (interruptedUntil [Event (inside name) MovedIn | name <- names] [])
          finish mover
          mapM_ (\name -> write (inside name ++ "/file") "x") names
          within 30 "the files" (interruptedUntil [Event (inside name ++ "/file") Created | name <- names] [])
      it "reports that what was named is renamed, and then no longer watches it" $ \root -> do
        let quiet watch = do
              soon <- deadlineAfter 20000
              failsWith (nextEventsBefore soon watch) >>= (`shouldSatisfy` isDeadlineError)
            -- The kernel may tell late that the file from before was closed.
            moved watch = do
              events <- filter ((/= Written) . eventChange) <$> nextEvents watch
              if null events then moved watch else return events
        createDirectories (root ++ "/in/below") ownerOnly
        write (root ++ "/file") "x"
        withWatch [root ++ "/file", root ++ "/in"] Recursive $ \watch -> do
          rename (root ++ "/file") (root ++ "/other")
          moved watch `shouldReturn` [Event (root ++ "/file") MovedAway]
          write (root ++ "/other") "y"
          quiet watch
          rename (root ++ "/in") (root ++ "/out")
          moved watch `shouldReturn` [Event (root ++ "/in") MovedAway]
          write (root ++ "/out/file") "x" >> write (root ++ "/out/below/file") "x"
          quiet watch
      it "reports a rename once, with one slash between names" $ \root -> do
        createDirectories (root ++ "/in") ownerOnly
        forM_ [Flat, Recursive] $ \depth -> withWatch [root ++ "/", root ++ "/in"] depth $ \watch -> do
          rename (root ++ "/in") (root ++ "/out")
          nextEvents watch `shouldReturn` [Event (root ++ "/in") (RenamedTo (root ++ "/out"))]
          createDirectories (root ++ "/out/new") ownerOnly
          nextEvents watch `shouldReturn` [Event (root ++ "/out/new") Created]
          removeTree (root ++ "/out/new")
          rename (root ++ "/out") (root ++ "/in")
      it "passes over directories that may not be read" $ \_ -> do
        user <- getEffectiveUserID
        -- Root may read all of them, unless it has given that up.
        let without = "setpriv --bounding-set -dac_override,-dac_read_search"
        scenarioPassesIn
          ( if user == 0
              then ["sh", "-c", without ++ " true || exit 77; exec " ++ without ++ " \"$@\"", "sh"]
              else ["env"]
          )
          "unreadable-directories"
      it "watches a directory that is renamed before it was noticed, and those below it" $ \root ->
        watching root $ \watch -> do
          createDirectories (root ++ "/x/a") ownerOnly
          rename (root ++ "/x/a") (root ++ "/x/b")
          rename (root ++ "/x") (root ++ "/y")
          createDirectory (root ++ "/x") ownerOnly
          void $ eventsUntil watch (Event (root ++ "/x") (RenamedTo (root ++ "/y")))
          forM_ ["/y/file", "/y/b/file", "/x/file"] $ \name -> do
            write (root ++ name) "x"
            void $ eventsUntil watch (Event (root ++ name) Written)
      it "watches all of many directories that a rename publishes" $ \root -> watching root $ \watch -> do
        let names = map show [1 .. 300 :: Int]
            final name = root ++ "/final" ++ name
        publisher <- start $
          forM_ names $ \name -> do
            createDirectories (root ++ "/new" ++ name ++ "/below") ownerOnly
            rename (root ++ "/new" ++ name) (final name)
        -- It is slow to take the events.
        let slowly wanted = unless (Set.null wanted) $ do
              events <- nextEvents watch
              pause 2000
              slowly (foldr Set.delete wanted ([path | Event _ (RenamedTo path) <- events] ++ map eventPath events))
        within 30 "the renames" (slowly (Set.fromList (map final names)))
        finish publisher
        forM_ names (\name -> write (final name ++ "/file") "x" >> write (final name ++ "/below/file") "x")
        let later wanted = unless (Set.null wanted) $ do
              events <- nextEvents watch
              later (foldr Set.delete wanted [path | Event path Written <- events])
            files path = [path ++ "/file", path ++ "/below/file"]
        within 30 "the files" (later (Set.fromList (map final names >>= files)))
      it "knows which is which of two directories that were exchanged" $ \root -> do
        mapM_ (`createDirectories` ownerOnly) [root ++ "/x/in-x", root ++ "/y/in-y"]
        let afterwards depth named' = withWatch named' depth $ \watch -> do
              exchange (root ++ "/x") (root ++ "/y")
              write (root ++ "/x/file") "x"
              write (root ++ "/y/other") "x"
              events <- eventsUntil watch (Event (root ++ "/y/other") Written)
              events `shouldSatisfy` elem (Event (root ++ "/x/file") Written)
              mapM_ (\name -> removeFile (root ++ name)) ["/x/file", "/y/other"]
        afterwards Recursive [root]
        afterwards Flat [root, root ++ "/x", root ++ "/y"]
        withWatch [root] Recursive $ \watch -> do
          exchange (root ++ "/x") (root ++ "/y")
          write (root ++ "/y/in-x/file") "x"
          void $ eventsUntil watch (Event (root ++ "/y/in-x/file") Written)
      it "goes on with what takes the place of a file that was named" $ \root -> do
        let path = root ++ "/file"
            replacements =
              [ replaceFile path (\file -> writeAt file 0 "new"),
                write (root ++ "/new") "x" >> rename (root ++ "/new") path,
                write (root ++ "/new") "x" >> exchange (root ++ "/new") path
              ]
        write path "old"
        forM_ [Flat, Recursive] $ \depth -> forM_ replacements $ \replacement -> withWatch [path] depth $ \watch -> do
          replacement
          void $ eventsUntil watch (Event path Created)
          write path "later"
          void $ eventsUntil watch (Event path Written)
        -- The old one lives on, because it has another name, or because it is open.
        let whileOthersHave keeping' = withWatch [path] Flat $ \watch -> keeping' $ do
              replaceFile path (\file -> writeAt file 0 "new")
              void $ eventsUntil watch (Event path Created)
              write path "later"
              void $ eventsUntil watch (Event path Written)
        whileOthersHave (\use -> createLink path (root ++ "/link") >> use)
        whileOthersHave (withFile path ForReading . const)
      it "reports the end of a watch of a file that was named" $ \root -> do
        let path = root ++ "/file"
        write path "x"
        withWatch [path] Flat $ \watch -> withFile path ForReading $ \_ -> do
          removeFile path
          void $ eventsUntil watch (Event path Removed)
      it "finds out after an overflow where everything is" $ \root -> do
        createDirectories (root ++ "/x/below") ownerOnly
        createDirectory (root ++ "/named") ownerOnly
        withOverflow $ \overflow -> withWatch [root, root ++ "/named"] Recursive $ \watch -> do
          overflow root
          rename (root ++ "/x") (root ++ "/y")
          createDirectories (root ++ "/z/new") ownerOnly
          removeDirectory (root ++ "/named")
          void $ eventsUntil watch (Event (root ++ "/named") Removed)
          forM_ ["/y/below/file", "/z/new/file"] $ \name -> do
            write (root ++ name) "x"
            void $ eventsUntil watch (Event (root ++ name) Written)
      it "reports an overflow" $ \root -> withOverflow $ \overflow -> withWatch [root] Flat $ \watch -> do
        overflow root
        void $ eventsUntil watch (Event "" Overflowed)
      it "has deadlines" $ \root -> withWatch [root] Flat $ \watch -> do
        soon <- deadlineAfter 2000
        failsWith (nextEventsBefore soon watch) >>= (`shouldSatisfy` isDeadlineError)

watching :: FilePath -> (Watch -> IO a) -> IO a
watching root = withWatch [root] Recursive

-- Gives an action that fills the queue of a watch of the directory, so that it overflows.
withOverflow :: ((FilePath -> IO ()) -> IO ()) -> IO ()
withOverflow use = do
  most <- read <$> readFile "/proc/sys/fs/inotify/max_queued_events" :: IO Int
  if most > 40000
    then pendingWith "the queue is too long"
    else use $ \root -> do
      let one = root ++ "/overflowing"
          other = root ++ "/overflown"
      write one "x"
      forM_ [0 .. most] $ \i -> if even i then renameFile one other else renameFile other one

eventsUntil :: Watch -> Event -> IO [Event]
eventsUntil watch wanted = within 30 ("the event " ++ show wanted) (go [])
  where
    go before = do
      events <- nextEvents watch
      let all' = before ++ events
      if wanted `elem` all' then return all' else go all'

-- A directory with many names.
withMany :: FilePath -> (FilePath -> IO a) -> IO a
withMany root use = do
  let many = root ++ "/many"
  createDirectory many ownerOnly
  forM_ [1 .. manyNames] $ \i ->
    Files.createSymbolicLink "nowhere" (many ++ "/one of the many names, number " ++ show i)
  use many

manyNames :: Int
manyNames = 20000

-- How many calls helpers make for an action.
countingCalls :: IO a -> IO (a, Int)
countingCalls action = do
  before <- Manager.helpersDone <$> Manager.helperCounts
  outcome <- action
  after <- Manager.helpersDone <$> Manager.helperCounts
  return (outcome, after - before)

-- What is open of a path.
descriptorOf :: FilePath -> IO (Maybe FilePath)
descriptorOf path = do
  whole <- canonicalPath path
  links <- listDirectory "/proc/self/fd" >>= mapM (try . Files.readSymbolicLink . ("/proc/self/fd/" ++))
  return (find (== whole) [link | Right link <- links :: [Either IOError FilePath]])

attempt :: IO a -> IO (Either IOError a)
attempt = try

write :: FilePath -> ByteString -> IO ()
write path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes)

contents :: FilePath -> IO ByteString
contents path = withFile path ForReading (`readAll` 0)

readAll :: File -> Int -> IO ByteString
readAll file from = ByteString.concat <$> go (fromIntegral from)
  where
    go offset = do
      part <- readAt file offset 1000000
      if ByteString.null part then return [] else (part :) <$> go (offset + fromIntegral (ByteString.length part))

-- On the disk of the working directory: what /tmp is differs.
inTree :: (FilePath -> IO ()) -> IO ()
inTree test = withoutLeaks (withTemporaryDirectory "." "millrace-test" test)
