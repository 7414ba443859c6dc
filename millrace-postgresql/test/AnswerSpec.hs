{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Values that a PostgreSQL server would never send: of a wrong length, or as text. A fake server sends them.
module AnswerSpec (spec) where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (SomeException, bracket, try)
import Control.Monad (forM_, forever, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Int (Int16, Int32, Int64)
import Data.Scientific (Scientific)
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Time (Day, LocalTime, TimeOfDay, UTCTime)
import Data.Word (Word32)
import Millrace.Postgresql
import Millrace.Postgresql.Parameter (Format (..), Value (..))
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    SocketType (..),
    accept,
    bind,
    defaultProtocol,
    listen,
    socket,
    socketPort,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import Millrace.Socket.ByteString (recv, sendAll)
import Test.Hspec
import TestSupport.Failure (failsWith)
import TestSupport.Time (within)

spec :: Spec
spec = describe "answers" $ do
  forM_ types $ \(name, oid, sizes, read') ->
    it ("of the type " ++ name ++ " are refused if their length is wrong") . forM_ [0 .. 17] $ \size ->
      unless (size `elem` sizes) $ do
        problem <- answeredBy oid Binary (ByteString.replicate size 0) (failsWith . read')
        case problem of
          WrongColumn _ at column' reason -> do
            (at, column') `shouldBe` (1, "price")
            -- The type, and the length that came.
            Text.unpack reason `shouldContain` ("the type " ++ name ++ " came with " ++ show size ++ " bytes")
          other -> expectationFailure (show other)
  it "of the type numeric are refused if their digits are none" $ do
    let digits = ByteString.pack [0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]
    problem <- answeredBy 1700 Binary digits (\connection -> failsWith (one connection :: IO Scientific))
    problem `shouldSatisfy` isWrongColumn
  it "of another type are refused with the type that the program expects" $ do
    problem <- answeredBy 20 Binary "12345678" (\connection -> failsWith (one connection :: IO Json))
    case problem of
      WrongColumn _ _ _ reason -> Text.unpack reason `shouldContain` "JSON"
      other -> expectationFailure (show other)
  it "are refused in text format, and not taken for binary ones" $ do
    problem <- answeredBy 20 AsTextual "12345678" (\connection -> failsWith (one connection :: IO Int64))
    problem
      `shouldBe` WrongColumn
        "SELECT price"
        1
        "price"
        "the server sent it in text format, but was asked for the binary one"
    answeredBy 20 Binary (ByteString.pack [0, 0, 0, 0, 0, 0, 0, 7]) one `shouldReturn` (7 :: Int64)
  it "do not come to a parameter of two gibibytes, which a message cannot have" $
    forM_ [AsText, AsBinary] $ \format -> do
      problem <- answeredBy 20 Binary "" $ \connection ->
        failsWith (query connection (once price) [Value 0 format (Just 2147483648) (const (return ()))])
      problem `shouldBe` NotSendable "SELECT price" "the value of $1 has 2147483648 bytes, more than a message can have"
  where
    isWrongColumn problem = case problem of
      WrongColumn {} -> True
      _ -> False

price :: Statement Int64
price = statement "SELECT price" column

one :: Column a => Connection -> IO a
one connection =
  query connection (once (statement "SELECT price" column)) [] >>= \case
    [found] -> return found
    _ -> fail "not one row"

-- The types, with the lengths that a value may have, and what reads it.
types :: [(String, Word32, [Int], Connection -> IO ())]
types =
  [ ("boolean", 16, [1], \connection -> void (one connection :: IO Bool)),
    ("bigint", 20, [8], \connection -> void (one connection :: IO Int64)),
    ("bigint", 20, [8], \connection -> void (one connection :: IO Int)),
    ("bigint", 20, [8], \connection -> void (one connection :: IO Scientific)),
    ("smallint", 21, [2], \connection -> void (one connection :: IO Int16)),
    ("smallint", 21, [2], \connection -> void (one connection :: IO Int32)),
    ("smallint", 21, [2], \connection -> void (one connection :: IO Int)),
    ("integer", 23, [4], \connection -> void (one connection :: IO Int32)),
    ("integer", 23, [4], \connection -> void (one connection :: IO (Maybe Int))),
    ("real", 700, [4], \connection -> void (one connection :: IO Float)),
    ("real", 700, [4], \connection -> void (one connection :: IO Double)),
    ("double precision", 701, [8], \connection -> void (one connection :: IO Double)),
    ("numeric", 1700, [8], \connection -> void (one connection :: IO Scientific)),
    ("date", 1082, [4], \connection -> void (one connection :: IO Day)),
    ("time", 1083, [8], \connection -> void (one connection :: IO TimeOfDay)),
    ("timestamp", 1114, [8], \connection -> void (one connection :: IO LocalTime)),
    ("timestamp with time zone", 1184, [8], \connection -> void (one connection :: IO UTCTime)),
    ("jsonb", 3802, [1 .. 17], \connection -> void (one connection :: IO Text))
  ]

data Sent = AsTextual | Binary
  deriving (Eq)

-- | Runs an action with a connection to a server that answers each statement with one row of one column of this type,
-- in this format.
answeredBy :: Word32 -> Sent -> ByteString -> (Connection -> IO a) -> IO a
answeredBy oid format bytes action = bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \listening -> do
  bind listening (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listening 5
  port <- socketPort listening
  bracket (forkIO (serve listening)) killThread $ \_ ->
    within 20 "the answer" $
      bracket
        (connect (Char8.pack ("host=127.0.0.1 user=x dbname=x sslmode=disable gssencmode=disable port=" ++ show port)))
        close
        action
  where
    serve listening = void . (try :: IO () -> IO (Either SomeException ())) $ do
      (client, _) <- accept listening
      size <- number <$> exactly client 4
      void (exactly client (size - 4))
      sendAll client (message 'R' (Builder.word32BE 0) <> ready)
      forever $ do
        kind <- exactly client 1
        rest <- number <$> exactly client 4
        void (exactly client (rest - 4))
        sendAll client (answerTo kind)
    answerTo kind = case Char8.unpack kind of
      "P" -> message '1' mempty
      "B" -> message '2' mempty
      "D" ->
        message 'T' $
          Builder.int16BE 1
            <> Builder.byteString "price\0"
            <> Builder.word32BE 0
            <> Builder.int16BE 0
            <> Builder.word32BE oid
            <> Builder.int16BE (-1)
            <> Builder.word32BE 0xffffffff
            <> Builder.int16BE (if format == Binary then 1 else 0)
      "E" ->
        message
          'D'
          (Builder.int16BE 1 <> Builder.int32BE (fromIntegral (ByteString.length bytes)) <> Builder.byteString bytes)
          <> message 'C' (Builder.byteString "SELECT 1\0")
      "S" -> ready
      _ -> ""
    ready = message 'Z' (Builder.char7 'I')

message :: Char -> Builder.Builder -> ByteString
message kind content =
  Lazy.toStrict (Builder.toLazyByteString (Builder.char7 kind <> size <> Builder.lazyByteString body))
  where
    body = Builder.toLazyByteString content
    size = Builder.word32BE (fromIntegral (Lazy.length body) + 4)

number :: ByteString -> Int
number = ByteString.foldl' (\sum' byte -> 256 * sum' + fromIntegral byte) 0

exactly :: Socket.Socket -> Int -> IO ByteString
exactly client size
  | size == 0 = return ""
  | otherwise = do
    bytes <- recv client size
    if ByteString.null bytes
      then fail "the client has left"
      else (bytes <>) <$> exactly client (size - ByteString.length bytes)
