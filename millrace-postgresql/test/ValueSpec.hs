{-# LANGUAGE OverloadedStrings #-}

-- | Values of all types, there and back.
module ValueSpec (spec) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Int
import Data.Scientific (Scientific, scientific)
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Time
import Millrace.Postgresql
import Server
import Test.Hspec
import TestSupport.Failure (failsWith)

spec :: Server -> Spec
spec server = describe "values" . aroundAll (withConnectionTo server) $ do
  it "come back as they were sent" $ \connection -> do
    let same :: (Parameter a, Column a, Eq a, Show a) => ByteString -> [a] -> IO ()
        same kind =
          mapM_
            (\given -> query connection (statement ("SELECT $1::" <> kind) column) [value given] `shouldReturn` [given])
    same "boolean" [True, False]
    same "smallint" [minBound, -1, 0, maxBound :: Int16]
    same "integer" [minBound, -1, 0, maxBound :: Int32]
    same "bigint" [minBound, -1, 0, maxBound :: Int64]
    same "bigint" [minBound, 7, maxBound :: Int]
    same "real" [0, -1.5, 3.0e38 :: Float]
    same "double precision" [0, -1.5, 1 / 3, 1.0e308 :: Double]
    same "text" ["", "häßlich", Text.replicate 100000 "x" :: Text]
    same "bytea" ["", ByteString.pack [0 .. 255]]
    same "numeric" [0, 1, -1, 10000, 12345678.000123, -0.0001, 1.0e-20, 99999999999999999999, 1.0e30 :: Scientific]
    same "json" [Json "{\"a\": [1, 2]}"]
    same "jsonb" [Json "{\"a\": [1, 2]}"]
    same "date" [fromGregorian 1 1 1, fromGregorian 1999 12 31, fromGregorian 2026 11 25]
    same "time" [midnight, TimeOfDay 23 59 59.999999]
    same "timestamp" [LocalTime (fromGregorian 1969 7 20) (TimeOfDay 20 17 40)]
    same "timestamptz" [UTCTime (fromGregorian 1999 12 31) 86399.5, UTCTime (fromGregorian 2026 11 25) 0.000001]
    same "jsonb" [Nothing, Just (Json "{}")]
    same "text" [Nothing, Just ("x" :: Text)]
    same "bigint" [Nothing, Just (5 :: Int)]
  it "of JSON are its bytes, as the server writes them" $ \connection ->
    map jsonBytes <$> query connection (statement "SELECT $1::jsonb" column) [value (Json "{\"a\":[1,2]}")]
      `shouldReturn` ["{\"a\": [1, 2]}"]
  it "are not sent when they are outside the range of their type" $ \connection -> do
    let refused :: Parameter a => ByteString -> a -> IO ()
        refused kind given = do
          problem <-
            failsWith
              (query connection (statement ("SELECT $1::" <> kind <> "::text") column :: Statement Text) [value given])
          problem `shouldSatisfy` isNotSendable
        isNotSendable problem = case problem of
          NotSendable _ reason -> "the value of $1 is outside the range of " `Text.isPrefixOf` reason
          _ -> False
    mapM_
      (refused "numeric")
      [ scientific 1 131072,
        scientific 1 200000,
        scientific 1 1000000000,
        scientific (-1) (-20000),
        scientific 1 (-300000) ::
          Scientific
      ]
    refused "date" (fromGregorian 10000000 1 1)
    refused "timestamp" (LocalTime (fromGregorian 400000 1 1) midnight)
    refused "timestamptz" (UTCTime (fromGregorian (-400000) 1 1) 0)
    query connection (statement "SELECT $1::numeric" column) [value (scientific 1 131071 :: Scientific)]
      `shouldReturn` [scientific 1 131071 :: Scientific]
  it "are read from columns of related types" $ \connection -> do
    let one :: (Column a, Eq a, Show a) => ByteString -> a -> Expectation
        one text wanted = query connection (statement ("SELECT " <> text) column) [] `shouldReturn` [wanted]
    one "7::smallint" (7 :: Int)
    one "7::integer" (7 :: Int64)
    one "7::bigint" (7 :: Scientific)
    one "1.25::numeric" (1.25 :: Double)
    one "1.5::real" (1.5 :: Double)
    one "'-infinity'::real" (-1 / 0 :: Double)
    one "'a'::varchar" ("a" :: Text)
    one "'b'::char(3)" ("b  " :: Text)
    one "'c'::name" ("c" :: ByteString)
    one "'[1]'::jsonb" ("[1]" :: Text)
    one "'x'::\"char\"" ("x" :: Text)
  it "find the type of an enumeration by themselves" $ \connection -> do
    script connection "CREATE TYPE mood AS ENUM ('glad', 'sad')"
    query connection (statement "SELECT ($1 = 'sad'::mood)" column) [value ("sad" :: Text)] `shouldReturn` [True]
    script connection "DROP TYPE mood"
  it "are refused where the type is another one, with the column's name" $ \connection -> do
    problem <-
      failsWith
        (query connection (statement "SELECT 1 AS one, 'two' AS two" ((,) <$> column <*> column :: Row (Int, Int))) [])
    problemColumn problem `shouldBe` 2
    problemColumnName problem `shouldBe` "two"
    problemReason problem `shouldBe` "it has the type text, but the program reads an integer"
    -- The connection is as good as before.
    query connection (statement "SELECT 1" column) [] `shouldReturn` [1 :: Int]
  it "may be NULL only for Maybe" $ \connection -> do
    problem <- failsWith (query connection (statement "SELECT NULL::integer AS nothing" column :: Statement Int) [])
    (problemColumn problem, problemColumnName problem) `shouldBe` (1, "nothing")
  it "are checked by the program" $ \connection -> do
    let even' = checked column (\n -> if even n then Right (n :: Int) else Left "it is odd")
    query connection (statement "SELECT generate_series(2, 6, 2)" even') [] `shouldReturn` [2, 4, 6]
    problem <- failsWith (query connection (statement "SELECT generate_series(2, 6)" even') [])
    problemReason problem `shouldBe` "it is odd"
  it "must be as many as the columns" $ \connection -> do
    problem <- failsWith (query connection (statement "SELECT 1, 2" column :: Statement Int) [])
    problem `shouldBe` WrongWidth "SELECT 1, 2" 1 2
