{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Attacks by clients of HTTP/2, and what they may cost. The server is a separate process, with default limits
-- except for shorter times. While an attack runs, another connection asks and must be answered soon, and the server may
-- use only so much processor time and memory. How soon is judged by a second server, which nobody attacks, on the same
-- machine.
module Http2Attack
  ( -- * The attacked server
    serveAttacked,
    Servers (..),
    withServers,

    -- * Attacks
    Attack (..),
    Fate (..),
    Ears (..),
    attack,
    costing,
    survives,

    -- * Steps
    streamOf,
    requestOf,
  )
where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (forConcurrently, withAsync)
import Control.Exception (bracket_, try)
import Control.Monad (forM_, forever, replicateM_, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (sort)
import Data.Word (Word32)
import GHC.Clock (getMonotonicTime)
import Http2Client
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace (defaultSettings, runSettingsInherited, setTimeout)
import ServerProcess
import Support
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Hspec

-- | Serves on the inherited socket until it is killed. Clients that do nothing are given up after two seconds.
serveAttacked :: IO ()
serveAttacked = do
  running <- newIORef (0 :: Int)
  most <- newIORef (0 :: Int)
  let change by = atomicModifyIORef' running (\count -> (count + by, count + by))
      counted = bracket_ (change 1 >>= \now -> atomicModifyIORef' most (\old -> (max old now, ()))) (change (-1))
      tell respond = respond . responseLBS status200 [] . L.fromStrict . C8.pack . show
  runSettingsInherited (setTimeout 2 (quiet defaultSettings)) $ \request respond -> case rawPathInfo request of
    "/most" -> readIORef most >>= tell respond
    "/running" -> readIORef running >>= tell respond
    "/forget" -> readIORef running >>= writeIORef most >> performMajorGC >> pong request respond
    path -> counted $ case path of
      "/slow" -> threadDelay 300000 >> pong request respond
      "/big" -> respond (responseLBS status200 [] (L.replicate 10000000 0x78))
      "/stream" ->
        respond . responseStream status200 [] $ \write _ ->
          replicateM_ 1000 (write (Builder.byteString (B.replicate 10000 0x78)))
      "/read" -> strictRequestBody request >> pong request respond
      _ -> pong request respond

-- At most this many streams of a connection are served at a time, also when their clients have reset them.
streamsAtATime :: Int
streamsAtATime = 128

-- | What must happen to the attacker's connection.
data Fate
  = -- | The server closes it while the attack runs.
    IsEnded
  | -- | The server may keep it: the attack is harmless.
    MayGoOn
  deriving (Eq, Show)

-- | An attack: the number of connections, the settings, and what each client sends repeatedly. A step gets its number.
data Attack = Attack
  { attackConnections :: !Int,
    attackSettings :: ![(Setting, Word)],
    attackSeconds :: !Double,
    attackBegin :: Http2 -> IO (),
    attackStep :: Http2 -> Word32 -> IO (),
    attackEars :: !Ears,
    attackFate :: !Fate,
    -- | The most processor time that a step may cost the server, as a multiple of what a harmless request costs it,
    -- which comes alone on its connection.
    attackCost :: !Double
  }

-- | Whether the attacker reads what the server sends.
data Ears = Listens | IsDeaf
  deriving (Eq, Show)

-- | An attack of one connection and one second, which the server ends.
attack :: (Http2 -> Word32 -> IO ()) -> Attack
attack step = Attack 1 [] 1 (const (return ())) step Listens IsEnded 1

-- | An attack of which a step may cost so much.
costing :: Double -> Attack -> Attack
costing cost attempted = attempted {attackCost = cost}

-- | What it came to.
data Damage = Damage
  { -- | Steps until the connections were closed, or the time was over.
    damageSteps :: !Int,
    damageEnded :: !Bool,
    -- | The server's processor time, without what the others' requests cost.
    damageSeconds :: !Double,
    -- | For how long its threads could run and the machine had no processor for them.
    damageStarved :: !Double,
    -- | The processor time of a harmless request, on the server that is not attacked, while the attack runs.
    damageRequestSeconds :: !Double,
    -- | How many of them the others made.
    damageRequests :: !Int,
    -- | The greatest growth of its memory.
    damageBytes :: !Int,
    -- | The 99th percentile of the time that others waited for an answer.
    damageOthers :: !Double,
    -- | The 99th percentile on a server that is not attacked.
    damageElsewhere :: !Double,
    -- | The most handlers that ran at the same time.
    damageHandlers :: !Int
  }
  deriving (Show)

-- Limits for all attacks: processor time, memory, and others' waiting time. The processor time is measured in harmless
-- requests, because how long anything takes depends on the machine and on the compiler. The limits are about three
-- times what was measured with -O2. A part of the time is not the attack's: that of a connection, and what the others'
-- requests cost more beside it. An attack that ends within some milliseconds can hide behind that part. Others may wait
-- as long as those of the other server, and as long as the attacked server had no processor.
harmless :: Attack -> Damage -> Bool
harmless attempted damage =
  (attackFate attempted == MayGoOn || damageEnded damage)
    && damageSeconds damage <= 0.9 * attackSeconds attempted + 0.3
    && damageSeconds damage <= damageRequestSeconds damage
      * (attackCost attempted * fromIntegral (damageSteps damage) + 0.25 * fromIntegral (damageRequests damage))
      + 0.02
    && damageBytes damage <= 24000000 + 10000 * damageHandlers damage
    && damageOthers damage <= 0.2 + 2 * damageElsewhere damage + damageStarved damage
    && damageHandlers damage <= attackConnections attempted * streamsAtATime + 1

-- | The server survives the attack. A busy machine may spoil an attempt, so one of several must succeed.
survives :: Attack -> Servers -> Expectation
survives attempted servers = go (3 :: Int)
  where
    go left = do
      damage <- measure attempted servers
      unless (harmless attempted damage) $
        if left > 1 then go (left - 1) else damage `shouldSatisfy` harmless attempted

-- | The attacked server, and one that is not attacked.
data Servers = Servers !ServerProcess !ServerProcess

-- | Starts both.
withServers :: (Servers -> IO a) -> IO a
withServers use =
  withServerProcess "attacked" 2000 $ \server -> withServerProcess "attacked" 2000 (use . Servers server)

measure :: Attack -> Servers -> IO Damage
measure attempted (Servers server elsewhere) = do
  let port = serverPort server
  -- By now everything is loaded, and the remains of the last attack are gone.
  withHttp2 (serverPort elsewhere) $ \http2 -> replicateM_ 200 (ask http2 (get "/") "")
  withHttp2 port $ \http2 -> do
    replicateM_ 200 (ask http2 (get "/") "")
    within "the end of the last attack's handlers" (untilNoneRuns http2)
    void (ask http2 (get "/forget") "")
  memory <- residentBytes server
  forgetPeak server
  times <- newIORef []
  timesElsewhere <- newIORef []
  earlier <- processorTime server
  earlierElsewhere <- processorTime elsewhere
  results <-
    asking port times . asking (serverPort elsewhere) timesElsewhere $
      forConcurrently [1 .. attackConnections attempted] (const (attackOnce attempted port))
  later <- processorTime server
  laterElsewhere <- processorTime elsewhere
  asked <- length <$> readIORef times
  askedElsewhere <- length <$> readIORef timesElsewhere
  peak <- peakBytes server
  handlers <- withHttp2 port (numberAt "/most")
  others <- worst <$> readIORef times
  othersElsewhere <- worst <$> readIORef timesElsewhere
  let perRequest = (secondsUsed laterElsewhere - secondsUsed earlierElsewhere) / fromIntegral (max 1 askedElsewhere)
  return
    Damage
      { damageSteps = sum (map fst results),
        damageEnded = all snd results,
        damageSeconds = secondsUsed later - secondsUsed earlier - perRequest * fromIntegral asked,
        damageStarved = secondsWaited later - secondsWaited earlier,
        damageRequestSeconds = perRequest,
        damageRequests = asked,
        damageBytes = peak - memory,
        damageOthers = others,
        damageElsewhere = othersElsewhere,
        damageHandlers = handlers
      }
  where
    numberAt path http2 = maybe 0 fst . C8.readInt . answerBody <$> ask http2 (get path) ""
    untilNoneRuns http2 =
      numberAt "/running" http2 >>= \count -> when (count > 0) (threadDelay 20000 >> untilNoneRuns http2)
    worst times = if null times then 0 else sort times !! (length times * 99 `div` 100)
    asking askedPort times action = withHttp2 askedPort $ \other -> do
      asked <- newIORef Nothing
      withAsync (forever (timedAsk other asked times)) $ \_ -> do
        result <- action
        -- A request that is not answered yet counts, too: it may be the only one.
        waits <- readIORef asked
        forM_ waits (noteTime times)
        return result
    timedAsk other asked times = do
      start <- getMonotonicTime
      writeIORef asked (Just start)
      answer <- ask other (get "/") ""
      writeIORef asked Nothing
      if answerStatus answer == Just 200 then noteTime times start else threadDelay 1000
      threadDelay 2000
    noteTime times start = do
      end <- getMonotonicTime
      atomicModifyIORef' times (\earlier -> (end - start : earlier, ()))

-- Returns the number of steps, and whether the server has closed the connection. A step may block when the server does
-- not read.
attackOnce :: Attack -> Int -> IO (Int, Bool)
attackOnce attempted port = withConnection port $ \client -> do
  http2 <- http2OnClient silent client
  steps <- newIORef 0
  end <- (+ attackSeconds attempted) <$> getMonotonicTime
  let go number = do
        now <- getMonotonicTime
        when (now < end) $ do
          attackStep attempted http2 number
          modifyIORef' steps (+ 1)
          ended <-
            if attackEars attempted == Listens && number `mod` 16 == 15 then hasEndedWithin 100 http2 else return False
          unless ended (go (number + 1))
      begin = handshake http2 (attackSettings attempted) >> attackBegin attempted http2
  _ <-
    try (timeout (ceiling (1000000 * (attackSeconds attempted + 4))) (begin >> go 0)) ::
      IO (Either IOError (Maybe ()))
  -- On a busy machine the server may need some time, but less than the time limit for clients that do nothing.
  ended <- hasEndedWithin 1500000 http2
  count <- readIORef steps
  return (count, ended)

-- Receives until a pause of so long, or the end. True at the end.
hasEndedWithin :: Int -> Http2 -> IO Bool
hasEndedWithin micros http2 =
  nextEventWithin micros http2 >>= \case
    Nothing -> return False
    Just Closed -> return True
    Just _ -> hasEndedWithin micros http2

-- | The stream of a step.
streamOf :: Word32 -> StreamId
streamOf number = 2 * number + 1

-- | A request for a path, on the stream of a step.
requestOf :: Word32 -> B.ByteString -> [Flag] -> Frame
requestOf number path flags = headersFrame (streamOf number) (EndHeaders : flags) (literals fields)
  where
    fields = if EndStream `elem` flags then get path else post path
