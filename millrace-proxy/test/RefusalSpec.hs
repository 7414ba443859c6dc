{-# LANGUAGE OverloadedStrings #-}

-- | What two programs could read differently, and what a target says unasked.
module RefusalSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (IOException, catch)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Millrace.Socket.ByteString (recv, sendAll)
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "a malformed response is answered with 502, and its connection closed" $
    forM_ heads $ \(what, bytes) -> it what $ do
      ended <- newEmptyMVar
      withTarget (\_ peer -> receiveHead peer >> unlessReset (sendAll peer bytes >> recv peer 10) >>= putMVar ended) $
        \target ->
          withFront quiet [target] $ \port -> do
            statusOf <$> ask port simple `shouldReturn` "502"
            within 20 "the end" (takeMVar ended) `shouldReturn` ""
  describe "a malformed body is cut off, and its connection closed" $
    forM_ bodies $ \(what, bytes) -> it what $ do
      ended <- newEmptyMVar
      withTarget
        ( \_ peer ->
            receiveHead peer
              >> sendAll peer ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n" <> bytes)
              >> recv peer 10
              >>= putMVar ended
        )
        $ \target ->
          withFront quiet [target] $ \port -> do
            answer <- ask port simple
            answer `shouldSatisfy` not . ("0\r\n\r\n" `ByteString.isSuffixOf`)
            within 20 "the end" (takeMVar ended) `shouldReturn` ""
  describe "a response that ends too early is not taken for a whole one" $
    forM_ early $ \(what, bytes, isEarly) -> it what $
      withTarget (\_ peer -> receiveHead peer >> sendAll peer bytes) $ \target ->
        withFront quiet [target] $ \port -> ask port simple >>= (`shouldSatisfy` isEarly)
  it "what a target sends behind a response is no response" $ do
    -- In one piece: bytes that come when the next request has been sent are its response.
    connections <- newIORef 0
    let twice count peer =
          writeIORef connections count >> receiveHead peer
            >>= mapM_
              (\_ -> sendAll peer (answerOf "first" <> answerOf "poison") >> void (recv peer 10) >> twice count peer)
    withTarget twice $ \target -> withFront quiet [target] $ \port ->
      replicateM 5 (bodyOf <$> ask port simple) `shouldReturn` replicate 5 "first"
    readIORef connections `shouldReturn` 5
  it "what a target sends later, unasked, is no response either" $ do
    say <- newEmptyMVar
    said <- newEmptyMVar
    let later count peer = do
          _ <- receiveHead peer
          answerWith peer "first"
          when (count == (1 :: Int)) $
            takeMVar say
              >> sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
              >> putMVar said ()
              >> void (recv peer 10)
    withTarget later $ \target -> withFront quiet [target] $ \port -> do
      bodyOf <$> ask port simple `shouldReturn` "first"
      putMVar say () >> takeMVar said
      bodyOf <$> ask port simple `shouldReturn` "first"
  it "CONNECT and TRACE are refused" $
    withTarget (answering (\_ _ -> "no")) $ \target -> withFront quiet [target] $ \port -> do
      statusOf <$> ask port "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` "405"
      statusOf <$> ask port "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n" `shouldReturn` "405"
  where
    simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    -- Closing with unread bytes resets the connection.
    unlessReset action = action `catch` \failure -> "" <$ return (failure :: IOException)

-- | A text that describes a response's head, and the response.
heads :: [(String, ByteString)]
heads =
  [ ("a status of letters", "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"),
    ("a status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
    ("a status below 100", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    ("HTTP/2.0 in the status line", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("http in lower case", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("an empty line first", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("HTTP/0.9: a text alone", "<html>hello</html>\r\n\r\n"),
    ("another protocol", "SSH-2.0-OpenSSH_9.2\r\n"),
    ("an alert of TLS", "\21\3\1\0\2\2\70"),
    ("settings of HTTP/2", "\0\0\0\4\0\0\0\0\0"),
    ("line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("carriage returns alone", "HTTP/1.1 200 OK\rContent-Length: 0\r\r"),
    ("NUL in a value", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
    ("NUL in a name", "HTTP/1.1 200 OK\r\nX\0: a\r\nContent-Length: 0\r\n\r\n"),
    ("NUL in the reason", "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n"),
    ("a carriage return in a value", "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n"),
    ("a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
    ("a blank before a colon", "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n"),
    ("a field without a colon", "HTTP/1.1 200 OK\r\nXa\r\nContent-Length: 0\r\n\r\n"),
    ("a field without a name", "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n"),
    ("a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nHello"),
    ("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
    ("a hexadecimal length", "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nHello"),
    ("an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"),
    ("a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nHello"),
    ("a length of twenty digits", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nHello"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nHello"),
    ( "a length and a coding",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n"
    ),
    ("a coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n"),
    ( "a coding twice",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n"
    ),
    ("an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n"),
    ("a coding before chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n"),
    ("a coding behind chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n5\r\nHello\r\n0\r\n\r\n"),
    ( "a protocol that was not asked for",
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ),
    ("interim responses without end", ByteString.concat (replicate 5000 "HTTP/1.1 100 Continue\r\n\r\n")),
    ("a field that is too large", "HTTP/1.1 200 OK\r\nX: " <> ByteString.replicate 70000 97),
    ("too many fields", "HTTP/1.1 200 OK\r\n" <> ByteString.concat (replicate 20000 "X: a\r\n"))
  ]

-- | A text that describes the second chunk of a body, and that chunk.
bodies :: [(String, ByteString)]
bodies =
  [ ("a size of letters", "x\r\n"),
    ("a blank behind a size", "5 \r\nHello\r\n0\r\n\r\n"),
    ("a size that begins with 0x", "0x5\r\nHello\r\n0\r\n\r\n"),
    ("a size with a sign", "+5\r\nHello\r\n0\r\n\r\n"),
    ("a negative size", "-1\r\nHello\r\n0\r\n\r\n"),
    ("a line feed alone behind a size", "5\nHello\r\n0\r\n\r\n"),
    ("a chunk that is longer than it says", "5\r\nHello!\r\n0\r\n\r\n"),
    ("a line feed alone behind a chunk", "5\r\nHello\n0\r\n\r\n"),
    ("a carriage return in an extension", "5;a\rb\r\nHello\r\n0\r\n\r\n"),
    ("an extension whose name is no token", "5;@\r\nHello\r\n0\r\n\r\n"),
    ("a size of 64 bits", "ffffffffffffffff\r\nHello\r\n"),
    ("a size of 68 bits", "fffffffffffffffff\r\nHello\r\n0\r\n\r\n"),
    ("a folded trailer", "0\r\nX: a\r\n b\r\n\r\n"),
    ("a blank before a trailer's colon", "0\r\nX : a\r\n\r\n")
  ]

-- | Where a target closes its connection, what it has sent before, and whether what the client got then is right.
early :: [(String, ByteString, ByteString -> Bool)]
early =
  [ ("before the first byte", "", isRefused),
    ("in the status line", "HTTP/1.", isRefused),
    ("in the head", "HTTP/1.1 200 OK\r\nContent-Le", isRefused),
    ("behind an interim response", "HTTP/1.1 100 Continue\r\n\r\n", isRefused),
    ( "in a body of known length",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nHello",
      \answer ->
        isRefused answer || "Hello" `ByteString.isSuffixOf` answer
    ),
    ("in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nHello", hasNoEnd),
    ("before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n", hasNoEnd)
  ]
  where
    isRefused answer = statusOf answer == "502"
    hasNoEnd answer = isRefused answer || not ("0\r\n\r\n" `ByteString.isSuffixOf` answer)
