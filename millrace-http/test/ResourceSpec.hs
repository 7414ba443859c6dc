{-# LANGUAGE OverloadedStrings #-}

-- | What requests and connections take of memory and time, slow clients, and files that shrink. Servers with other
-- limits are this program, started again.
module ResourceSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Monad (replicateM, replicateM_)
import qualified Data.ByteString as B
import Data.List (sort)
import GHC.Clock (getMonotonicTime)
import Http2Client (awaitAnswer, openStream, withHttp2)
import qualified Http2Client
import Http2Frame
import Network.HTTP.Types
import Network.Wai
import ResourceSupport
import Support
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.Posix.Resource
  ( Resource (..),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import Test.Hspec

spec :: Spec
spec = do
  describe "a small request" $
    it "allocates at most 2 KB on the Haskell heap, everything counted" $
      withOtherServer 256 $ \port -> withConnection port $ \client -> do
        let times = 10000
            ask count = replicateM_ count (kept client)
        ask 1000
        before' <- askNumber "/allocated" client
        ask times
        after' <- askNumber "/allocated" client
        (after' - before') `div` times `shouldSatisfy` (<= 2048)
  describe "a kept connection" $
    it "occupies at most 2 KB of the Haskell heap while it waits" $ do
      let connections = 500
      withOtherServer 1000 $ \port -> withConnection port $ \client -> do
        kept client
        -- Tables of the server grow with the first ones, and its other threads allocate, too.
        let once = do
              before' <- askNumber "/live" client
              after' <- withManyKept connections port (\_ -> askNumber "/live" client)
              threadDelay 300000
              return ((after' - before') `div` connections)
        _ <- once
        replicateM 3 once >>= (`shouldSatisfy` (<= 2000)) . minimum
  describe "a request of HTTP/2 that waited for something" $
    it "leaves nothing on the Haskell heap when it is over" $ do
      let several = 100
          rounds = 40
      withOtherServer 256 $ \port -> withConnection port $ \client -> withHttp2 port $ \http2 -> do
        let askAll =
              replicateM_
                rounds
                ( replicateM several (openStream http2 [EndStream] (Http2Client.get "/later"))
                    >>= mapM_ (awaitAnswer http2)
                )
            -- The last threads may still be ending: an answer arrives before its thread is over.
            live = minimum <$> replicateM 5 (threadDelay 100000 >> askNumber "/live" client)
        askAll
        before' <- live
        askAll
        after' <- live
        -- A weak reference to its thread would be 48 bytes and more.
        (after' - before') `div` (several * rounds) `shouldSatisfy` (< 20)
  describe "slow clients" $
    it "ten thousand of them, or as many as there are descriptors, at most double the slowest of fast answers" $
      do
        count <- manyDescriptors
        withOtherServer 256 $ \empty ->
          withOtherServer (count + 1100) $ \crowded -> withMany count crowded $ \crowd -> do
            mapM_ (`send` "GET / HTTP/1.1\r\nHost: a\r\nX: ") crowd
            ratio <- atMost 2 3 (slowdown empty crowded (cycle crowd))
            (count, ratio) `shouldSatisfy` ((<= 2) . snd)
  describe "a file that shrinks while it is sent" $
    it "ends the connection in the middle: nothing else tells the truth" . withFolder $ \folder -> do
      let path = folder </> "shrinking"
          size = 50000000 :: Int
      B.writeFile path (B.replicate size 0x78)
      withServer id (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \port ->
        withSmallConnection port $ \client -> do
          send client get
          begun <- receiveSome client 1000
          withBinaryFile path ReadWriteMode (`hSetFileSize` 1000000)
          rest <- receiveAll client
          (B.length begun + B.length rest) `shouldSatisfy` (< size)
          -- The server goes on.
          statusOf <$> exchange port get `shouldReturn` 200

-- How many clients there can be, at most 10,000: each has a descriptor here and one in the server.
manyDescriptors :: IO Int
manyDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}
  return $ case hardLimit limits of
    ResourceLimit most -> min 10000 (fromIntegral most - 1200)
    _ -> 10000

-- Twenty bytes every ten milliseconds, to one client after the other.
dribble :: [Client] -> IO ()
dribble clients = do
  mapM_ (`send` "x") (take 20 clients)
  threadDelay 10000
  dribble (drop 20 clients)

-- How much longer the slowest answers of a server take among slow clients than those of another one without. In turn,
-- so that a machine that is busy otherwise concerns both, and the middle of many.
slowdown :: Int -> Int -> [Client] -> IO Double
slowdown empty crowded crowd = withConnection empty $ \alone -> withConnection crowded $ \among -> do
  ratios <- replicateM 11 $ do
    quietly <- slowest alone
    loudly <- withAsync (dribble crowd) (const (slowest among))
    return (loudly / quietly)
  return (sort ratios !! 5)

-- The 99th percentile.
slowest :: Client -> IO Double
slowest client = do
  times <- replicateM 200 $ do
    start <- getMonotonicTime
    kept client
    end <- getMonotonicTime
    return (end - start)
  return (sort times !! 197)

-- The first result that is small enough, of at most this many; else the last.
atMost :: Double -> Int -> IO Double -> IO Double
atMost limit tries measure = do
  result <- measure
  if result <= limit || tries <= 1 then return result else atMost limit (tries - 1) measure
