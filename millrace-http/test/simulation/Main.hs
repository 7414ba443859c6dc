{-# LANGUAGE OverloadedStrings #-}

-- | The server on simulated machines: random clients of HTTP\/1 and HTTP\/2, random failures, thousands of seeds. A
-- seed that fails is named in the message; MILLRACE_SEED=n runs it alone and leaves its trace in simulation.trace.
-- MILLRACE_SEEDS=n: how many; MILLRACE_FIRST_SEED=n: from which on.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, bracket, catch, evaluate, throwIO, try)
import Control.Monad (forM, forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Either (isLeft)
import Data.IORef
import Data.Maybe (fromMaybe, isNothing)
import Data.Word (Word64)
import Http2Client hiding (Reset, get)
import qualified Http2Client
import qualified LongLink
import Millrace.Deadline
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace hiding (answerStatus)
import qualified Replies
import System.Environment (lookupEnv)
import System.Exit (exitFailure)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Text.Read (readMaybe)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  alone <- (>>= readMaybe) <$> lookupEnv "MILLRACE_SEED"
  first <- maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MILLRACE_FIRST_SEED"
  count <- maybe 2000 (fromMaybe 2000 . readMaybe) <$> lookupEnv "MILLRACE_SEEDS"
  let seeds = take count [first ..]
      calmSeeds = take 200 [first ..]
  putStrLn $ case alone of
    Just seed -> "seed " ++ show seed ++ " alone"
    Nothing -> "seeds from " ++ show first ++ " on (another first one: MILLRACE_FIRST_SEED)"
  failures <- newIORef (0 :: Int)
  let check name test = do
        outcome <- try test
        case outcome of
          Right summary -> putStrLn ("ok   " ++ name ++ ": " ++ summary)
          Left problem -> do
            modifyIORef failures (+ 1)
            putStrLn ("FAIL " ++ name ++ ": " ++ show (problem :: SomeException))
  case alone of
    Just seed -> check "this seed" (describe [seed] <$> mapM (crowdOn True . troubled) [seed])
    Nothing -> do
      check "a calm machine loses nothing" $ describe calmSeeds <$> mapM (crowdOn True . unhindered) calmSeeds
      check "troubled machines" $ describe seeds <$> mapM (crowdOn False . troubled) seeds
      check "a reset at every point" resetAtEveryPoint
      check "a day of idle connections" dayOfIdleConnections
      check "clients that go away" clientsThatGoAway
      check "a long link" longLink
      check "the same seed, the same trace" (sameTrace (take 50 [first ..]))
  failed <- readIORef failures
  putStrLn (show (if isNothing alone then 7 - failed else 1 - failed) ++ " passed, " ++ show failed ++ " failed")
  when (failed > 0) exitFailure

unhindered :: Word64 -> Plan
unhindered seed = (troubled seed) {planFaultRates = []}

------------------------------------------------------------------------------------------------------------------------
-- The world

-- | What the clients of one machine saw: complete responses, and requests that ended otherwise.
data Crowd = Crowd {answered :: !Int, cutOff :: !Int, hurt :: !Int}

describe :: [Word64] -> [Crowd] -> String
describe seeds crowds =
  show (length seeds) ++ " seeds, " ++ total answered ++ " responses, " ++ total cutOff ++ " connections cut off, "
    ++ total hurt
    ++ " faults"
  where
    total field = show (sum (map field crowds))

idleSeconds :: Int
idleSeconds = 30

settings :: Settings
settings =
  setTimeout idleSeconds (setGracefulShutdownTimeout (Just 5) (setOnException (\_ _ -> return ()) defaultSettings))

-- | Runs clients against the server on a machine. Fails if anything of the machine was not released.
crowdOn :: Bool -> Plan -> IO Crowd
crowdOn mustAnswer plan = do
  outcome <- simulate plan {planTraces = mustAnswer} (withServer application crowd)
  alone <- lookupEnv "MILLRACE_SEED"
  maybe (return ()) (const (B.writeFile "simulation.trace" (outcomeTrace outcome))) alone
  let seed = "seed " ++ show (outcomeSeed outcome) ++ ": "
      require what holds = unless holds (ioError (userError (seed ++ what)))
  case outcomeResult outcome of
    -- The machine may refuse even the listening socket.
    Left _ | outcomeFaults outcome > 0, outcomeOperations outcome <= 2 -> return (Crowd 0 0 1)
    Left problem -> ioError (userError (seed ++ show problem))
    Right (good, bad) -> do
      require ("descriptors left open: " ++ show (outcomeOpenDescriptors outcome)) (outcomeOpenDescriptors outcome == 0)
      require ("operations left: " ++ show (outcomeWaiting outcome)) (null (outcomeWaiting outcome))
      require "bytes left in buffers" (outcomeBufferedBytes outcome == 0)
      require
        ("buffers not given back: " ++ show (outcomeBorrowedBuffers outcome))
        (outcomeBorrowedBuffers outcome == 0)
      require (show bad ++ " connections were cut off without a fault") (bad == 0 || outcomeFaults outcome > 0)
      return (Crowd good bad (outcomeFaults outcome))

-- | Runs a server during the action, which gets its address. Returns when the server has ended.
withServer :: Application -> (SockAddr -> IO a) -> IO a
withServer served use = do
  listener <- socket AF_INET Stream defaultProtocol
  bind listener (SockAddrInet 80 (tupleToHostAddress (10, 0, 0, 1)))
  listen listener 64
  ended <- newEmptyMVar
  void $
    forkIO $
      (try (runSettingsListener settings listener served) :: IO (Either SomeException ())) >>= putMVar ended
  result <- try (getSocketName listener >>= use)
  close listener
  takeMVar ended >>= either throwIO return
  threadDelay 400000000 -- all stalls and all deadlines are over by then
  either (throwIO :: SomeException -> IO a) return result

-- | /size/tag: answers with this many bytes that depend on the tag, in one piece or in many. A body is sent back.
application :: Application
application request respond = case (requestMethod request, pathInfo request) of
  ("POST", _) -> strictRequestBody request >>= respond . responseLBS status200 (tagOf request)
  (_, [kind, size, _]) | kind == "stream" -> respond $
    responseStream status200 (tagOf request) $ \write flush -> do
      forM_ (pieces 700 (bytesFor (rawPathInfo request) (number size))) $ \piece -> write (byteString piece) >> flush
  (_, [_, size, _]) ->
    respond (responseLBS status200 (tagOf request) (L.fromStrict (bytesFor (rawPathInfo request) (number size))))
  _ -> respond (responseLBS status404 [] "")
  where
    number = fromMaybe 0 . readMaybe . filter (`elem` ['0' .. '9']) . show
    tagOf r = [("X-Tag", rawPathInfo r)]

-- | Bytes that depend on the request and on the position in the response.
bytesFor :: ByteString -> Int -> ByteString
bytesFor path size = B.take size (B.concat (replicate (size `div` B.length path + 1) path))

pieces :: Int -> ByteString -> [ByteString]
pieces size bytes
  | B.null bytes = []
  | otherwise = let (piece, rest) = B.splitAt size bytes in piece : pieces size rest

------------------------------------------------------------------------------------------------------------------------
-- Clients

-- | Runs clients of every kind at once. Returns how many responses were complete, and how many connections broke before
-- that.
crowd :: SockAddr -> IO (Int, Int)
crowd address = do
  count <- (+ 2) <$> chance 8
  results <- forM [1 .. count] $ \client -> do
    result <- newEmptyMVar
    got <- newIORef 0
    void $
      forkIO $ do
        begin <- chance 40000
        threadDelay begin
        outcome <- try (oneClient address client got)
        -- The machine breaks connections, so that is no failure; a wrong byte is one.
        case outcome of
          Left problem | Just wrong <- Replies.wrongOf problem -> putMVar result (Left wrong)
          Left _ -> readIORef got >>= \good -> putMVar result (Right (good, 1))
          Right () -> readIORef got >>= \good -> putMVar result (Right (good, 0))
    return result
  ends <- mapM takeMVar results
  either (ioError . userError) (return . foldr add (0, 0)) (sequence ends)
  where
    add (a, b) (c, d) = (a + c, b + d)

data Wanted
  = -- | the request, the tag and the body of its response
    Wanted ByteString ByteString ByteString

oneClient :: SockAddr -> Int -> IORef Int -> IO ()
oneClient address client got = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
  deadlineAfter (seconds 200) >>= \deadline -> connectBefore deadline s address
  kind <- chance 12
  if kind == 0
    then sayNothing s
    else
      if kind <= 4
        then speakHttp2 s client got
        else do
          rounds <- (+ 1) <$> chance 4
          held <- newIORef B.empty
          forM_ [1 .. rounds] $ \roundNumber -> do
            burst <- (+ 1) <$> chance 4
            wanted <- forM [1 .. burst] $ \index -> wantedRequest (client * 1000 + roundNumber * 10 + index)
            -- At the same time: a server that cannot send its responses takes no more requests.
            sent <- newEmptyMVar
            void $
              forkIO $
                ( try (sendInPieces s (B.concat [request | Wanted request _ _ <- wanted])) ::
                    IO (Either SomeException ())
                )
                  >>= putMVar sent
            answers <- try $
              forM_ wanted $ \(Wanted _ tag body) -> do
                Replies.expectReply (receiveSome s) held tag body
                modifyIORef' got (+ 1)
            when (isLeft answers) $ shutdown s ShutdownBoth `catch` ignore
            sending <- takeMVar sent
            either (throwIO :: SomeException -> IO ()) return (answers >> sending)
          leftover <- readIORef held
          unless (B.null leftover) $ Replies.wrong ("more than was asked for: " ++ show leftover)

-- | Sends several requests at a time on a connection of HTTP/2, and awaits their responses in another order. Resets
-- some.
speakHttp2 :: Socket -> Int -> IORef Int -> IO ()
speakHttp2 s client got = do
  http2 <- http2Over polite (sendInPieces s) (receiveSome s)
  handshake http2 []
  rounds <- (+ 1) <$> chance 4
  forM_ [1 .. rounds] $ \roundNumber -> do
    burst <- (+ 1) <$> chance 6
    asked <- forM [1 .. burst] $ \index -> do
      (kind, path, padding, body) <- wantedAnswer (client * 1000 + roundNumber * 10 + index)
      let fields =
            if kind == Upload
              then post path
              else Http2Client.get path ++ [("x-padding", C8.replicate padding 'p')]
      stream <- sendRequest http2 fields (if kind == Upload then body else "")
      unwanted <- (== 0) <$> chance 8
      when unwanted (sendFrame http2 (resetFrame stream Cancel))
      return (stream, path, body, unwanted)
    forM_ (reverse asked) $ \(stream, path, body, unwanted) -> unless unwanted $ do
      answer <- awaitAnswer http2 stream
      let field name = lookup name (answerHead answer)
      -- A request that was stalled may get a 408.
      when (answerEnd answer /= Complete || answerStatus answer `elem` [Just 400, Just 408]) $
        ioError (userError "the request was cut short")
      unless ((answerStatus answer, field "x-tag", answerBody answer) == (Just 200, Just path, body)) $
        Replies.wrong
          ( "for "
              ++ show path
              ++ ", of "
              ++ show (B.length body)
              ++ " bytes: "
              ++ show (answerHead answer, B.length (answerBody answer))
          )
      modifyIORef' got (+ 1)

ignore :: IOError -> IO ()
ignore _ = return ()

-- Longer than every deadline of the server together with every stall.
receiveSome :: Socket -> IO ByteString
receiveSome s = deadlineAfter (minutes 5) >>= \deadline -> recvBefore deadline s 4096

wantedRequest :: Int -> IO Wanted
wantedRequest tag = do
  (kind, path, padding, body) <- wantedAnswer tag
  return $ case kind of
    Upload ->
      Wanted
        ( B.concat
            [ "POST ",
              path,
              " HTTP/1.1\r\nHost: a\r\nContent-Length: ",
              C8.pack
                (show (B.length body)),
              "\r\n\r\n",
              body
            ]
        )
        path
        body
    _ ->
      Wanted
        (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\nX-Padding: ", C8.replicate padding 'p', "\r\n\r\n"])
        path
        body

data Kind = Plain | Streamed | Upload
  deriving (Eq)

-- | What is asked for, its path, by how much its head is longer than necessary, and the body that must come.
wantedAnswer :: Int -> IO (Kind, ByteString, Int, ByteString)
wantedAnswer tag = do
  kind <- ([Plain, Streamed, Upload] !!) <$> chance 3
  -- Most heads are short; some do not fit into a borrowed buffer.
  padding <- chance 8 >>= \scale -> if scale == 0 then chance 30000 else return 0
  size <- chance 6 >>= \scale -> chance ([1, 10, 100, 1000, 10000, 60000] !! scale)
  let path = C8.pack ("/" ++ (if kind == Streamed then "stream" else "plain") ++ "/" ++ show size ++ "/" ++ show tag)
  return (kind, path, padding, bytesFor path size)

sendInPieces :: Socket -> ByteString -> IO ()
sendInPieces s bytes
  | B.null bytes = return ()
  | otherwise = do
    whole <- chance 2
    size <- if whole == 0 then return (B.length bytes) else (+ 1) <$> chance (B.length bytes)
    let (piece, rest) = B.splitAt size bytes
    sendAll s piece
    unless (B.null rest) (chance 200000 >>= threadDelay)
    sendInPieces s rest

-- | The server must end the connection at its deadline: not before, and not much later.
sayNothing :: Socket -> IO ()
sayNothing s = do
  begin <- now
  bytes <- receiveSome s
  end <- now
  let elapsed = fromIntegral (end - begin) / 1e9 :: Double
  unless (B.null bytes) $ Replies.wrong ("bytes for one who asked for nothing: " ++ show bytes)
  -- Links and delayed completions add some time. Faults that close the connection earlier have raised an exception.
  when (elapsed > fromIntegral idleSeconds + 1) $ Replies.wrong ("closed after " ++ show elapsed ++ " s")

------------------------------------------------------------------------------------------------------------------------
-- More tests

-- | Runs the same once for each operation, which fails with a reset.
resetAtEveryPoint :: IO String
resetAtEveryPoint = do
  calmly <- simulate (calm 5) (withServer application crowd)
  let count = outcomeOperations calmly
  crowds <- forM [3 .. count] $ \number -> crowdOn False (calm 5) {planFaults = [(number, Reset)]}
  return (describe (map fromIntegral [3 .. count]) crowds)

-- | Connections that come every minute for a day, send a word and then nothing.
dayOfIdleConnections :: IO String
dayOfIdleConnections = do
  outcome <- simulate (calm 6) {planTraces = False} $
    withServer application $ \address -> do
      ends <- forM [1 .. 1440 :: Int] $ \minute -> do
        end <- newEmptyMVar
        void $ forkIO $ (try (idler address minute) :: IO (Either SomeException Double)) >>= putMVar end
        threadDelay 60000000
        return end
      mapM takeMVar ends
  waits <- either throwIO (mapM (either throwIO evaluate)) (outcomeResult outcome)
  unless (all (\w -> w >= fromIntegral idleSeconds && w < fromIntegral idleSeconds + 0.01) waits) $
    ioError (userError ("idle for " ++ show (minimum waits) ++ " to " ++ show (maximum waits) ++ " s"))
  return
    ( show (length waits) ++ " connections, each ended after " ++ show idleSeconds ++ " s of silence; "
        ++ show (durationSeconds (outcomeDuration outcome))
        ++ " s of virtual time"
    )

idler :: SockAddr -> Int -> IO Double
idler address minute = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
  connect s address
  let path = C8.pack ("/plain/10/" ++ show minute)
  held <- newIORef B.empty
  sendAll s (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
  Replies.expectReply (receiveSome s) held path (bytesFor path 10)
  begin <- now
  bytes <- receiveSome s
  end <- now
  unless (B.null bytes) $ Replies.wrong (show bytes)
  return (fromIntegral (end - begin) / 1e9)

-- | The length of a compressed Date depends on the second of the clock outside, so a difference must show three times.
sameTrace :: [Word64] -> IO String
sameTrace seeds = do
  sizes <- mapM (traceSize (3 :: Int)) seeds
  return (show (sum sizes) ++ " bytes")
  where
    traceSize left seed = do
      first <- outcomeTrace <$> simulate (troubled seed) (withServer application crowd)
      second <- outcomeTrace <$> simulate (troubled seed) (withServer application crowd)
      if first == second
        then return (B.length first)
        else if left > 1 then traceSize (left - 1) seed else ioError (userError ("two traces for seed " ++ show seed))

-- | An upload and a download of 100 MB on one stream of HTTP\/2, where a round trip takes 50 ms. Windows must grow to
-- what is on the way, so they get nearly all of what the link gives. A fast link is done in 16 round trips, and the
-- windows need some of them to grow. Then an upload beside a body that nobody reads, which has the largest window of a
-- stream.
longLink :: IO String
longLink =
  unwords
    <$> sequence
      ( [ travel direction megabytes least
          | (megabytes, least) <-
              links,
            direction <- [LongLink.Download, LongLink.Upload]
        ]
          ++ [travel LongLink.TwoUploads 20 0.3]
      )
  where
    links = [(5, 0.9), (20, 0.9), (40, 0.9), (60, 0.9), (80, 0.87), (125, 0.75)]
    size = 100000000 :: Int
    travel :: LongLink.Direction -> Int -> Double -> IO String
    travel direction megabytes least = do
      outcome <-
        simulate
          (calm 8)
            { planLatency = milliseconds 25,
              planBytesPerSecond = 1000000 * megabytes,
              planBufferBytes = 16777216,
              planTraces = False
            }
          $ withServer (LongLink.application size) (LongLink.transfer direction size)
      elapsedNs <- either throwIO return (outcomeResult outcome)
      let share = fromIntegral size / fromIntegral megabytes * 1000 / fromIntegral elapsedNs
          described =
            show direction
              ++ " at "
              ++ show megabytes
              ++ " MB/s: "
              ++ show (fromIntegral (round (1000 * share) :: Int) / 1000 :: Double)
              ++ ";"
      if share >= least
        then return described
        else ioError (userError (described ++ " of what the link gives is not enough"))

-- | How a client leaves while its request is being answered, and whether it counts as gone then.
data Leaving = Stays | Closes | EndsItsHalf | SendsMoreAndCloses
  deriving (Show, Enum, Bounded)

-- | 'isConnected' and 'onDisconnect' report the truth, and in time.
clientsThatGoAway :: IO String
clientsThatGoAway = do
  mapM_ leaveWhileAnswered [minBound .. maxBound]
  return "each of them seen, and none that stayed"

leaveWhileAnswered :: Leaving -> IO ()
leaveWhileAnswered leaving = do
  told <- newIORef Nothing
  seen <- newEmptyMVar
  let answer request respond = do
        before <- isConnected request
        void $ onDisconnect request (now >>= writeIORef told . Just) (threadDelay 10000000)
        after <- isConnected request
        end <- readIORef told
        putMVar seen (before, after, end)
        respond (responseLBS status200 [] "")
  outcome <- simulate (calm 7) {planLatency = milliseconds 1} $
    withServer answer $ \address -> do
      left <- bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
        connect s address
        sendAll s get
        threadDelay 2000000
        left <- now
        case leaving of
          Stays -> void (receiveSome s)
          Closes -> return ()
          EndsItsHalf -> shutdown s ShutdownSend >> void (receiveSome s)
          SendsMoreAndCloses -> sendAll s get
        return left
      (,) left <$> takeMVar seen
  (left, (before, after, end)) <- either throwIO return (outcomeResult outcome)
  let stays = case leaving of Stays -> True; _ -> False
      toldAfter = fmap (\time -> fromIntegral (time - left) / 1e9) end :: Maybe Double
      holds = before && after == stays && maybe stays (\delay -> not stays && delay > 0 && delay < 0.3) toldAfter
  unless holds $
    ioError (userError (show leaving ++ ": connected " ++ show (before, after) ++ ", told after " ++ show toldAfter))
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
