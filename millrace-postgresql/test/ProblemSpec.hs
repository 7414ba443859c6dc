{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | The texts of problems.
module ProblemSpec (spec) where

import Control.Exception (displayException)
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Millrace.Postgresql
import Test.Hspec

spec :: Spec
spec = describe "problems" $ do
  it "say in one line what happened, on which server or to which statement" $
    forM_
      [ (NotConnected "db:5432" "refused\n", "Cannot connect to db:5432: refused"),
        ( ConnectionLost "db:5432" "SELECT 1" " it was reset\n",
          "The connection to db:5432 failed during the statement \"SELECT 1\": it was reset"
        ),
        (OutOfUse "db:5432" "it was closed", "The connection to db:5432 cannot be used: it was closed"),
        ( WrongColumn "SELECT 1" 2 "price" "it is NULL",
          "Column 2 (price) of the statement \"SELECT 1\": it is NULL"
        ),
        (WrongWidth "SELECT 1" 2 1, "The statement \"SELECT 1\" returns 1 columns, but the program reads 2"),
        ( NotSendable "SELECT $1" "it has a zero byte",
          "The statement \"SELECT $1\" cannot be sent: it has a zero byte"
        ),
        ( Refused "db:5432" "INSERT" refusal,
          "db:5432 refused the statement \"INSERT\": it is there (23505). Key (1). Hint: take another"
        ),
        ( Refused "db:5432" "INSERT" refusal {refusalDetail = Nothing, refusalHint = Nothing},
          "db:5432 refused the statement \"INSERT\": it is there (23505)"
        )
      ]
      $ \(problem, text) -> displayException problem `shouldBe` text
  it "show a long statement in part, and one that is not UTF-8 as well as they can" $ do
    let text = displayException (NotSendable (Char8.unwords (replicate 100 "SELECT")) "no")
    text `shouldSatisfy` isInfixOf "...\" cannot"
    length text `shouldSatisfy` (< 250)
    displayException (NotSendable "SELECT\n\t'\xff'" "no") `shouldSatisfy` isInfixOf "\"SELECT '\\65533'\""

refusal :: Refusal
refusal = Refusal "23505" "ERROR" "it is there" (Just "Key (1)") (Just "take another") Nothing Nothing Nothing Nothing
