-- | A program is killed while it replaces a file, at each of its steps and at random moments. The file then has the old
-- contents or the new ones, whole.
module CrashSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (forM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.List (isPrefixOf)
import Millrace.File.Temporary (withTemporaryDirectory)
import Support
import System.Directory (findExecutable, listDirectory, makeAbsolute)
import System.Environment (getEnvironment, getExecutablePath)
import System.Exit (ExitCode (..))
import System.Posix.Signals (sigKILL, signalProcess)
import System.Process
import Test.Hspec

spec :: Spec
spec = describe "replaceFile" $ do
  it "leaves old or new contents if the program is killed at one of its steps" $ do
    strace <- findExecutable "strace"
    case strace of
      Nothing -> pendingWith "strace is not installed"
      Just tracer -> withTemporaryDirectory "." "crash" $ \root -> do
        let path = root ++ "/file"
        directory <- makeAbsolute root
        forM_ (steps directory) $ \(step, arguments, expected) -> do
          ByteString.writeFile path old
          code <- replacing path "replace-once" (tracer, ["-qq", "-f", "-o", "/dev/null"] ++ arguments)
          unless (code == ExitFailure (-9)) $ expectationFailure (step ++ ": it was not killed: " ++ show code)
          content <- ByteString.readFile path
          unless (content == expected) $
            expectationFailure (step ++ ": " ++ show (ByteString.length content, ByteString.take 1 content))
          names <- listDirectory root
          filter (not . (".file." `isPrefixOf`)) names `shouldBe` ["file"]
  it "leaves old or new contents if the program is killed at random" $
    withTemporaryDirectory "." "crash" $ \root -> do
      let path = root ++ "/file"
      ByteString.writeFile path old
      forM_ [1 .. 20] $ \seed -> do
        random <- newRandom seed
        delay <- below random 60000
        program <- getExecutablePath
        environment <- settings path
        bracket (createProcess (proc program ["--scenario", "replace-for-ever"]) {env = Just environment}) reap $
          \(_, _, _, child) ->
            do
              -- Until it replaces.
              begun <- becomesTrue 20000 ((/= old) <$> ByteString.readFile path)
              begun `shouldBe` True
              pause delay
              getPid child >>= mapM_ (signalProcess sigKILL)
        content <- ByteString.readFile path
        ByteString.length content `shouldBe` 200000
        ByteString.all (== ByteString.head content) content `shouldBe` True
        ByteString.writeFile path old
  where
    old = ByteString.replicate 200000 46
    new = ByteString.replicate 200000 66
    -- It is killed before each of these calls. strace counts the calls of each thread, so only the first one is certain
    -- to come; that of the directory is found by its path.
    steps directory =
      [ (call, ["-e", "trace=" ++ call, "-e", "inject=" ++ call ++ ":signal=KILL"], old)
        | call <- ["pwrite64", "chmod", "fsync", "rename"]
      ]
        ++ [("fsync of the directory", ["-P", directory, "-e", "trace=fsync", "-e", "inject=fsync:signal=KILL"], new)]
    settings path =
      ( \inherited ->
          ("MILLRACE_TEST_PATH", path) :
          ("MILLRACE_BACKEND", "epoll") :
          filter
            ((/= "MILLRACE_BACKEND") . fst)
            inherited
      )
        <$> getEnvironment
    replacing path scenario (tracer, arguments) = do
      program <- getExecutablePath
      environment <- settings path
      (_, _, _, child) <-
        createProcess (proc tracer (arguments ++ [program, "--scenario", scenario])) {env = Just environment}
      within 30 scenario (waitForProcess child)
    reap (_, _, _, child) = terminateProcess child >> void (waitForProcess child)
