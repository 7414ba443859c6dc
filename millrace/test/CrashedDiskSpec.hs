{-# LANGUAGE OverloadedStrings #-}

-- | Files and directories of simulated machines: the contents of a disk after a crash, and programs that sync, which
-- survive it.
module CrashedDiskSpec (spec) where

import Control.Concurrent (getNumCapabilities, setNumCapabilities)
import Control.Exception (IOException, bracket, throwIO, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Either (isLeft)
import Data.IORef
import Data.List (nub, sort)
import Foreign.C.Error (eIO, eNOENT, eNOTEMPTY)
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Buffered
import Millrace.File.Temporary
import Millrace.Simulation
import Support
import System.IO.Error (isDoesNotExistError)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "disks of simulated machines" . needingKnownLayout . around_ onOneCapability $ do
  describe "after a crash" $ do
    it "have what was synced" . forAll $ do
      createDirectories "a/b" ownerOnly
      mapM_ syncDirectory ["/", "a"]
      write "a/b/file" "whole" >> syncDirectory "a/b"
      write "a/b/other" "whole"
      crash
      contents "a/b/file" `shouldReturn` "whole"
    it "may have anything of the rest: bytes, sizes, names" $ do
      found <- forM [1 .. 400] $ \seed -> run seed $ do
        withFile "file" ForWriting (\file -> writeAt file 0 (ByteString.replicate 2048 1) >> sync file)
        syncDirectory "/"
        withFile "file" ForUpdating (\file -> writeAt file 0 (ByteString.replicate 3072 2))
        rename "file" "other"
        crash
        names <- sort . map entryName <$> list "/"
        bytes <- mapM contents names
        return (names, map (map ByteString.head . sectors) bytes)
      -- A rename is two changes of names.
      sort (nub (map fst found)) `shouldBe` [[], ["file"], ["file", "other"], ["other"]]
      let torn = [bytes | (_, several) <- found, bytes <- several, length (nub bytes) > 1]
      length (nub torn) `shouldSatisfy` (> 10)
      sort (nub [length bytes | (_, several) <- found, bytes <- several]) `shouldBe` [4, 6]
    it "refuse files that were open" . forAll $
      withFile "file" ForWriting $ \file -> do
        crash
        failsWith (writeAt file 0 "x") >>= (`shouldSatisfy` hasCode eIO)
        failsWith (fileStatus file) >>= (`shouldSatisfy` hasCode eIO)
    it "do not have what a failed sync was to bring there, although it can be read" $ do
      found <- forM [1 .. 40] $ \seed -> runOn (calm seed) {planFaults = [(3, DiskError)]} $ do
        outcome <- withFile "file" ForWriting $ \file -> do
          writeAt file 0 "text"
          outcome <- try (sync file) :: IO (Either IOException ())
          sync file
          outcome <$ syncDirectory "/"
        before <- contents "file"
        crash
        after <- contents "file"
        return (isLeft outcome, before, after)
      found `shouldBe` replicate 40 (True, "text", "")
    it "are the same for the same seed" $
      forM_ [1 .. 20] $ \seed -> do
        let outcome = simulate (calm seed) $ do
              _ <- createDirectory "d" everybody >> replaceAt 5
              list "." >>= mapM (contents . entryPath) . filter ((== RegularFile) . entryKind)
        one <- outcome
        other <- outcome
        outcomeTrace one `shouldBe` outcomeTrace other
  describe "whose power fails within replaceFile" $ do
    it "have the old or the new file, each of them whole" $ do
      found <- forM [1 .. 2000] $ \seed -> run seed (replaceAt seed)
      [seed | (seed, bytes) <- zip [1 :: Int ..] found, bytes `notElem` [old, new]] `shouldBe` []
      length (filter (== old) found) `shouldSatisfy` (> 100)
      length (filter (== new) found) `shouldSatisfy` (> 100)
    it "have the new file once it has returned" $
      forM_ [1 .. 300] $ \seed -> do
        found <-
          run seed (prepare >> replaceFile "settings" (\file -> writeAt file 0 new) >> crash >> contents "settings")
        (found == new) `shouldBe` True
    it "have torn files if the program does not sync" $ do
      found <- forM [1 .. 1000] $ \seed -> run seed $ do
        prepare
        chance 6 >>= \count -> void . untilCrash (count + 1) $ write' "new" new >> rename "new" "settings"
        try (contents "settings") :: IO (Either IOException ByteString)
      length (filter (either (const True) (`notElem` [old, new])) found) `shouldSatisfy` (> 20)
  describe "without a crash" $ do
    it "have directories" . forAll $ do
      createDirectories "a/b/c" ownerOnly
      write "a/b/file" "text"
      failsWith (removeDirectory "a/b") >>= (`shouldSatisfy` hasCode eNOTEMPTY)
      rename "a/b" "a/d"
      entries <- list "a/d"
      sort (map (\entry -> (entryPath entry, entryKind entry)) entries)
        `shouldBe` [("a/d/c", Directory), ("a/d/file", RegularFile)]
      exists "a/b/file" `shouldReturn` False
      failsWith (createDirectory "x/y" ownerOnly) >>= (`shouldSatisfy` hasCode eNOENT)
      (statusPermissions <$> status "a") `shouldReturn` ownerOnly
      (statusSize <$> status "a/d/file") `shouldReturn` 4
      createLink "a/d/file" "link"
      (statusLinks <$> status "link") `shouldReturn` 2
      found <- newIORef []
      let seen entry = (entryRelative entry, statusSize <$> entryStatus entry, entryKind entry)
      walkWith WithStatus "/" Never (\entry -> modifyIORef found (seen entry :))
      (sort . filter (\(_, _, kind) -> kind == RegularFile) <$> readIORef found)
        `shouldReturn` [("a/d/file", Just 4, RegularFile), ("link", Just 4, RegularFile)]
      removeTree "a"
      exists "a" `shouldReturn` False
      contents "link" `shouldReturn` "text"
    it "have all ways of reading and writing" . forAll $ do
      withFileWith "file" ReadWrite [CreateWith (Permissions 0o600), Exclusive, Append] $ \file ->
        append file "one " >> append file "two"
      withFile "file" ForUpdating $ \file -> do
        writeVectorAt file 4 ["three", " ", "four"]
        readVectorAt file 0 [4, 5, 100] `shouldReturn` ["one ", "three", " four"]
        setFileSize file 9
        withWriter file 9 (\writer -> mapM_ (writeLine writer) ["", "line"])
      copyFile "file" "copy"
      contents "copy" `shouldReturn` "one three\nline\n"
      withTemporaryFile "/" "t" (\_ file -> writeAt file 0 "x")
      withNamelessFile "/" (\file -> writeAt file 0 "x" >> (readAt file 0 10 `shouldReturn` "x"))
      (sort . map entryName <$> list "/") `shouldReturn` ["copy", "file"]
    it "refuse what they do not have, clearly" . forAll $ do
      problem <- failsWith (createSymbolicLink "a" "b")
      show (problem :: IOException) `shouldContain` "has no simulation"
    it "may be late, full or broken at any call" $
      forM_ [1 .. 300] $ \seed -> do
        let plan =
              (calm seed)
                { planFaultRates =
                    [(Delay, 100000), (DiskFull, 20000), (DiskError, 20000), (ShortTransfer, 200000)]
                }
        found <- runOn plan $ do
          prepared <- try prepare :: IO (Either IOException ())
          replaced <- try (replaceFile "settings" (\file -> writeAt file 0 new)) :: IO (Either IOException ())
          text <- untilRead
          return (prepared, replaced, text)
        case found of
          (Right (), Right (), text) -> (text == Right new) `shouldBe` True
          (Right (), Left _, text) -> (text `elem` [Right old, Right new]) `shouldBe` True
          _ -> return ()
  where
    forAll program = forM_ [1 .. 50] (`run` program)
    untilRead = do
      outcome <- try (contents "settings")
      case outcome of
        Left problem | not (isDoesNotExistError problem) -> untilRead
        _ -> return (outcome :: Either IOException ByteString)

-- Every simulation would give the others up, and take them again.
onOneCapability :: IO a -> IO a
onOneCapability test = bracket (getNumCapabilities <* setNumCapabilities 1) setNumCapabilities (const test)

-- | Puts the old file there, and replaces it; the power fails at one of the calls.
replaceAt :: Int -> IO ByteString
replaceAt seed = do
  prepare
  void . untilCrash (1 + seed `mod` 12) $ replaceFile "settings" (\file -> writeAt file 0 new)
  contents "settings"

prepare :: IO ()
prepare = write "settings" old >> syncDirectory "/"

old, new :: ByteString
old = ByteString.replicate 3000 1
new = ByteString.replicate 5000 2

write, write' :: FilePath -> ByteString -> IO ()
write path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes >> sync file)
write' path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes)

contents :: FilePath -> IO ByteString
contents path = withFile path ForReading (go 0 [])
  where
    go offset before file = do
      bytes <- readAt file offset 100000
      if ByteString.null bytes
        then return (ByteString.concat (reverse before))
        else go (offset + fromIntegral (ByteString.length bytes)) (bytes : before) file

syncDirectory :: FilePath -> IO ()
syncDirectory path = withFile path ForReading sync

sectors :: ByteString -> [ByteString]
sectors bytes =
  if ByteString.null bytes then [] else let (one, others) = ByteString.splitAt 512 bytes in one : sectors others

run :: Int -> IO a -> IO a
run seed = runOn (calm (fromIntegral seed))

runOn :: Plan -> IO a -> IO a
runOn plan program = do
  outcome <- simulate plan {planTraces = False} program
  unless (outcomeOpenDescriptors outcome == 0) (fail ("a file was left open with seed " ++ show (planSeed plan)))
  either throwIO return (outcomeResult outcome)
