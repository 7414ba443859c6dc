{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of resources share: servers with few descriptors, and many clients.
module ResourceSupport
  ( get,
    kept,
    withManyKept,
    withOtherServer,
    serveInherited,
    askNumber,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (Exception (..), bracket, try)
import Control.Monad (forM_, void)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as L8
import Data.IORef (newIORef, readIORef, writeIORef)
import GHC.IO.Exception (IOException (..))
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Millrace.Http.Multipart (newBoundary)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import ServerProcess
import Support
import System.Mem (performMajorGC, performMinorGC)
import System.Posix.IO (closeFd, dup, stdInput)
import System.Posix.Types (Fd (..))
import Test.Hspec
import TestSupport.Process (awaitTicker, descriptorCount)

-- | A request after which the connection is closed.
get :: B.ByteString
get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

-- | A request and its answer.
kept :: Client -> IO ()
kept client = do
  send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  replyBody <$> receiveResponse client `shouldReturn` "Pong"

-- | Many such clients, each of which was answered before the next one connected.
withManyKept :: Int -> Int -> ([Client] -> IO a) -> IO a
withManyKept count port use = go count []
  where
    go 0 clients = use clients
    go left clients = withConnection port (\client -> kept client >> go (left - 1 :: Int) (client : clients))

-- | A server in a process that may have this many descriptors.
withOtherServer :: Int -> (Int -> IO a) -> IO a
withOtherServer descriptors use = withServerProcess "resources" descriptors (use . serverPort)

-- | Serves on the inherited sockets until it is killed.
serveInherited :: IO ()
serveInherited = do
  reported <- newIORef ""
  runSettingsInherited (setOnException (note reported) defaultSettings) $ \request respond ->
    case rawPathInfo request of
      "/allocated" -> performMinorGC >> getRTSStats >>= tell respond . allocated_bytes
      "/live" -> performMajorGC >> getRTSStats >>= tell respond . gcdetails_live_bytes . gc
      "/later" -> threadDelay 1000 >> pong request respond
      "/exhaust" -> awaitTicker >> bracket (takeAll []) (mapM_ closeFd) (\_ -> waiting "full" request respond)
      "/busy" -> waiting "begun" request respond
      "/open" -> descriptorCount >>= tell respond
      "/file" -> respond (responseFile status200 [] "/etc/passwd" Nothing)
      "/boundary" -> newBoundary >>= respond . responseLBS status200 [] . L8.fromStrict
      "/reported" -> readIORef reported >>= respond . responseLBS status200 [] . L8.pack
      _ -> pong request respond
  where
    -- Goes on until the request body ends.
    waiting word request respond =
      respond . responseStream status200 [] $ \write flush -> write word >> flush >> void (strictRequestBody request)
    -- Every descriptor that there is.
    takeAll taken = try (dup stdInput) >>= either (none taken) (takeAll . (: taken))
    none :: [Fd] -> IOException -> IO [Fd]
    none taken _ = return taken
    -- Numbers that collections bring up to date.
    tell respond number = respond (responseLBS status200 [] (L8.pack (show number)))
    -- What went wrong last with a request, in the system's words.
    note reported request failure = forM_ ((,) <$> request <*> fromException failure) $ \(asked, exception) ->
      writeIORef reported (C8.unpack (rawPathInfo asked) ++ ": " ++ ioe_description exception)

-- | A number that such a server tells, such as that of its memory.
askNumber :: B.ByteString -> Client -> IO Int
askNumber path client = do
  send client (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
  maybe (error "no number") fst . C8.readInt . replyBody <$> receiveResponse client
