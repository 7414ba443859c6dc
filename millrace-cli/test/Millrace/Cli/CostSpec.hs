{-# LANGUAGE OverloadedStrings #-}

-- | A list in a request for a file costs about what another head of its size costs, from the first byte to the answer.
module Millrace.Cli.CostSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (forM_, replicateM, replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (sort)
import Millrace.Cli.Files.StaticFiles
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Network.Wai.Handler.Millrace (testWithApplication)
import Site
import System.CPUTime (getCPUTime)
import Test.Hspec

spec :: Spec
spec = around withServedSite $
  forM_ lists $ \(name, member) ->
    forM_ shapes $ \(shape, linesOf) ->
      it (Char8.unpack name <> ": " <> shape) $ \port ->
        requestWith (linesOf name member) `isAtMost` requestWith ordinary $ port
  where
    lists =
      [ ("Accept-Encoding", "a,"),
        ("Accept-Encoding", "gzip;q=0.5,"),
        ("Accept-Encoding", ","),
        ("Accept", "a/b,"),
        ("Accept", "a/b;a=b,"),
        ("Accept-Language", "a,"),
        ("If-None-Match", "\"\","),
        ("If-None-Match", "W/\"a\", "),
        ("If-None-Match", ","),
        ("If-Match", "\"a\","),
        ("If-Range", "\"a\","),
        ("Range", "bytes=0-0,"),
        ("Cookie", "a=b; "),
        ("Cache-Control", "a,"),
        ("Connection", "a,"),
        ("Upgrade", "a,"),
        ("Via", "1.1 a,"),
        ("X-Forwarded-For", "::1,")
      ]
    shapes = [("one line", oneLine), ("a hundred lines", manyLines), ("long members", longMembers)]

withServedSite :: (Int -> IO ()) -> IO ()
withServedSite use = withDirectory $ \site -> do
  writeOld site "page.txt" (Char8.replicate 300 'p')
  root <- openRoot StayInside site
  compressor <- newCompressor 1000000
  testWithApplication (pure (staticFiles (plainSite root) {siteCompressor = Just compressor})) use

-- The size of a head, without a little for the request line, and the number of its fields, that are allowed by default.
headSize, fieldsMax :: Int
headSize = 49000
fieldsMax = 95

ordinary :: [ByteString]
ordinary =
  [ "X-Ordinary-" <> Char8.pack (show number) <> ": " <> Char8.replicate (headSize `div` fieldsMax - 20) 'v'
    | number <-
        [1 .. fieldsMax]
  ]

oneLine, manyLines, longMembers :: ByteString -> ByteString -> [ByteString]
oneLine name member = [name <> ": " <> Char8.concat (replicate (headSize `div` ByteString.length member) member)]
manyLines name member =
  replicate
    fieldsMax
    (name <> ": " <> Char8.concat (replicate ((headSize `div` fieldsMax - 20) `div` ByteString.length member) member))
longMembers name member =
  [ name
      <> ": "
      <> Char8.concat (replicate 100 (Char8.replicate (headSize `div` 100 - ByteString.length member) 'm' <> member))
  ]

requestWith :: [ByteString] -> ByteString
requestWith fields = Char8.concat ("GET /page.txt HTTP/1.1\r\nHost: a\r\n" : map (<> "\r\n") fields <> ["\r\n"])

-- The first request takes at most three times the processor time of the second one: medians, measured in turns. Other
-- programs do not matter, because the time is this program's.
isAtMost :: ByteString -> ByteString -> Int -> Expectation
isAtMost request reference port = bracket open close $ \client -> do
  mapM_ (exchange client) [request, reference]
  times <- replicateM 7 ((,) <$> timeOf client request <*> timeOf client reference)
  let median which = sort (map which times) !! 3
  (median fst, median snd) `shouldSatisfy` (\(time, allowed) -> time <= 3 * allowed)
  where
    open = do
      client <- socket AF_INET Stream defaultProtocol
      client <$ connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
    timeOf client bytes = do
      begin <- getCPUTime
      replicateM_ 8 (exchange client bytes)
      subtract begin <$> getCPUTime

-- Sends a request, and receives the answer, which has no more than arrives at once.
exchange :: Socket -> ByteString -> IO ()
exchange client bytes = do
  sendAll client bytes
  answer <- recv client 65536
  Char8.take 5 answer `shouldBe` "HTTP/"
