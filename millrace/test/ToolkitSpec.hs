{-# LANGUAGE OverloadedStrings #-}

-- | Threads are killed at random moments in every function of the toolkit. Afterwards nothing is left: no descriptor,
-- operation, child, file or call. scripts/lint/toolkit reports functions that are missing in the lists.
module ToolkitSpec (spec) where

import Control.Exception (catch, onException)
import Control.Monad (forM, forM_)
import DirectorySupport (write)
import Millrace.Directory
import Millrace.File.Temporary
import qualified Millrace.Manager as Manager
import Support hiding (connectTo)
import System.Directory (listDirectory)
import Test.Hspec hiding (after, before)
import qualified ToolkitFiles
import qualified ToolkitMessages
import qualified ToolkitSockets
import qualified ToolkitSystem

spec :: Spec
spec = describe "the toolkit" $ do
  it "leaves nothing behind when threads are killed at random in its functions" $
    withTree $ \root -> do
      before <- map entryName <$> list root
      -- Loops open their descriptors when they first need them.
      killInEach (functions root)
      withoutLeaks $ do
        killInEach (functions root)
        -- A call that continues without its caller, such as a sync on a busy disk, may take long.
        hasSettled <- becomesTrue 60000 ((== (0, 0)) . helpers <$> Manager.helperCounts)
        hasSettled `shouldBe` True
      (map entryName <$> list root) `shouldBecome` before
      childCount `shouldBecome` 0
  it "works in the child of a fork, whichever function is the first" $
    withTree $ \root -> forM_ (groupsOf 8 (functions root)) $ \group -> do
      children <- forM group $ \(name, action) -> (,) name <$> forked (killOneIn (name, action))
      forM_ children $ \(name, child) -> succeeds child `onException` putStrLn ("The first call was " ++ name ++ ".")
  where
    groupsOf count list' = if null list' then [] else take count list' : groupsOf count (drop count list')
    helpers counts = (Manager.helpersQueued counts, Manager.helpersRunning counts)

withTree :: (FilePath -> IO a) -> IO a
withTree use =
  withTemporaryDirectory "." "toolkit" $ \root -> do
    write (root ++ "/file") (bytesAt 0 300000)
    write (root ++ "/log") ""
    createDirectories (root ++ "/tree/a/b") ownerOnly
    forM_ [1 .. 20 :: Int] $ \i -> write (root ++ "/tree/a/" ++ show i) "x"
    -- More than fit into one batch.
    createDirectory (root ++ "/many") ownerOnly
    forM_ [1 .. 4000 :: Int] $ \i ->
      createSymbolicLink "nowhere" (root ++ "/many/a name that needs some space " ++ show i)
    use root

-- By name.
functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  concatMap
    ($ root)
    [ToolkitFiles.functions, ToolkitSockets.functions, ToolkitMessages.functions, ToolkitSystem.functions]

childCount :: IO Int
childCount = do
  tasks <- listDirectory "/proc/self/task"
  children <- forM tasks $ \task ->
    (readFile ("/proc/self/task/" ++ task ++ "/children") >>= \text -> length text `seq` return text) `catch` none
  return (length (concatMap words children))
  where
    none :: IOError -> IO String
    none _ = return ""
