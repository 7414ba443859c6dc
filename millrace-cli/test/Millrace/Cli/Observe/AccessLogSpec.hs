-- | Failures of the access log.
module Millrace.Cli.Observe.AccessLogSpec (spec) where

import Millrace.Cli.Base.Failure
import Millrace.Cli.Observe.AccessLog
import Network.Wai.Millrace.AccessLog (LogFormat (Combined))
import Site
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec =
  it "a file that cannot be written to is a failure" . withDirectory $ \directory ->
    withAccessLogAt Combined (directory </> "no" </> "log") (\_ _ -> pure ())
      `shouldThrow` ( \(FileFailure _ _ failure) ->
                        failureAttempt failure == "write the access log " <> directory </> "no" </> "log"
                    )
