-- | h2spec, a program that tries what RFC 9113 demands of a server in 145 tests. It is no package of Debian: scripts/check-http2
-- builds it and runs this test. Without it, the test is pending.
module Http2ConformanceSpec (spec) where

import Data.List (isInfixOf)
import Network.Wai.Handler.Millrace (setHTTP1Disabled)
import Support
import System.Directory (findExecutable)
import System.Environment (lookupEnv)
import System.Process (readProcessWithExitCode)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $
  it "passes all of h2spec's tests (MILLRACE_H2SPEC=program)" $ do
    found <- lookupEnv "MILLRACE_H2SPEC" >>= maybe (findExecutable "h2spec") (return . Just)
    case found of
      Nothing -> pendingWith "h2spec is not installed; scripts/check-http2 builds it"
      Just program ->
        -- A test that expects silence takes the whole time limit, so it is short; the suite's other tests run meanwhile.
        withServer setHTTP1Disabled pong $ \port -> go program port (3 :: Int)
  where
    go program port tries = do
      (_, output, _) <- readProcessWithExitCode program ["-h", "127.0.0.1", "-p", show port, "--timeout", "5"] ""
      let passed = "145 tests, 145 passed, 0 skipped, 0 failed" `isInfixOf` output
      -- On a busy machine an answer may come too late for it.
      if passed || tries <= 1
        then unlines (failures output) `shouldSatisfy` const passed
        else go program port (tries - 1)
    failures = dropWhile (not . ("Failures" `isInfixOf`)) . lines
