{-# LANGUAGE OverloadedStrings #-}

-- | The lines of the access log, in both formats, and that they get to their file.
module AccessLogSpec (spec) where

import Control.Monad (forM_, void)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Time.Clock.System (SystemTime (..))
import Millrace.Log (logTo)
import Network.HTTP.Types
import Network.Socket (HostAddress6, SockAddr (..), tupleToHostAddress)
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), InvalidRequest (..), RefusalReason (..), nanoseconds, setOnAnswer)
import Network.Wai.Millrace.AccessLog
import Support
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = describe "Network.Wai.Millrace.AccessLog" $ do
  describe "a line" $ do
    it "in the combined format" $
      line Combined request
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c=d HTTP/1.1\" 206 1234 \
                   \\"http://x/\" \"curl/8\"\n"
    it "in the combined format, of a request that says little" $
      line Combined (bare {rawPathInfo = "*", requestMethod = "OPTIONS"})
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"OPTIONS * HTTP/1.1\" 206 1234 \"-\" \"-\"\n"
    it "cannot be forged" $
      line Combined bare {requestHeaderUserAgent = Just "a\" 200 \\ \195\164\t\ESC[31m"}
        `shouldSatisfy` ByteString.isSuffixOf " \"a\\x22 200 \\x5c \\xc3\\xa4\\x09\\x1b[31m\"\n"
    it "in JSON" $
      line JsonLines request
        `shouldBe` "{\"time\":\"1994-11-06T08:49:37.007Z\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\
                   \\"target\":\"/a%20b?c=d\",\"version\":\"1.1\",\"status\":206,\"bytes\":1234,\
                   \\"microseconds\":1500,\"host\":null,\"referer\":\"http://x/\",\"user_agent\":\"curl/8\"}\n"
    it "cannot be forged in JSON either" $
      line JsonLines bare {requestHeaderUserAgent = Just "\",\"a\":\"\\\n\195\164\255"}
        `shouldSatisfy` ByteString.isSuffixOf "\"user_agent\":\"\\\",\\\"a\\\":\\\"\\\\\\u000a\\u00e4\\ufffd\"}\n"
    it "cannot be forged in JSON by a quote alone" $
      line JsonLines bare {requestHeaderUserAgent = Just "\",\"a\":\""}
        `shouldSatisfy` ByteString.isSuffixOf "\"user_agent\":\"\\\",\\\"a\\\":\\\"\"}\n"
    forM_ addresses $ \(address, text) ->
      it ("names clients on IPv6 as RFC 5952 has it: " <> show text) $
        line Combined bare {remoteHost = SockAddrInet6 1 0 address 0}
          `shouldSatisfy` ByteString.isPrefixOf (text <> " - - [")
    it "names clients on IPv4 as such, also on a socket for both" $
      line Combined bare {remoteHost = SockAddrInet6 1 0 (0, 0, 0xffff, 0xc0000207) 0}
        `shouldSatisfy` ByteString.isPrefixOf "192.0.2.7 - - ["
    it "says 0 for an answer without a body" $ do
      lineOf Combined (answer bare) {answerBytes = Nothing} `shouldSatisfy` ByteString.isInfixOf " HTTP/1.1\" 206 0 "
      lineOf JsonLines (answer bare) {answerBytes = Nothing} `shouldSatisfy` ByteString.isInfixOf ",\"bytes\":0,"

    it "in JSON says that an answer was cut off" $
      lineOf JsonLines (answer bare) {answerIsCutOff = True}
        `shouldSatisfy` ByteString.isSuffixOf ",\"user_agent\":null,\"cut_off\":true}\n"

  describe "a line of what was refused" $ do
    it "has the request line as it came" $
      lineOf Combined (refusedWith (BadFirstLine "") "GET /a b HTTP/1.1")
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a b HTTP/1.1\" 400 11 \"-\" \"-\"\n"
    it "has a - where nothing came" $
      lineOf Combined (refusedWith RequestTimedOut "")
        `shouldSatisfy` ByteString.isInfixOf "+0000] \"-\" 400 11 \"-\" \"-\"\n"
    it "cannot be forged" $
      lineOf Combined (refusedWith (BadFirstLine "") "\SYN\ETX\SOH\STX\NUL\" 200\r\ESC[2J\\\195\164")
        `shouldSatisfy` ByteString.isInfixOf
          "] \"\\x16\\x03\\x01\\x02\\x00\\x22 200\\x0d\\x1b[2J\\x5c\\xc3\\xa4\" 400 11 \"-\" \"-\"\n"
    it "in JSON has the parts of a line that is one, all of it, and why" $
      lineOf JsonLines (refusedWith (BadRequest "no Host") "GET /a?b HTTP/1.1")
        `shouldBe` "{\"time\":\"1994-11-06T08:49:37.007Z\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\
                   \\"target\":\"/a?b\",\"version\":\"1.1\",\"status\":400,\"bytes\":11,\"microseconds\":1500,\
                   \\"host\":null,\"referer\":null,\"user_agent\":null,\"request_line\":\"GET /a?b HTTP/1.1\",\
                   \\"refused\":\"BadRequest \\\"no Host\\\"\"}\n"
    it "in JSON has no parts of a line that is none" $
      lineOf JsonLines (refusedWith (BadFirstLine "x") "\"\n\\ \NUL\255")
        `shouldSatisfy` ( \text ->
                            all
                              (`ByteString.isInfixOf` text)
                              [ ",\"method\":null,\"target\":null,\"version\":null,",
                                ",\"request_line\":\"\\\"\\u000a\\\\ \\u0000\\ufffd\","
                              ]
                        )
    it "whose head was whole is as any other" $
      lineOf Combined ((refusedWith PayloadTooLarge "ignored") {answerRequest = Just request})
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c=d HTTP/1.1\" 400 11 \
                   \\"http://x/\" \"curl/8\"\n"

  it "logs what a server answers" . withFolder $ \folder -> do
    let path = folder </> "log"
    void . withAccessLog Combined (logTo path) $ \_ logAnswer ->
      withServerToItsEnd (setOnAnswer logAnswer) pong $ \port -> exchange port "GET /a HTTP/1.0\r\n\r\n"
    map ((!! 6) . Char8.words) . Char8.lines <$> ByteString.readFile path `shouldReturn` ["/a"]
  where
    answer one = Answer (remoteHost one) (Just one) Nothing "" status206 (Just 1234) False (nanoseconds 1500999)
    refusedWith reason text =
      (answer bare)
        { answerRequest =
            Nothing,
          answerRefusal = Just (RefusedAtOnce reason),
          answerRequestLine = text,
          answerStatus = status400,
          answerBytes = Just 11
        }
    line format = lineOf format . answer
    lineOf format one = Lazy.toStrict (toLazyByteString (renderLine format (momentOf format at) one))
    at = MkSystemTime 784111777 7000000
    bare =
      defaultRequest
        { rawPathInfo =
            "/",
          httpVersion = http11,
          remoteHost = SockAddrInet 1 (tupleToHostAddress (192, 0, 2, 7))
        }
    request =
      bare
        { rawPathInfo =
            "/a%20b",
          rawQueryString = "?c=d",
          requestHeaderReferer = Just "http://x/",
          requestHeaderUserAgent = Just "curl/8"
        }

addresses :: [(HostAddress6, ByteString.ByteString)]
addresses =
  [ ((0, 0, 0, 1), "::1"),
    ((0, 0, 0, 0), "::"),
    ((0x20010db8, 0, 0, 0xabc), "2001:db8::abc"),
    ((0x20010db8, 0, 0, 0), "2001:db8::"),
    ((0x20010db8, 0x10001, 0x10001, 0x10001), "2001:db8:1:1:1:1:1:1"),
    ((0x20010db8, 0x00000001, 0x00010001, 0x00010001), "2001:db8:0:1:1:1:1:1"),
    ((0x20010000, 0x00010000, 0, 0x00000001), "2001:0:1::1"),
    ((0x20010db8, 0, 0x00010000, 0x00000001), "2001:db8::1:0:0:1")
  ]
