{-# LANGUAGE OverloadedStrings #-}

-- | Pipelines: several statements in one round trip.
module PipelineSpec (spec) where

import Control.Monad (replicateM)
import Data.Text (Text)
import Millrace.Postgresql
import Server
import Test.Hspec
import TestSupport.Failure (failsWith)
import TestSupport.Time (within)

spec :: Server -> Spec
spec server = describe "pipelines" . around (withConnectionTo server) $ do
  let number = statement "SELECT $1::int" column :: Statement Int
      word = statement "SELECT $1::text" column :: Statement Text
  it "return what each of their statements returns" $ \connection -> do
    let both = (,) <$> step number [value (1 :: Int)] <*> step word [value ("two" :: Text)]
    pipeline connection both `shouldReturn` ([1], ["two"])
    pipeline connection (traverse (\n -> step number [value n]) [1 .. 500 :: Int]) `shouldReturn` map pure [1 .. 500]
    pipeline connection (pure 'x') `shouldReturn` 'x'
    query connection number [value (3 :: Int)] `shouldReturn` [3]
  it "are undone when one of their statements is refused" $ \connection -> do
    script connection "CREATE TEMPORARY TABLE t (a int NOT NULL)"
    let insert n = step (command "INSERT INTO t VALUES ($1)") [value (n :: Maybe Int)]
    problem <- failsWith (pipeline connection (insert (Just 1) *> insert Nothing *> insert (Just 2)))
    refusalState (problemRefusal problem) `shouldBe` "23502"
    isReusable connection `shouldReturn` True
    query connection (statement "SELECT count(*) FROM t" column) [] `shouldReturn` [0 :: Int]
    _ <- pipeline connection (insert (Just 1) *> insert (Just 2))
    query connection (statement "SELECT count(*) FROM t" column) [] `shouldReturn` [2 :: Int]
  it "take statements that are not kept, too" $ \connection -> do
    let numbers = traverse (\n -> step (once number) [value n]) [1 .. 20 :: Int]
    pipeline connection numbers `shouldReturn` map pure [1 .. 20]
  it "are not stopped by answers that are larger than the sockets' buffers" $ \connection -> do
    let long = statement "SELECT repeat('x', 200000)" column :: Statement Text
        sent =
          step (statement "SELECT length($1)" column) [value (mconcat (replicate 200000 "y") :: Text)] :: Pipeline [Int]
    within 30 "the answers" (pipeline connection (replicateM 50 (step long [] *> sent)))
      `shouldReturn` replicate 50 [200000]
