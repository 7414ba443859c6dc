{-# LANGUAGE OverloadedStrings #-}

-- | The tests' own client of HTTP/2: its frames and its header blocks.
module Http2ClientSpec (spec) where

import Control.Concurrent (threadDelay)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Http2Client (closing)
import Http2Frame
import System.Timeout (timeout)
import Test.Hspec
import Test.Hspec.QuickCheck (prop)
import Test.QuickCheck

spec :: Spec
spec = describe "the tests' client of HTTP/2" $ do
  prop "decodes the frames that it encodes, whatever follows" $ \(NonNegative kind) flags payload others ->
    let frame = Frame (kindOf kind) flags 0x12345678 (B.pack payload)
     in decodeFrame (encodeFrame frame <> B.pack others) === Just (frame, B.pack others)
  prop "decodes no frame that is not complete" $ \flags payload (NonNegative missing) ->
    let whole = encodeFrame (Frame Data flags 1 (B.pack payload))
     in decodeFrame (B.take (B.length whole - 1 - missing) whole) === Nothing
  it "encodes frames as RFC 9113 says" $ do
    encodeFrame (settingsFrame [(MaxConcurrentStreams, 100), (InitialWindowSize, 65536)])
      `shouldBe` "\0\0\x0c\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\0\x01\0\0"
    encodeFrame (headersFrame 3 [EndStream, EndHeaders] "abc") `shouldBe` "\0\0\x03\x01\x05\0\0\0\x03\&abc"
    encodeFrame (resetFrame 5 Cancel) `shouldBe` "\0\0\x04\x03\0\0\0\0\x05\0\0\0\x08"
    encodeAnnouncing 0x123456 (dataFrame 1 [] "a") `shouldBe` "\x12\x34\x56\0\0\0\0\0\x01\&a"
  it "reads settings" $
    settingsOf (settingsFrame [(HeaderTableSize, 1), (OtherSetting 99, 7), (EnableConnectProtocol, 1)])
      `shouldBe` [(HeaderTableSize, 1), (OtherSetting 99, 7), (EnableConnectProtocol, 1)]
  it "encodes integers as RFC 7541, C.1, does" $
    [hpackInteger 5 0 10, hpackInteger 5 0 1337, hpackInteger 8 0 42] `shouldBe` ["\x0a", "\x1f\x9a\x0a", "\x2a"]
  it "decodes what it encodes" $ do
    decoder <- newDecoder
    let fields = [(":path", "/"), ("x-long", B.replicate 300 0x79), ("empty", "")] :: Fields
    decodeBlock decoder (literals fields) `shouldReturn` fields
    decodeBlock decoder (B.concat [remembered ("a", "b"), indexed 62, named 62 "c", neverIndexed ("d", "e")])
      `shouldReturn` [("a", "b"), ("a", "b"), ("a", "c"), ("d", "e")]
    decodeBlock decoder (indexed 62) `shouldReturn` [("a", "b")]
    decodeBlock decoder (tableSize 0 <> indexed 2) `shouldReturn` [(":method", "GET")]
  it "decodes the responses of RFC 7541, C.6, with Huffman coding and a dynamic table" $ do
    decoder <- newDecoder
    mapM (decodeBlock decoder) [firstResponse, secondResponse] `shouldReturn` [common "302", common "307"]
  it "ends when it is interrupted, also while it sends what the server may not take any more" $
    timeout 10000 (closing (threadDelay 10000000)) `shouldReturn` Nothing
  it "refuses a malformed block" $ do
    decoder <- newDecoder
    decodeBlock decoder (indexed 100) `shouldThrow` anyIOException
  where
    kindOf kind =
      ( [ Data,
          Headers,
          Priority,
          Reset,
          Settings,
          PushPromise,
          Ping,
          GoAway,
          WindowUpdate,
          Continuation,
          PriorityUpdate,
          OtherType 0xee
        ] ::
          [FrameType]
      )
        !! (kind `mod` 12)
    common :: ByteString -> Fields
    common status =
      [ (":status", status),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com")
      ]

firstResponse, secondResponse :: ByteString
firstResponse =
  B.pack
    [ 0x48,
      0x82,
      0x64,
      0x02,
      0x58,
      0x85,
      0xae,
      0xc3,
      0x77,
      0x1a,
      0x4b,
      0x61,
      0x96,
      0xd0,
      0x7a,
      0xbe,
      0x94,
      0x10,
      0x54,
      0xd4,
      0x44,
      0xa8,
      0x20,
      0x05,
      0x95,
      0x04,
      0x0b,
      0x81,
      0x66,
      0xe0,
      0x82,
      0xa6,
      0x2d,
      0x1b,
      0xff,
      0x6e,
      0x91,
      0x9d,
      0x29,
      0xad,
      0x17,
      0x18,
      0x63,
      0xc7,
      0x8f,
      0x0b,
      0x97,
      0xc8,
      0xe9,
      0xae,
      0x82,
      0xae,
      0x43,
      0xd3
    ]
secondResponse = B.pack [0x48, 0x83, 0x64, 0x0e, 0xff, 0xc1, 0xc0, 0xbf]
