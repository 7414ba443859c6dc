{-# LANGUAGE OverloadedStrings #-}

-- | The application of the guide's page "A first web application".
module GuestBookSpec (guestBookSpec) where

import Control.Exception (bracket, finally)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (sort)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Support (connectWhenReady, stop)
import System.Exit (ExitCode (..))
import System.IO (hGetContents', hGetLine)
import System.Process
import Test.Hspec
import TestSupport.ByteStream (receiveAllBy)
import TestSupport.Folder (freePort, withTemporaryFolder)
import TestSupport.Time (within)

guestBookSpec :: Spec
guestBookSpec = describe "guest-book" $
  it "routes, keeps entries, refuses, streams, logs, and ends at SIGTERM" . withTemporaryFolder "guest-book" $
    \folder -> do
      port <- freePort
      let logFile = folder ++ "/log"
      (_, Just output, _, process) <- createProcess (proc "guest-book" [show port, logFile]) {std_out = CreatePipe}
      flip finally (stop process) . within 60 "the conversation" $ do
        hGetLine output `shouldReturn` "ready"
        let get path = ask port "GET" path ""
            post = ask port "POST" "/entries"
        get "/greet/J%C3%B6rg" >>= (`shouldEnd` ("200 OK", "Hello, J\xC3\xB6rg\n"))
        post "{\"author\":\"Ann\",\"text\":\"Nice\"}"
          >>= (`shouldEnd` ("201 Created", "{\"author\":\"Ann\",\"text\":\"Nice\"}"))
        get "/entries" >>= (`shouldEnd` ("200 OK", "[{\"author\":\"Ann\",\"text\":\"Nice\"}]"))
        withFollower port $ \follower -> do
          post "{\"author\":\"Bob\",\"text\":\"Hi\"}"
            >>= (`shouldEnd` ("201 Created", "{\"author\":\"Bob\",\"text\":\"Hi\"}"))
          recv follower 4096 `shouldReturn` "data: {\"author\":\"Bob\",\"text\":\"Hi\"}\n\n"
        post "{}" >>= (`shouldEnd` ("400 Bad Request", "\n"))
        post (Char8.replicate 5000 '1') >>= (`shouldEnd` ("413", ""))
        get "/count/1000"
          >>= (`shouldEnd` ("200 OK", "\r\n\r\n" <> Char8.unlines (map (Char8.pack . show) [1 .. 1000 :: Int])))
        ask port "DELETE" "/entries" "" >>= (`shouldEnd` ("405", ""))
        get "/nowhere" >>= (`shouldEnd` ("404", "nothing here.\n"))
        terminateProcess process
        waitForProcess process `shouldReturn` ExitSuccess
        hGetContents' output `shouldReturn` ""
        logged <- map ((!! 8) . words) . lines <$> readFile logFile
        sort logged `shouldBe` sort (map show [200, 201, 200, 201, 200, 400, 413, 200, 405, 404 :: Int])

-- The beginning after the version, and the end of an answer.
shouldEnd :: ByteString -> (ByteString, ByteString) -> Expectation
shouldEnd answer (begin, end) = do
  ByteString.drop (ByteString.length "HTTP/1.1 ") answer `shouldSatisfy` ByteString.isPrefixOf begin
  answer `shouldSatisfy` ByteString.isSuffixOf end

-- When its request has been answered, as far as the head of the answer.
withFollower :: PortNumber -> (Socket -> IO a) -> IO a
withFollower port use = bracket (connectWhenReady port) close $ \connection -> do
  sendAll connection "GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n"
  headOf connection ""
  use connection
  where
    headOf connection got = unless ("\r\n\r\n" `ByteString.isSuffixOf` got) $ do
      bytes <- recv connection 1
      if ByteString.null bytes then fail "no answer" else headOf connection (got <> bytes)

-- By HTTP/1.0, so that a body of unknown length ends with the connection.
ask :: PortNumber -> ByteString -> ByteString -> ByteString -> IO ByteString
ask port method path body = bracket (connectWhenReady port) close $ \connection -> do
  sendAll
    connection
    ( method <> " " <> path <> " HTTP/1.0\r\nHost: localhost\r\nContent-Length: " <> size
        <> "\r\n\r\n"
        <> body
    )
  receiveAllBy (recv connection 65536)
  where
    size = Char8.pack (show (ByteString.length body))
