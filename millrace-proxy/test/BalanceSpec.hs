{-# LANGUAGE OverloadedStrings #-}

-- | Several targets, and what is known of their health.
module BalanceSpec (spec) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.List (isInfixOf, nub, sort)
import Data.Maybe (catMaybes)
import Frames
import Millrace.Duration (hours, milliseconds, seconds, unlimited)
import Millrace.Proxy
import Millrace.Socket.ByteString (sendAll)
import Network.Wai (rawPathInfo)
import Network.Wai.Handler.Millrace (withApplication)
import Support
import Test.Hspec

spec :: Spec
spec = do
  it "takes targets in turn" $
    withTarget (named "a") $ \one -> withTarget (named "b") $ \other -> withFront quiet [one, other] $ \port ->
      replicateM 6 (bodyOf <$> ask port (get "/")) `shouldReturn` ["a", "b", "a", "b", "a", "b"]
  it "takes the one with the fewest requests" $ do
    come <- newEmptyMVar
    answer <- newEmptyMVar
    let slow _ peer = receiveHead peer >> putMVar come () >> takeMVar answer >> answerWith peer "slow"
    withTarget slow $ \one ->
      withTarget (named "b") $ \other -> withFront quiet {balancing = LeastConnections} [one, other] $ \port -> do
        done <- newEmptyMVar
        bracket (forkIO (ask port (get "/") >>= putMVar done)) killThread $ \_ -> do
          within 20 "the slow one" (takeMVar come)
          replicateM 4 (bodyOf <$> ask port (get "/")) `shouldReturn` replicate 4 "b"
          putMVar answer ()
          bodyOf <$> takeMVar done `shouldReturn` "slow"
  it "takes the same one for the same key, and moves only the keys of one that is gone" $
    withTarget (named "a") $ \one -> withTarget (named "b") $ \second -> do
      let settings = quiet {balancing = HashOf rawPathInfo}
          paths = [Char8.pack ('/' : show number) | number <- [1 .. 40 :: Int]]
          askAll port = mapM (fmap bodyOf . ask port . get) paths
      gone <- withTarget (named "c") $ \third -> do
        earlier <- withFront settings [one, second, third] askAll
        sort (nub earlier) `shouldBe` ["a", "b", "c"]
        withFront settings [one, second, third] askAll `shouldReturn` earlier
        return (third, earlier)
      later <- withFront settings [one, second, fst gone] askAll
      [now | (then', now) <- zip (snd gone) later, then' /= "c"] `shouldBe` [then' | then' <- snd gone, then' /= "c"]
      sort (nub later) `shouldBe` ["a", "b"]
  it "tries the next one when there is no connection, and leaves out one that fails" $ do
    gone <- withTarget (\_ _ -> return ()) return
    withTarget (named "b") $ \other -> withFront quiet [gone, other] $ \port ->
      replicateM 8 (bodyOf <$> ask port (get "/")) `shouldReturn` replicate 8 "b"
  it "tries the next one when one ends a new connection without a word, if that is safe" $ do
    asked <- newIORef (0 :: Int)
    let mute _ peer = receiveHead peer >> modifyIORef' asked (+ 1)
        settings = quiet {limits = defaultLimits {failuresMax = 100}}
    withTarget mute $ \one -> withTarget (named "b") $ \other -> withFront settings [one, other] $ \port -> do
      replicateM 6 (bodyOf <$> ask port (get "/")) `shouldReturn` replicate 6 "b"
      readIORef asked >>= (`shouldSatisfy` (>= 2))
      codes <-
        replicateM
          2
          (statusOf <$> ask port "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
      sort codes `shouldBe` ["200", "502"]
  it "leaves out one that answers badly, for a time" $ do
    asked <- newIORef (0 :: Int)
    let bad _ peer = receiveHead peer >> modifyIORef' asked (+ 1) >> sendAll peer "nonsense\r\n"
    withTarget bad $ \one -> withTarget (named "b") $ \other -> do
      let settings = quiet {limits = defaultLimits {failuresMax = 2, leftOutFor = hours 1}}
      withFront settings [one, other] $ \port -> do
        codes <- replicateM 12 (statusOf <$> ask port (get "/"))
        length (filter (== "502") codes) `shouldBe` 2
        readIORef asked `shouldReturn` 2
  it "leaves it out for a time beyond all measure" $ do
    let bad _ peer = receiveHead peer >> sendAll peer "nonsense\r\n"
    withTarget bad $ \one -> withTarget (named "b") $ \other ->
      withFront quiet {limits = defaultLimits {failuresMax = 1, leftOutFor = unlimited}} [one, other] $ \port -> do
        codes <- replicateM 6 (statusOf <$> ask port (get "/"))
        length (filter (== "502") codes) `shouldBe` 1
  it "asks whether targets are well" $ do
    isWell <- newIORef True
    told <- newMVar []
    let checked _ peer = do
          request <- receiveHead peer
          well <- readIORef isWell
          if maybe False ("GET /health " `ByteString.isPrefixOf`) request
            then
              sendAll
                peer
                ( if well
                    then "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                    else "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
                )
            else answerWith peer "a"
        settings =
          quiet
            { activeCheck =
                Just
                  defaultActiveCheck
                    { checkPath = "/health",
                      checkInterval = milliseconds 10,
                      checkLimit = seconds 20
                    },
              onHealth = \_ reason -> modifyMVar_ told (return . (reason :))
            }
    withTarget checked $ \one -> withTarget (named "b") $ \other -> withFront settings [one, other] $ \port -> do
      let answers = nub . sort <$> replicateM 4 (bodyOf <$> ask port (get "/"))
      answers `shouldReturn` ["a", "b"]
      writeIORef isWell False
      eventually "it is left out" ((== ["b"]) <$> answers)
      writeIORef isWell True
      eventually "it is used again" ((== ["a", "b"]) <$> answers)
      length <$> readMVar told `shouldReturn` 2
  it "asks targets of HTTP/2, too" $ do
    isWell <- newIORef True
    told <- newMVar []
    let checked _ peer = do
          opening peer
          forever $ do
            stream <- requestOn peer
            well <- readIORef isWell
            let interim = frame 1 4 stream (literal (":status", "103"))
            sendAll peer (if well then interim <> plainAnswer stream "a" else resetOf stream 2)
    withTarget checked $ \one -> withTarget (named "b") $ \other ->
      withFront (checking told) [speaking one, other] $ \port -> do
        -- Behind the interim responses.
        let answers = nub . sort <$> replicateM 4 (snd . ByteString.breakEnd (== 10) <$> ask port (get "/"))
        answers `shouldReturn` ["a", "b"]
        writeIORef isWell False
        eventually "it is left out" ((== ["b"]) <$> answers)
        writeIORef isWell True
        eventually "it is used again" ((== ["a", "b"]) <$> answers)
        readMVar told >>= (`shouldSatisfy` all ("the error code 2" `isInfixOf`)) . catMaybes
  describe "says why a target fails its checks:" $
    forM_
      [ ("another status", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "the status is 503"),
        ("no response", "", "it ended before the response"),
        ("something else", "nonsense\r\n\r\n", "the response is malformed"),
        ("an endless head", "HTTP/1.1 200 OK\r\nX: " <> ByteString.replicate 1000000 120, "the head is too long")
      ]
      $ \(what, answer, reason) -> it what $ do
        told <- newMVar []
        let failing _ peer = receiveHead peer >> sendAll peer answer
        withTarget failing $ \one -> withTarget (named "b") $ \other ->
          withFront (checking told) [one, other] $ \_ ->
            eventually "the reason" (any (reason `isInfixOf`) . catMaybes <$> readMVar told)
  describe "the state of targets" $ do
    it "counts requests and kept connections" $ do
      come <- newEmptyMVar
      answer <- newEmptyMVar
      let slow _ peer = receiveHead peer >> putMVar come () >> takeMVar answer >> answerWith peer "slow"
      withTarget slow $ \one -> withTarget (named "b") $ \other -> withWatched quiet [one, other] $ \states port -> do
        states `shouldReturn` [TargetState one Well 0 0, TargetState other Well 0 0]
        done <- newEmptyMVar
        bracket (forkIO (ask port (get "/") >>= putMVar done)) killThread $ \_ -> do
          within 20 "the slow one" (takeMVar come)
          map stateRequests <$> states `shouldReturn` [1, 0]
          putMVar answer ()
          void (takeMVar done)
        void (ask port (get "/"))
        eventually "both are done" ((== [TargetState one Well 0 1, TargetState other Well 0 1]) <$> states)
    it "says which one failed" $ do
      let bad _ peer = receiveHead peer >> sendAll peer "nonsense\r\n"
          settings = quiet {limits = defaultLimits {failuresMax = 2, leftOutFor = hours 1}}
      withTarget bad $ \one -> withTarget (named "b") $ \other -> withWatched settings [one, other] $ \states port -> do
        replicateM_ 2 (ask port (get "/"))
        map stateHealth <$> states `shouldReturn` [Well, Well]
        replicateM_ 2 (ask port (get "/"))
        map stateHealth <$> states `shouldReturn` [RequestsFailed, Well]
    it "says which one fails its checks" $ do
      let settings =
            quiet
              { activeCheck =
                  Just
                    defaultActiveCheck
                      { checkPath = "/health",
                        checkInterval = milliseconds 10,
                        checkLimit = seconds 20
                      }
              }
          unwell _ peer = receiveHead peer >> sendAll peer "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
      withTarget unwell $ \one -> withTarget (named "b") $ \other -> withWatched settings [one, other] $ \states _ ->
        eventually "it is left out" ((== [ChecksFailed, Well]) . map stateHealth <$> states)
  where
    withWatched settings targets use =
      withWatchedProxy settings targets $ \proxy states -> withApplication (return proxy) (use states)
    named name = answering (\_ _ -> name)
    checking told =
      quiet
        { activeCheck = Just defaultActiveCheck {checkInterval = milliseconds 10, checkLimit = seconds 20},
          onHealth = \_ reason -> modifyMVar_ told (return . (reason :))
        }

get :: ByteString -> ByteString
get path = "GET " <> path <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
