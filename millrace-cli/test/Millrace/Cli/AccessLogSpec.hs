{-# LANGUAGE OverloadedStrings #-}

module Millrace.Cli.AccessLogSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Time.Clock.System (SystemTime (..))
import Millrace.Cli.AccessLog
import Millrace.Cli.Failure
import Millrace.Cli.Observation
import Network.HTTP.Types
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Wai
import Network.Wai.Internal (ResponseReceived (..))
import Site
import System.Directory (doesFileExist, renameFile)
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = do
  describe "a line" $ do
    it "in the combined format" $
      line Combined request
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c=d HTTP/1.1\" 206 1234 \"http://x/\" \"curl/8\"\n"
    it "in the combined format, of a request that says little" $
      line Combined (bare {rawPathInfo = "*", requestMethod = "OPTIONS"})
        `shouldBe` "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"OPTIONS * HTTP/1.1\" 206 1234 \"-\" \"-\"\n"
    it "cannot be forged" $
      line Combined bare {requestHeaderUserAgent = Just "a\" 200 \\ \195\164\t\ESC[31m"}
        `shouldSatisfy` ByteString.isSuffixOf " \"a\\x22 200 \\x5c \\xc3\\xa4\\x09\\x1b[31m\"\n"
    it "in JSON" $
      line JsonLines request
        `shouldBe` "{\"time\":\"1994-11-06T08:49:37.007Z\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\"target\":\"/a%20b?c=d\",\"version\":\"1.1\",\"status\":206,\"bytes\":1234,\"microseconds\":1500,\"host\":null,\"referer\":\"http://x/\",\"user_agent\":\"curl/8\"}\n"
    it "cannot be forged in JSON either" $
      line JsonLines bare {requestHeaderUserAgent = Just "\",\"a\":\"\\\n\195\164\255"}
        `shouldSatisfy` ByteString.isSuffixOf "\"user_agent\":\"\\\",\\\"a\\\":\\\"\\\\\\u000a\\u00e4\\ufffd\"}\n"
    it "cannot be forged in JSON by a quote alone" $
      line JsonLines bare {requestHeaderUserAgent = Just "\",\"a\":\""}
        `shouldSatisfy` ByteString.isSuffixOf "\"user_agent\":\"\\\",\\\"a\\\":\\\"\"}\n"
    it "names clients on IPv6" $
      line Combined bare {remoteHost = SockAddrInet6 1 0 (0x20010db8, 0, 0, 0xabc) 0}
        `shouldSatisfy` ByteString.isPrefixOf "2001:db8:0:0:0:0:0:abc - - ["

  describe "the file" . around withDirectory $ do
    it "has every line when the server has stopped, in order" $ \directory -> do
      withAccessLog Combined (directory </> "log") $ \accessLog ->
        forM_ [1 .. 2000 :: Int] $ \number -> logObservation accessLog (observation bare {rawPathInfo = Char8.pack (show number)})
      written <- ByteString.readFile (directory </> "log")
      [Char8.words entry !! 6 | entry <- Char8.lines written] `shouldBe` map (Char8.pack . show) [1 .. 2000 :: Int]
    it "is written to once a second, appended to, and may be renamed" $ \directory -> do
      let path = directory </> "log"
      ByteString.writeFile path "before\n"
      withAccessLog Combined path $ \accessLog -> do
        logObservation accessLog (observation bare)
        eventually ((== 2) . length . Char8.lines <$> ByteString.readFile path)
        renameFile path (directory </> "old")
        logObservation accessLog (observation bare)
        eventually (doesFileExist path)
      map (length . Char8.lines) <$> mapM ByteString.readFile [path, directory </> "old"] `shouldReturn` [1, 2]
    it "that cannot be written to is a failure" $ \directory ->
      withAccessLog Combined (directory </> "no" </> "log") (const (pure ()))
        `shouldThrow` (\failure -> failureAttempt failure == "write the access log " <> directory </> "no" </> "log")

  describe "an observation" $ do
    it "has the status and the announced length" $
      observe bare (responseLBS status404 [(hContentLength, "5")] "12345") `shouldReturn` (404, Just 5)
    it "has the length of a part of a file" $
      observe bare (responseFile status206 [] "x" (Just (FilePart 3 7 100))) `shouldReturn` (206, Just 7)
    it "has no bytes for HEAD and 304" $ do
      observe bare {requestMethod = "HEAD"} (responseLBS status200 [(hContentLength, "5")] "12345") `shouldReturn` (200, Just 0)
      observe bare (responseLBS status304 [(hContentLength, "5")] "") `shouldReturn` (304, Just 0)
    it "says when the length is not known" $ observe bare (responseLBS status200 [] "12345") `shouldReturn` (200, Nothing)
    it "is made when the application throws" $ do
      seen <- newIORef []
      observed (\one -> modifyIORef seen (statusCode (observedStatus one) :)) (\_ _ -> ioError (userError "x")) bare (const (pure ResponseReceived))
        `shouldThrow` anyIOException
      readIORef seen `shouldReturn` [500]
  where
    observation one = Observation one status206 (Just 1234) 1500999
    line format one = Lazy.toStrict (toLazyByteString (renderLine format (momentOf format at) (observation one)))
    at = MkSystemTime 784111777 7000000
    bare = defaultRequest {rawPathInfo = "/", httpVersion = http11, remoteHost = SockAddrInet 1 (tupleToHostAddress (192, 0, 2, 7))}
    request = bare {rawPathInfo = "/a%20b", rawQueryString = "?c=d", requestHeaderReferer = Just "http://x/", requestHeaderUserAgent = Just "curl/8"}

observe :: Request -> Response -> IO (Int, Maybe Int)
observe request response = do
  seen <- newIORef (0, Nothing)
  _ <- observed (\one -> writeIORef seen (statusCode (observedStatus one), observedBytes one)) (\_ respond -> respond response) request (const (pure ResponseReceived))
  readIORef seen

-- Within ten seconds.
eventually :: IO Bool -> IO ()
eventually check = go (100 :: Int)
  where
    go 0 = expectationFailure "it did not happen within ten seconds"
    go left = check >>= \done -> if done then pure () else threadDelay 100000 >> go (left - 1)
