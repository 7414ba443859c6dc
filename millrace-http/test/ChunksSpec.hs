{-# LANGUAGE OverloadedStrings #-}

-- | The chunked coding by itself.
module ChunksSpec (spec) where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Millrace.Http.Http1.Wire (chunksEnd, errorStatus, errorText)
import Numeric (showHex)
import Test.Hspec
import Test.QuickCheck
import WireSupport

spec :: Spec
spec = describe "chunked bodies (RFC 9112, 7.1)" $ do
  it "are taken apart, in one piece, in two and byte by byte" $
    forM_ valid $ \(bytes, expected) -> do
      dechunkPieces [bytes] `shouldReturn` Right (Just expected)
      dechunkPieces (bytewise bytes) `shouldReturn` Right (Just expected)
      forM_ [0 .. B.length bytes] $ \position ->
        dechunkPieces (piecesAt position bytes) `shouldReturn` Right (Just expected)
  it "are refused, in one piece, in two and byte by byte" $
    forM_ refused $ \(what, bytes) -> do
      whole <- dechunkPieces [bytes]
      (what, void whole, either errorStatus (const 0) whole) `shouldSatisfy` \(_, result, status) ->
        result /= Right () && status `elem` [400, 431]
      dechunkPieces (bytewise bytes) `shouldReturn` whole
      forM_ [0 .. B.length bytes] $ \position -> dechunkPieces (piecesAt position bytes) `shouldReturn` whole
  it "may have as many bytes of extensions as of data, and 4096 more" $ do
    let extended extension bytes =
          B.concat [C8.pack (showHex (B.length bytes) ""), ";", extension, "\r\n", bytes, "\r\n"]
        many extension bytes = B.concat (replicate 300 (extended extension bytes) ++ ["0\r\n\r\n"])
        signature = "signature=0123456789"
    forM_ [(: []), bytewise] $ \pieces -> do
      dechunkPieces (pieces (many signature (C8.replicate 32 'x')))
        `shouldReturn` Right (Just (C8.replicate 9600 'x', ""))
      short <- dechunkPieces (pieces (many signature "x"))
      either errorText (const "") short `shouldBe` "chunk extensions too long"
  it "are foreseen: what will be wrong with the bytes that are there" $ do
    forM_ (map snd refused) $ \bytes -> do
      whole <- dechunkPieces [bytes]
      Left <$> foreseen bytes `shouldReturn` void whole
    forM_ (map fst valid) $ \bytes -> do
      foreseen bytes `shouldReturn` chunksEnd
      foreseen (B.take 2 bytes) `shouldReturn` 0
  it "give back what was put in" $
    property $ \pieces ->
      let bodies = filter (not . B.null) (map B.pack pieces)
          encoded = B.concat (map chunk bodies ++ ["0\r\n\r\nnext"])
       in forAll (choose (0, B.length encoded)) $ \position -> ioProperty $ do
            result <- dechunkPieces (piecesAt position encoded)
            return (result === Right (Just (B.concat bodies, "next")))

chunk :: ByteString -> ByteString
chunk bytes = B.concat [C8.pack (showHex (B.length bytes) ""), "\r\n", bytes, "\r\n"]

valid :: [(ByteString, (ByteString, ByteString))]
valid =
  [ ("0\r\n\r\n", ("", "")),
    ("5\r\nhello\r\n0\r\n\r\nGET /", ("hello", "GET /")),
    ("000A\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n", ("0123456789x", "")),
    ("5;name=value;flag\r\nhello\r\n0;last\r\n\r\n", ("hello", "")),
    ("5 \t;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", ("hello", "")),
    ("5 ; a = \"b\\\"c\\\\\" ;d\t=\te ; f\r\nhello\r\n0;g=\"\"\r\n\r\n", ("hello", "")),
    ("1\r\na\r\n0\r\nTrailer: x\r\nOther:\r\n\r\nnext", ("a", "next"))
  ]

refused :: [(String, ByteString)]
refused =
  [ ("size that is not hexadecimal", "x\r\n"),
    ("empty size", "\r\nhello"),
    ("size with a sign", "+5\r\nhello"),
    ("size with a prefix", "0x5\r\nhello"),
    ("blank before the size", " 5\r\nhello"),
    ("blank after the size", "5 \r\nhello\r\n0\r\n\r\n"),
    ("size beyond 2^63", "8000000000000000\r\n"),
    ("size beyond 2^64", "10000000000000005\r\nhello"),
    ("size of too many digits", "00000000000000005\r\nhello"),
    ("bare LF after the size", "5\nhello\r\n0\r\n\r\n"),
    ("bare CR after the size", "5\rhello\r\n0\r\n\r\n"),
    ("no line end after the data", "5\r\nhello0\r\n\r\n"),
    ("bare LF after the data", "5\r\nhello\n0\r\n\r\n"),
    ("control character in an extension", "5;a\0b\r\nhello"),
    ("bare LF in an extension", "5;a\nhello"),
    ("extension without a name", "5;\r\nhello\r\n0\r\n\r\n"),
    ("two semicolons", "5;;a\r\nhello\r\n0\r\n\r\n"),
    ("extension with an empty value", "5;a=\r\nhello\r\n0\r\n\r\n"),
    ("extension with two names", "5;a b\r\nhello\r\n0\r\n\r\n"),
    ("blank at the end of an extension's name", "5;a \r\nhello\r\n0\r\n\r\n"),
    ("blank at the end of an extension's value", "5;a=b \r\nhello\r\n0\r\n\r\n"),
    ("extension whose value is no token", "5;a=b@c\r\nhello\r\n0\r\n\r\n"),
    ("extension whose quotes do not close", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
    ("extension with a tail behind its quotes", "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"),
    ("line end escaped within quotes", "5;a=\"\\\r\nhello\r\n0\r\n\r\n"),
    ("bare LF at the end", "0\r\n\n"),
    ("trailer without a colon", "0\r\nnonsense\r\n\r\n"),
    ("trailer with a blank in its name", "0\r\nX : y\r\n\r\n"),
    ("folded trailer", "0\r\nX: y\r\n z\r\n\r\n"),
    ("NUL in a trailer", "0\r\nX: y\0\r\n\r\n"),
    ("extensions without end", B.concat ["5;", C8.replicate 5000 'x', "\r\nhello"]),
    ("trailers without end", B.concat ["0\r\n", B.concat (replicate 1000 "X: 0123456789\r\n"), "\r\n"])
  ]
