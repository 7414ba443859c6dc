{-# LANGUAGE OverloadedStrings #-}

-- | The PROXY protocol.
module ProxySpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy.Char8 as LC8
import Network.HTTP.Types
import Network.Socket (SockAddr (..))
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "the PROXY protocol, required" $ do
    forM_ valid $ \(what, header, address) ->
      it (what ++ ", in one piece and byte by byte") $
        withServer setProxyProtocolRequired peer $ \port -> do
          map replyBody . parseReplies <$> exchange port (header <> request) `shouldReturn` [address]
          withConnection port $ \client -> do
            forM_ (B.unpack header) (send client . B.singleton)
            send client request
            map replyBody . parseReplies <$> receiveAll client `shouldReturn` [address]
    forM_ transparent $ \(what, header) ->
      it (what ++ " leaves the address as it is") $
        withServer setProxyProtocolRequired peer $ \port -> do
          replies <- parseReplies <$> exchange port (header <> request)
          map (B.isPrefixOf "127.0.0.1:" . replyBody) replies `shouldBe` [True]
    forM_ invalid $ \(what, header) ->
      it (what ++ " gets a 400") $
        withServer setProxyProtocolRequired peer $ \port ->
          statusOf <$> exchange port (header <> request) `shouldReturn` 400
    it "all requests of the connection have the address" $
      withServer setProxyProtocolRequired peer $ \port -> do
        bytes <-
          exchange port ("PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" <> request)
        map replyBody (parseReplies bytes) `shouldBe` ["192.0.2.7:1234", "192.0.2.7:1234"]
    it "a header that stops gets a 408" $
      withServer (setTimeout 1 . setProxyProtocolRequired) peer $ \port -> withConnection port $ \client -> do
        send client "PROXY TCP4 192"
        statusOf <$> receiveAll client `shouldReturn` 408
  describe "the PROXY protocol, optional" $ do
    it "is understood" $
      withServer setProxyProtocolOptional peer $ \port ->
        map replyBody . parseReplies <$> exchange port ("PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\n" <> request)
          `shouldReturn` ["192.0.2.7:1234"]
    it "may be left out, even by a request that begins alike" $
      withServer setProxyProtocolOptional peer $ \port -> do
        statusOf <$> exchange port request `shouldReturn` 200
        withConnection port $ \client -> do
          send client "P"
          threadDelay 50000
          send client "OST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          statusOf <$> receiveAll client `shouldReturn` 200
  describe "the PROXY protocol, not asked for" $
    it "is no request" $
      withServer setProxyProtocolNone peer $ \port ->
        statusOf <$> exchange port ("PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\n" <> request) `shouldReturn` 400

request :: ByteString
request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

peer :: Application
peer given respond = respond (responseLBS status200 [] (LC8.pack (show (remoteHost given))))

valid :: [(String, ByteString, ByteString)]
valid =
  [ ("version 1 over IPv4", "PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n", "192.0.2.7:56324"),
    ("version 1 over IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n", "[2001:db8::7]:56324"),
    ("version 2 over IPv4", binary 0x21 0x11 (ipv4 <> ports), "192.0.2.7:4660"),
    ("version 2 with extensions", binary 0x21 0x11 (ipv4 <> ports <> "\x04\0\x03xyz"), "192.0.2.7:4660"),
    ("version 2 over IPv6", binary 0x21 0x21 (ipv6 <> ipv6 <> ports), "[2001:db8::7]:4660"),
    ("version 2 over a Unix socket", binary 0x21 0x31 (path "/run/client" <> path "/run/server"), "/run/client"),
    ( "version 2 over a Unix socket, with a path of 108 bytes",
      binary
        0x21
        0x31
        (B.replicate 108 97 <> path "/run/server"),
      B.replicate 108 97
    ),
    ("version 2 over a Unix socket without a name", binary 0x21 0x31 (path "" <> path "/run/server"), ""),
    ( "version 2 over a Unix socket with an abstract name",
      binary 0x21 0x31 (path "\0client\0b" <> path "/run/server"),
      LC8.toStrict
        (LC8.pack (show (SockAddrUnix "\0client\0b")))
    )
  ]
  where
    ipv4 = B.pack [192, 0, 2, 7, 192, 0, 2, 1]
    ipv6 = B.pack ([0x20, 0x01, 0x0d, 0xb8] ++ replicate 11 0 ++ [7])
    ports = B.pack [0x12, 0x34, 0, 80]
    path name = name <> B.replicate (108 - B.length name) 0

transparent :: [(String, ByteString)]
transparent =
  [ ("version 1, UNKNOWN", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"),
    ("version 1, UNKNOWN and nothing else", "PROXY UNKNOWN\r\n"),
    ("version 2, LOCAL", binary 0x20 0x00 ""),
    ("version 2, LOCAL, whatever the family", binary 0x20 0x41 "abc"),
    ("version 2, unspecified family", binary 0x21 0x00 "abc"),
    ("version 2, datagrams", binary 0x21 0x12 (B.replicate 12 1)),
    ("version 2, datagrams of Unix sockets", binary 0x21 0x32 (B.replicate 216 1))
  ]

invalid :: [(String, ByteString)]
invalid =
  [ ("none at all", ""),
    ("an unknown family", "PROXY TCP5 192.0.2.7 192.0.2.1 1 2\r\n"),
    ("IPv6 that is said to be IPv4", "PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n"),
    ("IPv4 that is said to be IPv6", "PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n"),
    ("a host name", "PROXY TCP4 localhost localhost 1 2\r\n"),
    ("a number above 255", "PROXY TCP4 192.0.2.256 192.0.2.1 1 2\r\n"),
    ("a port above 65535", "PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n"),
    ("an address with a leading zero", "PROXY TCP4 192.0.02.7 192.0.2.1 1 2\r\n"),
    ("a port with a leading zero", "PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n"),
    ("a missing port", "PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n"),
    ("two blanks", "PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n"),
    ("a line without end", "PROXY TCP4 " <> B.replicate 120 0x31),
    ("version 3", binary 0x31 0x11 (B.replicate 12 1)),
    ("an unknown command", binary 0x22 0x11 (B.replicate 12 1)),
    ("version 2, an unknown family", binary 0x21 0x41 (B.replicate 12 1)),
    ("version 2, an unknown transport", binary 0x21 0x13 (B.replicate 12 1)),
    ("addresses cut short", binary 0x21 0x11 (B.replicate 11 1)),
    ("IPv6 addresses cut short", binary 0x21 0x21 (B.replicate 35 1)),
    ("Unix addresses cut short", binary 0x21 0x31 (B.replicate 215 1)),
    ("a Unix address in version 1, which has none", "PROXY UNIX /run/client /run/server\r\n")
  ]

binary :: Int -> Int -> ByteString -> ByteString
binary command family body =
  B.concat
    [ "\r\n\r\n\0\r\nQUIT\n",
      B.pack
        [ fromIntegral command,
          fromIntegral family,
          fromIntegral (B.length body `div` 256),
          fromIntegral
            (B.length body `mod` 256)
        ],
      body
    ]
