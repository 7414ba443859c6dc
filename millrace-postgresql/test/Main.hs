-- | Queries, values, pipelines and connections, with a PostgreSQL server that the tests start.
module Main (main) where

import qualified AnswerSpec
import qualified ConnectionSpec
import qualified PipelineSpec
import qualified ProblemSpec
import qualified QuerySpec
import Server (withServer)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec (hspec)
import qualified ValueSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  withServer $ \server -> hspec $ do
    AnswerSpec.spec
    ProblemSpec.spec
    ValueSpec.spec server
    QuerySpec.spec server
    PipelineSpec.spec server
    ConnectionSpec.spec server
