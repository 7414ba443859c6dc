{-# LANGUAGE OverloadedStrings #-}

-- | The switches that let pass what is refused otherwise: each of them on and off, and all of them together on
-- everything else that has to be refused.
module LenienceSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (isInfixOf)
import Millrace.Http.Http1.Wire
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace
import Requests
import Support
import Test.Hspec
import WireSupport

-- | A request that one switch lets pass.
data Case = Case
  { caseName :: String,
    caseSwitch :: Bool -> Settings -> Settings,
    caseRequest :: ByteString,
    -- | What the application sees of it.
    caseSeen :: String,
    -- | How many of two such requests on one connection are answered.
    caseAnswers :: Int
  }

spec :: Spec
spec = describe "switches of strictness" $ do
  forM_ cases $
    \Case {caseName = name, caseSwitch = switch, caseRequest = request, caseSeen = seen, caseAnswers = count} ->
      describe name $ do
        it "off: 400, and the application sees nothing" $
          forM_ [id, switch False, allOtherSwitches name] $ \change -> do
            (replies, calls) <- ask change [request, closing]
            (map replyStatus replies, map (headerOf "connection") replies, calls) `shouldBe` ([400], [Just "close"], 0)
        it "on: it is served" $ do
          (replies, calls) <- ask (switch True) [request, request, closing]
          map replyStatus replies `shouldBe` replicate count 200
          map (C8.unpack . replyBody) (take 1 replies) `shouldBe` [seen]
          calls `shouldBe` count
          headerOf "connection" (last replies) `shouldBe` Just "close"
  it "leave everything else refused" $
    withServer allSwitches pong $ \port ->
      forM_ (filter (not . concerned) refusedRequests) $ \(rule, status, request) -> do
        replies <- parseReplies <$> exchange port (B.append request closing)
        (rule, map replyStatus replies) `shouldBe` (rule, [status])
  it "do not concern the lines of chunked bodies" $
    withServer allSwitches echo $ \port -> do
      bytes <- exchange port "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n"
      statusOf bytes `shouldBe` 400
  it "do not let pass, in a folded line, what the server goes by" $
    forM_
      [ "Host: a\r\n b",
        "Content-Length: 1\r\n 2",
        "Transfer-Encoding:\r\n chunked",
        "Connection: close,\r\n x",
        "Expect: 100-\r\n continue",
        "Upgrade:\r\n x",
        "Range: bytes=\r\n 0-"
      ]
      $ \field ->
        do
          (replies, calls) <-
            ask
              allSwitches
              ["POST / HTTP/1.1\r\n", if "Host" `B.isPrefixOf` field then "" else "Host: a\r\n", field, "\r\n\r\n"]
          (field, map replyStatus replies, calls) `shouldBe` (field, [400], 0)
  it "do not let a folded line follow the request line, nor a field that HTTP/1.0 does not have" $
    forM_ ["GET / HTTP/1.0\r\n x\r\n\r\n", "GET / HTTP/1.0\r\nA: b\r\nUpgrade: c\r\n d\r\n\r\n"] $ \request -> do
      (replies, calls) <- ask allSwitches [request]
      (request, map replyStatus replies, calls) `shouldBe` (request, [400], 0)
  it "take time in proportion to a folded value, however many of its lines are blank" $
    withServer (setAllowFolding True . setMaxTotalHeaderLength 1000000) pong $ \port -> do
      let blank = B.concat (replicate 200000 " \r\n")
      bytes <- exchange port (B.concat ["GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n", blank, " c\r\n\r\n"])
      statusOf bytes `shouldBe` 200
  it "parse the same in two pieces, wherever they are split" $
    forM_ (map caseRequest cases ++ filter ((< 200) . B.length) (map third refusedRequests)) $ \request -> do
      whole <- parsePiecesAllowing everything [request]
      forM_ [0 .. B.length request] $ \position ->
        parsePiecesAllowing everything (piecesAt position request) `shouldReturn` whole
  it "change nothing for requests that need none of them" $
    forM_ validRequests $ \request -> do
      strict <- parsePieces [request]
      parsePiecesAllowing everything [request] `shouldReturn` strict
  where
    ask change pieces = do
      calls <- newIORef (0 :: Int)
      let application request respond = modifyIORef' calls (+ 1) >> describing request respond
      withServer change application $ \port -> do
        replies <- parseReplies <$> exchange port (B.concat pieces)
        (,) replies <$> readIORef calls
    closing = "GET /closing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    allSwitches = foldr (\(_, switch) rest -> switch True . rest) id switches
    allOtherSwitches name =
      foldr (\switch rest -> switch True . rest) id [switch | (word, switch) <- switches, not (word `isInfixOf` name)]
    concerned (rule, _, _) = any (`isInfixOf` rule) (["bare LF", "folded line", "no Host", "beyond ASCII"] :: [String])
    third (_, _, request) = request
    everything = sum [allowBareLineFeed, allowFolding, allowNoHost, allowNonAscii]

-- By a word in the names of their cases.
switches :: [(String, Bool -> Settings -> Settings)]
switches =
  [ ("bare LF", setAllowBareLineFeed),
    ("folded", setAllowFolding),
    ("no Host", setAllowMissingHost),
    ("beyond ASCII", setAllowNonAsciiTarget)
  ]

cases :: [Case]
cases =
  [ Case
      "RFC 9112, 2.2: bare LF"
      setAllowBareLineFeed
      "\nGET /x HTTP/1.1\nHost: a\nX: b \n\n"
      "/x [(\"Host\",\"a\"),(\"X\",\"b\")]"
      1,
    Case
      "RFC 9112, 2.2: bare LF in one line"
      setAllowBareLineFeed
      "GET /x HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"
      "/x [(\"Host\",\"a\"),(\"X\",\"b\")]"
      1,
    Case
      "RFC 9112, 2.2: bare LF at the end"
      setAllowBareLineFeed
      "GET /x HTTP/1.1\r\nHost: a\r\n\n"
      "/x [(\"Host\",\"a\")]"
      1,
    Case
      "RFC 9112, 5.2: folded line"
      setAllowFolding
      "GET /x HTTP/1.1\r\nHost: a\r\nX: b\r\n\t c \r\nY: d\r\n\r\n"
      "/x [(\"Host\",\"a\"),(\"X\",\"b  \\t c\"),(\"Y\",\"d\")]"
      1,
    Case
      "RFC 9112, 5.2: folded line after an empty one"
      setAllowFolding
      "GET /x HTTP/1.1\r\nHost: a\r\nX:\r\n b\r\n \r\n\r\n"
      "/x [(\"Host\",\"a\"),(\"X\",\"b\")]"
      1,
    Case
      "RFC 9112, 5.2: folded line behind blank ones"
      setAllowFolding
      "GET /x HTTP/1.1\r\nHost: a\r\nX: b \r\n\t\r\n \r\n c \r\n  \r\n\r\n"
      "/x [(\"Host\",\"a\"),(\"X\",\"b   \\t      c\")]"
      1,
    Case "RFC 9112, 3.2: no Host" setAllowMissingHost "GET /x HTTP/1.1\r\nX: y\r\n\r\n" "/x [(\"X\",\"y\")]" 3,
    Case
      "RFC 9112, 3.2: target beyond ASCII"
      setAllowNonAsciiTarget
      "GET /\xc3\xa4?\xff HTTP/1.1\r\nHost: a\r\n\r\n"
      "/\195\164?\255 [(\"Host\",\"a\")]"
      3
  ]

describing :: Application
describing request respond =
  respond . responseLBS status200 [] . L.fromStrict $
    B.concat [rawPathInfo request, rawQueryString request, " ", C8.pack (show (requestHeaders request))]
