{-# LANGUAGE OverloadedStrings #-}

-- | Directories and paths.
module DirectorySpec (spec) where

import Control.Exception (throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, void, when, (>=>))
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.List (find, isInfixOf, isPrefixOf, sort)
import qualified Data.Set as Set
import DirectorySupport
import Foreign.C.Error (eBADF, eEXIST, eNOENT, eNOTEMPTY, eSPIPE)
import Millrace.Directory
import Millrace.File
import qualified Millrace.Manager as Manager
import qualified Millrace.Timer as Timer
import Support
import System.Directory (listDirectory)
import System.IO.Error (ioeGetFileName)
import qualified System.Posix.Files as Files
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
      it "removes nothing behind a link that replaces a directory" $ \root -> do
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
      it "asks no helper about names that are in memory, on a file system that it knows" $ \root -> do
        let path = root ++ "/file"
        write path "12345"
        createSymbolicLink "file" (root ++ "/link")
        let ask = do
              (statusSize <$> status path) `shouldReturn` 5
              (statusKind <$> linkStatus (root ++ "/link")) `shouldReturn` SymbolicLink
              exists (root ++ "/link") `shouldReturn` True
              withFile path ForReading (\file -> (statusSize <$> fileStatus file) `shouldReturn` 5)
        -- Before, helpers find out which file system it is, and note when the link was used.
        (snd <$> countingCalls (replicateM_ 10 ask)) `shouldBecome` 0
      it "leaves file systems to helpers that may ask another program" $ \_ -> do
        (_, calls) <- countingCalls (replicateM_ 3 (status "/proc/self/stat"))
        calls `shouldBe` 3
      it "knows at once what others have changed" $ \root -> do
        let path = root ++ "/file"
        forM_ [1 .. 100] $ \size -> do
          Char8.writeFile path (Char8.replicate size 'x')
          (statusSize <$> status path) `shouldReturn` fromIntegral size
          Files.rename path (root ++ "/other")
          exists path `shouldReturn` False
          (statusSize <$> status (root ++ "/other")) `shouldReturn` fromIntegral size
      it "opens no FIFO that takes a file's name meanwhile" $ \root -> do
        let path = root ++ "/file"
        write path "12345"
        Files.createNamedPipe (root ++ "/fifo") 0o600
        flipping <- start (forever (exchange path (root ++ "/fifo")))
        forM_ [1 .. 5000 :: Int] $ \_ -> do
          outcome <- attempt (withFile path ForReading fileSize)
          outcome `shouldSatisfy` either (hasCode eSPIPE) (== 5)
        stop flipping
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
      it "walks a path that means a file, or a link to one" $ \root -> do
        write (root ++ "/file") ""
        createSymbolicLink "file" (root ++ "/link")
        let visited path = do
              seen <- newIORef []
              walk (root ++ path) Never (\entry -> modifyIORef seen (entry :))
              readIORef seen
        visited "/file" `shouldReturn` [Entry "file" (root ++ "/file") RegularFile "file" Nothing]
        visited "/link" `shouldReturn` [Entry "link" (root ++ "/link") SymbolicLink "link" Nothing]
        missing <- try (visited "/missing") :: IO (Either IOError [Entry])
        missing `shouldSatisfy` either (isInfixOf "Millrace.Directory.walk" . show) (const False)
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
                outcome <- Timer.timeout delay (nextEntry stream)
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
      it "removes a tree by few calls, also one that is deep, and whose names are no files" $ \root -> do
        let tree = root ++ "/tree"
        createDirectories (tree ++ concat (replicate 200 "/deep")) ownerOnly
        forM_ [1 .. 300 :: Int] $ \i -> do
          createDirectory (tree ++ "/deep/" ++ show i) ownerOnly
          Files.createSymbolicLink "nowhere" (tree ++ "/deep/" ++ show i ++ "/link")
          Files.createNamedPipe (tree ++ "/deep/" ++ show i ++ "/fifo") 0o600
        ((), calls) <- countingCalls (removeTree tree)
        exists tree `shouldReturn` False
        calls `shouldSatisfy` (< 20)
      it "names what it cannot remove" $ \root -> do
        let busy = root ++ "/tree/a/b"
        createDirectories busy ownerOnly
        flipping <- start (forever (attempt (createDirectory (busy ++ "/c") ownerOnly)))
        outcomes <- replicateM 20 (attempt (removeTree (root ++ "/tree")))
        stop flipping
        let namesTree problem = ioeGetFileName problem `shouldSatisfy` maybe False (isPrefixOf (root ++ "/tree"))
        forM_ outcomes (either namesTree return)
        failsWith (removeTree (root ++ "/none")) >>= \problem -> do
          problem `shouldSatisfy` hasCode eNOENT
          show problem `shouldContain` "Millrace.Directory.removeTree"
          ioeGetFileName problem `shouldBe` Just (root ++ "/none")
        failsWith (removeTree "/proc/self/fdinfo") >>= \problem ->
          ioeGetFileName problem `shouldSatisfy` maybe False (isPrefixOf "/proc/self/fdinfo/")
      it "stops removing soon after it is interrupted" $ \root -> withMany root $ \many -> do
        let namesLeft = exists many >>= \isThere -> if isThere then length <$> list many else return 0
        removed <- replicateM 10 $ do
          before <- namesLeft
          removing <- start (removeTree many)
          pause 1000
          stop removing
          (Manager.helpersRunning <$> Manager.helperCounts) `shouldBecome` 0
          left <- namesLeft
          replicateM_ 10 (pause 1000)
          namesLeft `shouldReturn` left
          return (before - left)
        -- A call that goes on to its end removes 512 names.
        filter ((/= 0) . (`mod` 512)) removed `shouldNotBe` []
      it "walks with the status of each entry, by one call for a directory" $ \root -> do
        createDirectories (root ++ "/a/b") ownerOnly
        forM_ [1 .. 500 :: Int] $ \i -> Char8.writeFile (root ++ "/a/b/" ++ show i) (Char8.replicate i 'x')
        createSymbolicLink "b" (root ++ "/a/link")
        seen <- newIORef []
        ((), calls) <- countingCalls (walkWith WithStatus root Never (\entry -> modifyIORef seen (entry :)))
        calls `shouldSatisfy` (<= 5)
        found <- readIORef seen
        length found `shouldBe` 503
        forM_ found $ \entry -> do
          entryPath entry `shouldBe` root ++ "/" ++ entryRelative entry
          known <- linkStatus (entryPath entry)
          entryStatus entry {entryStatus = relevant <$> entryStatus entry} `shouldBe` Just (relevant known)
          entryKind entry `shouldBe` statusKind known
        seenPlain <- newIORef []
        walk root Never (\entry -> modifyIORef seenPlain (entry :))
        plain <- readIORef seenPlain
        sort (map entryRelative plain) `shouldBe` sort (map entryRelative found)
        map entryStatus plain `shouldBe` replicate 503 Nothing
        counted <- newIORef (0 :: Int)
        let many = root ++ "/a/b"
        foldEntriesWith WithStatus many () $ \() entry -> do
          mapM_ (\known -> modifyIORef counted (+ fromIntegral (statusSize known))) (entryStatus entry)
          return (Proceed ())
        readIORef counted `shouldReturn` sum [1 .. 500]
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
          -- A link replaces the directory after it was visited.
          removeDirectory (entryPath entry) >> createSymbolicLink "../other" (entryPath entry)
        readIORef seen `shouldReturn` ["a"]
      it "tells how much space there is" $ \root -> do
        known <- space root
        spaceTotal known `shouldSatisfy` (>= spaceAvailable known)

-- What reading a directory does not change.
relevant :: Status -> Status
relevant known = known {statusAccessed = Time 0 0}

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

-- Runs an action, and returns how many calls helpers made for it.
countingCalls :: IO a -> IO (a, Int)
countingCalls action = do
  before <- Manager.helpersDone <$> Manager.helperCounts
  outcome <- action
  after <- Manager.helpersDone <$> Manager.helperCounts
  return (outcome, after - before)

-- The open file of a path, if there is one.
descriptorOf :: FilePath -> IO (Maybe FilePath)
descriptorOf path = do
  whole <- canonicalPath path
  links <- listDirectory "/proc/self/fd" >>= mapM (try . Files.readSymbolicLink . ("/proc/self/fd/" ++))
  return (find (== whole) [link | Right link <- links :: [Either IOError FilePath]])

attempt :: IO a -> IO (Either IOError a)
attempt = try
