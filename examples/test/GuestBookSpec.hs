{-# LANGUAGE OverloadedStrings #-}

-- | The application of the guide's page "A first web application".
module GuestBookSpec (guestBookSpec) where

import Control.Exception (bracket, finally)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Support (connectWhenReady, stop)
import System.Exit (ExitCode (..))
import System.IO (hGetContents', hGetLine)
import System.Process
import Test.Hspec
import TestSupport.ByteStream (receiveAllBy)
import TestSupport.Folder (freePort)
import TestSupport.Time (within)

guestBookSpec :: Spec
guestBookSpec = describe "guest-book" $
  it "routes, keeps entries, refuses, streams, logs, and ends at SIGTERM" $ do
    port <- freePort
    (_, Just output, _, process) <- createProcess (proc "guest-book" [show port]) {std_out = CreatePipe}
    flip finally (stop process) . within 60 "the conversation" $ do
      hGetLine output `shouldReturn` "ready"
      let get path = ask port "GET" path ""
          post = ask port "POST" "/entries"
      get "/greet/J%C3%B6rg" >>= (`shouldEnd` ("200 OK", "Hello, J\xC3\xB6rg\n"))
      post "{\"author\":\"Ann\",\"text\":\"Nice\"}" >>= (`shouldEnd` ("201 Created", "{\"author\":\"Ann\",\"text\":\"Nice\"}"))
      get "/entries" >>= (`shouldEnd` ("200 OK", "[{\"author\":\"Ann\",\"text\":\"Nice\"}]"))
      post "{}" >>= (`shouldEnd` ("400 Bad Request", "\n"))
      post (Char8.replicate 5000 '1') >>= (`shouldEnd` ("413", ""))
      get "/count/1000" >>= (`shouldEnd` ("200 OK", "\r\n\r\n" <> Char8.unlines (map (Char8.pack . show) [1 .. 1000 :: Int])))
      ask port "DELETE" "/entries" "" >>= (`shouldEnd` ("405", ""))
      get "/nowhere" >>= (`shouldEnd` ("404", "nothing here.\n"))
      terminateProcess process
      waitForProcess process `shouldReturn` ExitSuccess
      logged <- lines <$> hGetContents' output
      map (reverse . takeWhile (/= ',') . drop 1 . reverse) logged
        `shouldBe` map show [200, 201, 200, 400, 413, 200, 405, 404 :: Int]

-- The beginning after the version, and the end of an answer.
shouldEnd :: ByteString -> (ByteString, ByteString) -> Expectation
shouldEnd answer (begin, end) = do
  ByteString.drop (ByteString.length "HTTP/1.1 ") answer `shouldSatisfy` ByteString.isPrefixOf begin
  answer `shouldSatisfy` ByteString.isSuffixOf end

-- By HTTP/1.0, so that a body of unknown length ends with the connection.
ask :: PortNumber -> ByteString -> ByteString -> ByteString -> IO ByteString
ask port method path body = bracket (connectWhenReady port) close $ \connection -> do
  sendAll connection (method <> " " <> path <> " HTTP/1.0\r\nHost: localhost\r\nContent-Length: " <> size <> "\r\n\r\n" <> body)
  receiveAllBy (recv connection 65536)
  where
    size = Char8.pack (show (ByteString.length body))
