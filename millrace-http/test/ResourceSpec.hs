{-# LANGUAGE OverloadedStrings #-}

-- | Too few descriptors, too many slow clients, files that shrink, and sockets that come from elsewhere. Servers with
-- limits of their own are this program, started again.
module ResourceSpec (spec, serveInherited) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (Exception (..), bracket, catch, try)
import Control.Monad (forM_, replicateM, replicateM_, unless, void)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as L8
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.List (sort)
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTime)
import GHC.IO.Exception (IOException (..))
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Http2Client (awaitAnswer, openStream, withHttp2)
import qualified Http2Client
import Http2Frame
import Millrace.Http.Multipart (newBoundary)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import ServerProcess
import Support
import System.Directory (listDirectory)
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.Mem (performMajorGC, performMinorGC)
import System.Posix.Files (readSymbolicLink)
import System.Posix.IO (closeFd, dup, stdInput)
import System.Posix.Resource
  ( Resource (..),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import System.Posix.Types (Fd (..))
import Test.Hspec

spec :: Spec
spec = do
  describe "inherited sockets" $
    it "are served: a connection that came before the server is answered" $
      withOtherServer 256 $ \port -> map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
  describe "descriptors that run out" $ do
    it "delay new connections if others are busy, and nothing else" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send early "GET / HTTP/1.1\r\nHost: a\r\nX: "
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        withConnection port $ \late -> do
          send late get
          receiveUntilTimeout 50000 late `shouldReturn` ("", False)
          send early "y\r\n\r\n"
          replyBody <$> receiveResponse early `shouldReturn` "Pong"
          send holder "0\r\n\r\n"
          map replyBody . parseReplies <$> receiveAll late `shouldReturn` ["Pong"]
    it "are given up for new connections by idle ones, also if others have taken all of them" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        withConnection port $ \late -> do
          send late get
          map replyBody . parseReplies <$> receiveAll late `shouldReturn` ["Pong"]
          receiveAll early `shouldReturn` ""
    it "are no reason to say that a file is not there" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        send early "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
        refused <- receiveResponse early
        (replyStatus refused, headerOf "retry-after" refused) `shouldBe` (503, Just "1")
        send holder "0\r\n\r\n"
        _ <- receiveUntilThere "0\r\n\r\n" 1 0 holder
        send early "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
        replyStatus <$> receiveResponse early `shouldReturn` 200
        send early "GET /reported HTTP/1.1\r\nHost: a\r\n\r\n"
        replyBody <$> receiveResponse early `shouldReturn` "/file: Too many open files"
    it "are not needed for what separates several ranges" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        boundaries <- replicateM 2 (send early "GET /boundary HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveResponse early)
        map (\reply -> (replyStatus reply, B.length (replyBody reply))) boundaries `shouldBe` [(200, 32), (200, 32)]
        map replyBody boundaries `shouldSatisfy` \found -> take 1 found /= drop 1 found
    it "are not kept by idle connections: the oldest give way" $
      withOtherServer 48 $ \port -> withManyKept 60 port $ \crowd -> do
        receiveAll (last crowd) `shouldReturn` ""
        mapM_ kept (take 1 crowd)
    it "have a share that connections leave to files" $
      withOtherServer 64 $ \port -> withManyKept 80 port . const . withConnection port $ \client -> do
        send client "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"
        open <- fst . fromMaybe (0, "") . C8.readInt . replyBody <$> receiveResponse client
        open `shouldSatisfy` (\count -> count > 40 && count <= 52)
        forM_ [1 .. 5 :: Int] $ \_ -> do
          send client "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
          replyStatus <$> receiveResponse client `shouldReturn` 200
    it "are left to connections that are not idle: new ones wait" $
      withOtherServer 48 $ \port -> do
        withConnection port $ \first -> do
          -- Which of several new ones is counted first is the accepting threads' affair: this one is there before them.
          send first "POST /busy HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
          _ <- receiveUntilThere "begun" 1 0 first
          withMany 60 port $ \crowd -> do
            mapM_ (`send` "GET / HTTP/1.1\r\nHost: a\r\nX: ") crowd
            forM_ (take 1 crowd) $ \newcomer -> do
              send newcomer "y\r\n\r\n"
              receiveUntilTimeout 50000 newcomer `shouldReturn` ("", False)
            send first "0\r\n\r\n"
            receiveUntilThere "0\r\n\r\n" 1 0 first >>= (`shouldSatisfy` B.isSuffixOf "0\r\n\r\n") . fst
        map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
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
  describe "a newcomer at the limit of connections" $
    it "costs no more where many are open than where few are" $ do
      let newcomers = 300
          cost capacity = withOtherServer capacity $ \port -> withManyKept capacity port $ \_ -> do
            before' <- withConnection port (askNumber "/allocated")
            after' <- withManyKept newcomers port (\_ -> withConnection port (askNumber "/allocated"))
            return (fromIntegral ((after' - before') `div` newcomers))
      few <- cost 100
      many <- cost 1500
      (few, many) `shouldSatisfy` (\(small, large) -> large < 2 * (small :: Double))
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
    it "ten thousand of them, or as many as there are descriptors for, leave the slowest of fast answers within twice what they are" $
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
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

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

-- A request and its answer.
kept :: Client -> IO ()
kept client = do
  send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  replyBody <$> receiveResponse client `shouldReturn` "Pong"

-- The first result that is small enough, of at most this many; else the last.
atMost :: Double -> Int -> IO Double -> IO Double
atMost limit tries measure = do
  result <- measure
  if result <= limit || tries <= 1 then return result else atMost limit (tries - 1) measure

-- The same, each of which was answered before the next connected.
withManyKept :: Int -> Int -> ([Client] -> IO a) -> IO a
withManyKept count port use = go count []
  where
    go 0 clients = use clients
    go left clients = withConnection port (\client -> kept client >> go (left - 1 :: Int) (client : clients))

-- A server in a process that may have this many descriptors.
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
      "/exhaust" -> awaitClock 100 >> bracket (takeAll []) (mapM_ closeFd) (\_ -> waiting "full" request respond)
      "/busy" -> waiting "begun" request respond
      "/open" -> listDirectory descriptors >>= tell respond . length
      "/file" -> respond (responseFile status200 [] "/etc/passwd" Nothing)
      "/boundary" -> newBoundary >>= respond . responseLBS status200 [] . L8.fromStrict
      "/reported" -> readIORef reported >>= respond . responseLBS status200 [] . L8.pack
      _ -> pong request respond
  where
    -- Goes on until the request body ends.
    waiting word request respond =
      respond . responseStream status200 [] $ \write flush -> write word >> flush >> void (strictRequestBody request)
    -- The run-time system takes a descriptor for its clock in a thread of that, some time after the program has begun:
    -- where there is none left then, it ends the program. On another system the clock may need none.
    awaitClock :: Int -> IO ()
    awaitClock 0 = return ()
    awaitClock tries = do
      open <- listDirectory descriptors >>= mapM (\name -> readSymbolicLink (descriptors </> name) `catch` closed)
      unless ("anon_inode:[timerfd]" `elem` open) (threadDelay 10000 >> awaitClock (tries - 1))
    descriptors = "/proc/self/fd"
    closed :: IOException -> IO FilePath
    closed _ = return ""
    -- Every descriptor that there is.
    takeAll taken = try (dup stdInput) >>= either (none taken) (takeAll . (: taken))
    none :: [Fd] -> IOException -> IO [Fd]
    none taken _ = return taken
    -- Numbers that collections bring up to date.
    tell respond number = respond (responseLBS status200 [] (L8.pack (show number)))
    -- What went wrong last with a request, in the system's words.
    note reported request failure = forM_ ((,) <$> request <*> fromException failure) $ \(asked, exception) ->
      writeIORef reported (C8.unpack (rawPathInfo asked) ++ ": " ++ ioe_description exception)

-- What such a server says of its memory.
askNumber :: B.ByteString -> Client -> IO Int
askNumber path client = do
  send client (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
  maybe (error "no number") fst . C8.readInt . replyBody <$> receiveResponse client
