-- Must not know: sockets.

-- | The texts of problems.
module ProblemSpec (spec) where

import Control.Monad (forM_)
import Data.List (isInfixOf, isPrefixOf, nub)
import Millrace.Proxy
import Test.Hspec

spec :: Spec
spec = do
  it "say in one line what went wrong, each cause something else" $
    forM_ [Nothing, Just target] $ \one -> do
      let texts = map (describeProblem . Problem one) causes
      nub texts `shouldBe` texts
      filter ('\n' `elem`) texts `shouldBe` []
  it "name the target, if there is one" $ do
    let texts = map (describeProblem . Problem (Just target)) causes
    filter (not . ("https://example.org" `isInfixOf`)) texts `shouldBe` []
    describeProblem (Problem (Just target) (NotConnected "refused"))
      `shouldSatisfy` ("no connection to https://example.org" `isPrefixOf`)
  it "have the reason that was found" $
    forM_ [NotConnected, NotTrusted, NothingLeft, ConnectionLost, BadResponse, BadRequest] $ \cause ->
      forM_ [Nothing, Just target] $ \one ->
        describeProblem (Problem one (cause "the reason")) `shouldSatisfy` (": the reason" `isInfixOf`)

target :: Target
target = Target Https (AtHost "example.org" 443)

causes :: [Cause]
causes =
  [ NotConnected "refused",
    NotTrusted "its certificate",
    NothingLeft "no descriptors",
    ConnectionLost "it was reset",
    BadResponse "two lengths",
    ResetByTarget 2,
    RefusedByTarget,
    CannotUpgrade,
    ProtocolRefused,
    ClientLeft,
    BadRequest "two lengths",
    MethodRefused,
    Loop
  ]
    ++ map TooSlow [ToConnect, ToSend, ForFirstByte, ForMoreBytes, ForAll]
