-- | The examples of millrace-http's tests that hold for every carrier, over TLS.
module Main (main) where

import qualified AnswerSpec
import qualified ContextSpec
import Data.List (isInfixOf)
import qualified FaultSpec
import qualified FileSpec
import qualified LimitSpec
import qualified PipelineSpec
import qualified ResponseSpec
import qualified StrictSpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, expectationFailure)
import Test.Hspec.Runner (Config (..), defaultConfig, hspecWith)
import qualified TimeSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  hspecWith defaultConfig {configSkipPredicate = Just isLeftOut} (around_ limited specs)
  where
    isLeftOut (groups, name) = any (\part -> any (part `isInfixOf`) (name : groups)) leftOut

-- Examples that do not concern the transport.
leftOut :: [String]
leftOut =
  [ "over memory", -- they use no connection
    "on a connection that is not protected",
    "on a plain connection",
    "has the reason phrase that was sent", -- one of them is for a connection without protection
    -- They begin with bytes that are not TLS.
    "the proxy",
    -- They see connections that end before a handshake.
    "onOpen",
    "the connection is closed, and counted no longer",
    -- They start servers of their own, without TLS.
    "runSettings",
    "an exception thrown to the server"
  ]

-- A test that hangs fails, with its name.
limited :: IO () -> IO ()
limited test = timeout 180000000 test >>= maybe (expectationFailure "not done after 180 s") return

specs :: Spec
specs = do
  StrictSpec.spec
  ResponseSpec.spec
  FileSpec.spec
  FaultSpec.spec
  TimeSpec.spec
  AnswerSpec.spec
  ContextSpec.spec
  LimitSpec.spec
  PipelineSpec.spec
