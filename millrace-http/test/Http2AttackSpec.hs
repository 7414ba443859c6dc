{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Hostile clients of HTTP/2, one test for each published attack. The server is a process of its own, with default
-- limits except for shorter times. While an attack runs, another connection asks and must be answered soon, and the
-- server may use only so much processor time and memory. How soon is judged by a second server, which nobody attacks,
-- on the same machine.
module Http2AttackSpec (spec, serveAttacked) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (forConcurrently, withAsync)
import Control.Exception (bracket_, try)
import Control.Monad (forM_, forever, replicateM, replicateM_, unless, void, when)
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

------------------------------------------------------------------------------------------------------------------------
-- The server

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

------------------------------------------------------------------------------------------------------------------------
-- The measure

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
    -- | The same on a server that is not attacked.
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

-- A busy machine may spoil an attempt, so one of several must succeed.
survives :: Attack -> Servers -> Expectation
survives attempted servers = go (3 :: Int)
  where
    go left = do
      damage <- measure attempted servers
      unless (harmless attempted damage) $
        if left > 1 then go (left - 1) else damage `shouldSatisfy` harmless attempted

-- The attacked server, and one that is not attacked.
data Servers = Servers !ServerProcess !ServerProcess

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

------------------------------------------------------------------------------------------------------------------------
-- The attacks

spec :: Spec
spec = describe "hostile clients of HTTP/2" . aroundAll withServers $ do
  describe "requests that are not wanted" $ do
    it "rapid reset (CVE-2023-44487)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrames http2 [request number "/slow" [EndStream], resetFrame (streamOf number) Cancel]
    it "rapid reset of requests with bodies (CVE-2023-44487)" . survives . costing 0.15 . attack $ \http2 number ->
      sendFrames
        http2
        [request number "/read" [], dataFrame (streamOf number) [] "x", resetFrame (streamOf number) Cancel]
    forM_ madeResets $ \(how, provoke) ->
      it ("resets that the server is made to send (CVE-2025-8671): " ++ how) . survives . costing 0.2 . attack $
        \http2 number ->
          sendFrames http2 (request number "/slow" [EndStream] : provoke (streamOf number))
    it "malformed requests, each of which is reset (CVE-2019-9514)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrame
        http2
        (headersFrame (streamOf number) [EndHeaders, EndStream] (literals (get "/" ++ [("Upper", "case")])))
    it "more streams than are allowed, each of which is refused" . survives . costing 0.15 . attack $ \http2 number ->
      sendFrame http2 (request number "/read" [])
    it "streams that are opened and never used" . survives . costing 4.5 $
      (attack (\_ _ -> threadDelay 100000))
        { attackConnections = 20,
          attackSeconds = 3.5,
          attackBegin = \http2 -> sendFrames http2 [request number "/read" [] | number <- [0 .. 99]]
        }

  describe "header blocks" $ do
    it "CONTINUATION without end (CVE-2024-27316)" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrame http2 (continuationFrame 1 [] (literals (replicate 100 ("x", "y"))))))
        { attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "empty CONTINUATION without end (CVE-2024-28182)" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 10 (continuationFrame 1 [] ""))))
        { attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "CONTINUATION of a stream that was never opened" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrame http2 (continuationFrame 1 [] (literals [("x", "y")]))
    it "a header bomb by references (CVE-2016-6581)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 15000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame
                http2
                (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", B.replicate 4000 0x79)))
        }
    it "a header bomb by references to nearly empty fields (CVE-2026-49975)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 16000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", "")))
        }
    it "such bombs below the limit on many streams, with a window of nothing" . survives . costing 0.4 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/big") <> B.concat (replicate 100 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("x", ""))),
          attackSettings = [(InitialWindowSize, 0)]
        }
    it "cookie crumbs (CVE-2026-47774)" . survives . costing 0.2 $
      ( attack
          ( \http2 number ->
              sendFrame
                http2
                ( headersFrame
                    (streamOf (number + 1))
                    [EndHeaders, EndStream]
                    (literals (get "/") <> B.concat (replicate 16000 (indexed 62)))
                )
          )
      )
        { attackBegin =
            \http2 ->
              sendFrame http2 (headersFrame 1 [EndHeaders, EndStream] (literals (get "/") <> remembered ("cookie", "")))
        }
    it "large cookie crumbs between other fields, on streams that wait" . survives . costing 0.2 $
      ( attack $ \http2 number ->
          when (number < 100) . sendFrame http2 . headersFrame (streamOf (number + 1)) [EndHeaders, EndStream] $
            literals (get "/slow")
              <> B.concat (replicate 40 (indexed 63 <> indexed 62))
              <> B.concat (replicate 9 (indexed 63))
      )
        { attackBegin =
            \http2 ->
              sendFrame
                http2
                ( headersFrame
                    1
                    [EndHeaders, EndStream]
                    (literals (get "/") <> remembered ("cookie", B.replicate 900 0x79) <> remembered ("x", ""))
                ),
          attackFate = MayGoOn
        }
    it "fields without names (CVE-2019-9516)" . survives . costing 0.25 . attack $ \http2 number ->
      sendFrame
        http2
        ( headersFrame
            (streamOf number)
            [EndHeaders, EndStream]
            (literals (get "/") <> B.concat (replicate 100 "\0\0\0"))
        )
    it "sizes of the dynamic table that change all the time" . survives . costing 2.5 $
      ( attack $ \http2 number ->
          sendFrame
            http2
            ( headersFrame
                (streamOf number)
                [EndHeaders, EndStream]
                (B.concat (replicate 8000 (tableSize 0)) <> literals (get "/"))
            )
      )
        { attackFate = MayGoOn
        }
    it "an integer without end" . survives . costing 0.2 . attack $ \http2 number ->
      sendFrame http2 (headersFrame (streamOf number) [EndHeaders, EndStream] (B.cons 0xff (B.replicate 100 0xff)))

  describe "frames of no use" $ do
    it "PING (CVE-2019-9512)" . survives . costing 0.15 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (pingFrame "12345678"))
    it "PING, and nothing is read (CVE-2019-9512)" . survives . costing 0.02 $
      deaf (\http2 _ -> sendFrames http2 (replicate 50 (pingFrame "12345678")))
    it "SETTINGS (CVE-2019-9515)" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (settingsFrame []))
    it "SETTINGS, and nothing is read (CVE-2019-9515)" . survives . costing 0.02 $
      deaf (\http2 _ -> sendFrames http2 (replicate 50 (settingsFrame [(InitialWindowSize, 1000)])))
    it "one large SETTINGS frame after the other (CVE-2020-11080)" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrame http2 (settingsFrame (replicate 2400 (HeaderTableSize, 4096)))
    it "acknowledgements of settings and pings that nobody sent" . survives . costing 0.1 . attack $ \http2 _ ->
      sendFrames http2 (replicate 50 (pingAck "12345678") ++ replicate 50 settingsAck)
    it "empty DATA (CVE-2019-9518)" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [] ""))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/read" [])
        }
    it "DATA of nothing but padding (CVE-2019-9518)" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [Padded] "\3\0\0\0"))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/read" [])
        }
    it "DATA byte by byte" . survives . costing 0.25 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (dataFrame 1 [] "x"))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/read" []),
          attackFate = MayGoOn
        }
    it "priorities in a circle (CVE-2019-9513)" . survives . costing 0.1 . attack $ \http2 number ->
      sendFrames
        http2
        [priorityFrame (streamOf (number + place)) (streamOf (number + place + 1)) 7 | place <- [0 .. 49]]
    it "PRIORITY_UPDATE" . survives . costing 0.3 . attack $ \http2 number ->
      sendFrames http2 [priorityUpdate (streamOf (number + place)) "u=1" | place <- [0 .. 49]]
    it "WINDOW_UPDATE" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (windowUpdate 1 1))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/read" [])
        }
    it "resets of streams that are closed" . survives . costing 0.2 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (resetFrame 1 Cancel))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/" [EndStream])
        }
    it "frames that nobody knows" . survives . costing 0.1 $
      (attack (\http2 _ -> sendFrames http2 (replicate 50 (Frame (OtherType 0xbe) 0 0 "")))) {attackFate = MayGoOn}

  describe "windows" $ do
    it "large answers, a byte at a time (CVE-2019-9511)" . survives . costing 0.25 $
      ( attack $ \http2 number ->
          sendFrames http2 [windowUpdate (streamOf ((number + place) `mod` 50)) 1 | place <- [0 .. 9]]
            >> sendFrame http2 (windowUpdate 0 10)
      )
        { attackSettings = [(InitialWindowSize, 0)],
          attackBegin = \http2 -> sendFrames http2 [request number "/big" [EndStream] | number <- [0 .. 49]]
        }
    it "a window that is open, and nothing is read (CVE-2019-9517)" . survives . costing 2 $
      (deaf (\_ _ -> threadDelay 100000))
        { attackSettings = [(InitialWindowSize, 0x7fffffff)],
          attackSeconds = 3.5,
          attackBegin =
            \http2 ->
              sendFrames
                http2
                (windowUpdate 0 0x7fff0000 : [request number "/stream" [EndStream] | number <- [0 .. 49]])
        }
    it "windows of nothing, held open" . survives . costing 3 $
      (attack (\_ _ -> threadDelay 100000))
        { attackConnections = 5,
          attackSettings = [(InitialWindowSize, 0)],
          attackSeconds = 3.5,
          attackBegin = \http2 -> sendFrames http2 [request number "/stream" [EndStream] | number <- [0 .. 49]]
        }
    it "windows of nothing, held open with a PING now and then" . survives . costing 5 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (pingFrame "12345678")))
        { attackConnections = 5,
          attackSettings = [(InitialWindowSize, 0)],
          attackSeconds = 5,
          attackBegin = \http2 -> sendFrames http2 [request number "/stream" [EndStream] | number <- [0 .. 49]],
          -- The server resets the streams one by one; the connection need not end.
          attackFate = MayGoOn
        }
    it "the same with answers that are complete: their streams are reset" $ \(Servers server _) ->
      withHttp2As silent [(InitialWindowSize, 0)] (serverPort server) $ \http2 -> do
        streams <- replicateM 50 (openStream http2 [EndStream] (get "/"))
        withAsync (forever (threadDelay 200000 >> sendFrame http2 (pingFrame "12345678"))) $ \_ ->
          forM_ streams $ \stream -> (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith Cancel
    -- Several at once, so that also a busy machine sends more of them than are allowed.
    it "an initial window that changes all the time" . survives . costing 1 $
      (attack (\http2 _ -> sendFrames http2 [settingsFrame [(InitialWindowSize, size)] | size <- [0, 1, 0, 1]]))
        { attackBegin = \http2 -> sendFrames http2 [request number "/stream" [EndStream] | number <- [0 .. 49]]
        }
    it "windows that grow beyond 2^31" . survives . costing 0.3 . attack $ \http2 number ->
      sendFrames
        http2
        [ request number "/slow" [EndStream],
          windowUpdate (streamOf number) 0x7fffffff,
          windowUpdate
            (streamOf number)
            0x7fffffff
        ]
    it "a body that is larger than the window" . survives . costing 0.15 $
      (attack (\http2 _ -> sendFrame http2 (dataFrame 1 [] (B.replicate 16384 0x78))))
        { attackBegin = \http2 -> sendFrame http2 (request 0 "/slow" []),
          -- The server resets the stream, and drops what still arrives for it.
          attackFate = MayGoOn
        }

  describe "slow clients" $ do
    it "a slow preface" . survives . costing 1 $ slowly (C8.pack "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    it "a preface without settings" . survives . costing 1 $ (slowly "") {attackBegin = (`sendBytes` preface)}
    it "a slow HEADERS frame" . survives . costing 2 $
      ( slowly
          ( B.drop
              2
              ( encodeFrame
                  (headersFrame 1 [EndHeaders, EndStream] (literals (get "/" ++ [("x", B.replicate 1000 0x79)])))
              )
          )
      )
        { attackBegin =
            \http2 ->
              sendBytes
                http2
                ( B.take
                    2
                    ( encodeFrame
                        (headersFrame 1 [EndHeaders, EndStream] (literals (get "/" ++ [("x", B.replicate 1000 0x79)])))
                    )
                )
        }
    it "slow CONTINUATION" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (continuationFrame 1 [] (literals [("x", "y")]))))
        { attackSeconds = 5,
          attackBegin = \http2 -> sendFrame http2 (headersFrame 1 [EndStream] (literals (get "/")))
        }
    it "nothing at all after the settings" . survives . costing 0.1 $
      (attack (\_ _ -> threadDelay 100000)) {attackConnections = 100, attackSeconds = 3.5}
    it "nothing but PING" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 200000 >> sendFrame http2 (pingFrame "12345678"))) {attackSeconds = 5}
    it "a slow body" . survives . costing 3 $
      (attack (\http2 _ -> threadDelay 100000 >> sendFrame http2 (dataFrame 1 [] "x")))
        { attackSeconds = 5,
          attackBegin = \http2 -> sendFrame http2 (request 0 "/read" []),
          -- The server answers and resets the stream; the connection need not end.
          attackFate = MayGoOn
        }
  where
    streamOf number = 2 * number + 1
    request number path flags = headersFrame (streamOf number) (EndHeaders : flags) (literals (path `with` flags))
    path `with` flags = if EndStream `elem` flags then get path else post path
    deaf step = (attack step) {attackEars = IsDeaf}
    slowly bytes =
      ( attack
          ( \http2 number ->
              threadDelay 100000
                >> sendBytes http2 (B.take 1 (B.drop (fromIntegral number) (bytes <> B.replicate 1000 0)))
          )
      )
        { attackSeconds = 5
        }

-- Makes a server reset a stream whose request is complete.
madeResets :: [(String, Word32 -> [Frame])]
madeResets =
  [ ("a window that grows by nothing", \stream -> [windowUpdate stream 0]),
    ("a window beyond 2^31", \stream -> [windowUpdate stream 0x7fffffff]),
    ("DATA after the end", \stream -> [dataFrame stream [] "x"]),
    ("HEADERS after the end", \stream -> [headersFrame stream [EndHeaders, EndStream] (literals [("x", "y")])]),
    ("a stream that depends on itself", \stream -> [priorityFrame stream stream 7]),
    ("PRIORITY of a wrong size", \stream -> [(priorityFrame stream 0 7) {framePayload = "1234"}])
  ]
