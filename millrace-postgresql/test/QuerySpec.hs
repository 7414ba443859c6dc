{-# LANGUAGE OverloadedStrings #-}

-- | Statements, refusals, transactions, and threads that share a connection.
module QuerySpec (spec) where

import Control.Exception
import Control.Monad (forM, replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Text (Text)
import qualified Data.Text as Text
import Millrace.Deadline (deadlineAfter, milliseconds)
import Millrace.Postgresql
import Millrace.Timer (threadDelay)
import Server
import Test.Hspec
import TestSupport.Failure (failsWith)
import TestSupport.Job (finish, start)
import TestSupport.Time (within)

number :: ByteString -> Statement Int
number text = statement text column

spec :: Server -> Spec
spec server = describe "statements" . around (withConnectionTo server) $ do
  it "return rows in their order, and the first one" $ \connection -> do
    let pairs =
          statement "SELECT n, 'no. ' || n FROM generate_series(1, $1) n" ((,) <$> column <*> column) ::
            Statement (Int, Text)
    rows <- query connection pairs [value (1000 :: Int)]
    rows `shouldBe` [(n, "no. " <> Text.pack (show n)) | n <- [1 .. 1000]]
    queryOne connection pairs [value (3 :: Int)] `shouldReturn` Just (1, "no. 1")
    queryOne connection pairs [value (0 :: Int)] `shouldReturn` Nothing
  it "are prepared once, for each list of types" $ \connection -> do
    replicateM_ 5 (query connection (number "SELECT $1 + 1") [value (1 :: Int)] `shouldReturn` [2])
    query connection (statement "SELECT $1 + 1" column) [value (1.5 :: Double)] `shouldReturn` [2.5 :: Double]
    replicateM_ 3 (query connection (once (number "SELECT $1 + 2")) [value (1 :: Int)] `shouldReturn` [3])
    query connection (once (number "SELECT count(*) FROM pg_prepared_statements")) [] `shouldReturn` [2]
  it "prepare anew what the server has forgotten" $ \connection -> do
    query connection (number "SELECT 1") [] `shouldReturn` [1]
    script connection "DEALLOCATE ALL"
    problem <- failsWith (query connection (number "SELECT 1") [])
    refusalState (problemRefusal problem) `shouldBe` "26000"
    query connection (number "SELECT 1") [] `shouldReturn` [1]
  it "say how many rows they have changed" $ \connection -> do
    script connection "CREATE TEMPORARY TABLE t (a int, b text)"
    execute connection (command "INSERT INTO t SELECT n, $1 FROM generate_series(1, 7) n") [value ("x" :: Text)]
      `shouldReturn` 7
    execute connection (command "UPDATE t SET b = 'y' WHERE a > $1") [value (4 :: Int)] `shouldReturn` 3
    execute connection (command "SELECT * FROM t") [] `shouldReturn` 7
  it "that are refused say why, and leave the connection usable" $ \connection -> do
    script connection "CREATE TEMPORARY TABLE unique_ones (a int CONSTRAINT only_once UNIQUE)"
    let insert = command "INSERT INTO unique_ones VALUES ($1)"
    _ <- execute connection insert [value (1 :: Int)]
    problem <- failsWith (execute connection insert [value (1 :: Int)])
    let refusal = problemRefusal problem
    (refusalState refusal, refusalTable refusal, refusalConstraint refusal)
      `shouldBe` ("23505", Just "unique_ones", Just "only_once")
    refusalDetail refusal `shouldBe` Just "Key (a)=(1) already exists."
    displayException problem `shouldContain` "refused the statement \"INSERT INTO unique_ones VALUES ($1)\""
    mistake <- failsWith (query connection (number "SELECT nonsense") [])
    (refusalState (problemRefusal mistake), refusalPosition (problemRefusal mistake)) `shouldBe` ("42703", Just 8)
    missing <- failsWith (query connection (number "SELECT $1::int + $2::int") [value (1 :: Int)])
    refusalState (problemRefusal missing) `shouldBe` "08P01"
    isReusable connection `shouldReturn` True
  it "may be large, in both directions" $ \connection -> do
    let large = ByteString.replicate 20000000 120
    rows <- query connection (statement "SELECT $1::bytea" column) [value large]
    map ByteString.length rows `shouldBe` [20000000]
    many <- query connection (number "SELECT generate_series(1, 200000)") []
    sum many `shouldBe` 20000100000
  it "of many threads take turns on a connection" $ \connection -> do
    jobs <- forM [1 .. 100 :: Int] (\n -> start (query connection (number "SELECT $1") [value n]))
    within 20 "the answers" (mapM finish jobs) `shouldReturn` map pure [1 .. 100]
  it "cannot be COPY, and say so" $ \connection -> do
    problem <- failsWith (script connection "COPY pg_class TO STDOUT")
    displayException (problem :: PostgresqlProblem) `shouldContain` "COPY"
    isReusable connection `shouldReturn` False
  it "with a zero byte in a text are not sent" $ \connection -> do
    let echo = statement "SELECT $1::text || $2" column :: Statement Text
        values = [value ("a" :: Text), value ("b\0c" :: Text)]
        refusedFor reason action = do
          problem <- failsWith action
          problemReason problem `shouldBe` reason
          query connection echo [value ("a" :: Text), value ("b" :: Text)] `shouldReturn` ["ab"]
    refusedFor "the value of $2 has a zero byte" (query connection echo values)
    refusedFor "the value of $2 has a zero byte" (query connection (once echo) values)
    refusedFor "the value of $2 has a zero byte" (pipeline connection (step (number "SELECT 1") [] *> step echo values))
    refusedFor
      "the value of $1 has a zero byte"
      (query connection (statement "SELECT $1::json" column :: Statement Json) [value (Json "1\0")])
    refusedFor "its text has a zero byte" (script connection "SELECT 1\0; SELECT 2")
    refusedFor "its text has a zero byte" (query connection (number "SELECT 1\0") [])
    refusedFor "its text has a zero byte" (query connection (once (number "SELECT 1\0")) [])
  it "do nothing when they are empty" $ \connection -> do
    script connection ""
    script connection "; ;"
    query connection (number "SELECT 5") [] `shouldReturn` [5]
  describe "in transactions" $ do
    it "are undone together by an exception" $ \connection -> do
      script connection "CREATE TEMPORARY TABLE t (a int)"
      let insert n = execute connection (command "INSERT INTO t VALUES ($1)") [value (n :: Int)]
          all' = query connection (number "SELECT a FROM t ORDER BY a") []
      transaction connection (insert 1 >> insert 2) `shouldReturn` 1
      failsWith (transaction connection (insert 3 >> throwIO Overflow)) `shouldReturn` Overflow
      all' `shouldReturn` [1, 2]
      -- A refusal that the action hides.
      hidden <-
        failsWith
          ( transaction
              connection
              (insert 4 >> (try (script connection "nonsense") :: IO (Either PostgresqlProblem ())))
          )
      displayException (hidden :: PostgresqlProblem) `shouldContain` "undone"
      all' `shouldReturn` [1, 2]
      isReusable connection `shouldReturn` True
    it "that cannot be undone in time end with the exception of their action" $ \connection -> do
      soon <- deadlineAfter (milliseconds 50)
      failsWith (transaction (untilDeadline soon connection) (threadDelay 100000 >> throwIO Overflow))
        `shouldReturn` Overflow
      isReusable connection `shouldReturn` False
    it "cannot be nested, and the outer one is undone" $ \connection -> do
      script connection "CREATE TEMPORARY TABLE t (a int)"
      let insert n = execute connection (command "INSERT INTO t VALUES ($1)") [value (n :: Int)]
      problem <- failsWith (transaction connection (insert 1 >> transaction connection (insert 2)))
      problemReason problem `shouldBe` "a transaction is open already"
      query connection (number "SELECT count(*) FROM t") [] `shouldReturn` [0]
      transaction connection (insert 3) `shouldReturn` 1
    it "are refused when serializable ones conflict" $ \connection -> withConnectionTo server $ \other -> do
      script connection "DROP TABLE IF EXISTS counted; CREATE TABLE counted AS SELECT 1 AS n"
      let look mine = query mine (number "SELECT n FROM counted") []
          increase mine = execute mine (command "UPDATE counted SET n = n + 1") []
      problem <- failsWith . transactionWith Serializable connection $ do
        _ <- look connection
        _ <- transactionWith Serializable other (look other >> increase other)
        increase connection
      refusalState (problemRefusal problem) `shouldBe` "40001"
      look connection `shouldReturn` [2]
      script connection "DROP TABLE counted"
