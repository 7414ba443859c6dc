{-# LANGUAGE OverloadedStrings #-}

-- | Which elements are evicted for new ones, how often that scans all of them, and what a connection that is evicted
-- tells its client.
module EvictionSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Exception (mask_)
import Control.Monad (forM_, replicateM, unless, void, when)
import Data.IORef
import Data.List (delete)
import Millrace.Http.Server.Admission (Candidates (..), Evicted (..), EvictionOutcome (..), evict, newEviction)
import Millrace.Http.Server.Connection (giveWay, isIdle, newServed, runConnection, servedTransport)
import Millrace.Http.Server.Context (newServerContext)
import Millrace.Http.Transport (closeTransport)
import Millrace.Http.Transport.Memory (clientEnd, clientReceive, clientSend, goodConditions, newMemoryTransport)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Wai.Handler.Millrace (defaultSettings)
import Support (pong, quiet, timed, untilQuick, within)
import Test.Hspec

spec :: Spec
spec = describe "newcomers" $ do
  it "make those give way who were found first, for one look at all" $ do
    crowd <- newCrowd [1 .. 1000] []
    eviction <- newEviction (find crowd) (endAll crowd)
    replicateM 1000 (evict eviction) `shouldReturn` replicate 1000 OneGivesWay
    readIORef (ended crowd) `shouldReturn` [1000, 999 .. 1]
    readIORef (looks crowd) `shouldReturn` 1
  it "pass over those who do not give way any more" $ do
    crowd <- newCrowd [1 .. 10] []
    eviction <- newEviction (find crowd) (\one -> if even one then endAll crowd one else return Stays)
    replicateM 5 (evict eviction) `shouldReturn` replicate 5 OneGivesWay
    readIORef (ended crowd) `shouldReturn` [10, 8, 6, 4, 2]
  it "do not ask those behind one who does not give way yet, and ask it again" $ do
    crowd <- newCrowd [] [1, 2]
    patient <- newIORef False
    eviction <-
      newEviction (find crowd) (\one -> readIORef patient >>= \now -> if now then endAll crowd one else return NotYet)
    evict eviction `shouldReturn` NoneGivesWay
    writeIORef patient True
    replicateM 2 (evict eviction) `shouldReturn` [OneGivesWay, OneGivesWay]
    readIORef (ended crowd) `shouldReturn` [2, 1]
  it "leave the others alone while a look finds somebody who is to be asked first" $ do
    crowd <- newCrowd [1] [2]
    eviction <- newEviction (find crowd) (endAll crowd)
    evict eviction `shouldReturn` OneGivesWay
    modifyIORef (preferred crowd) (++ [3])
    threadDelay 200000 -- Looking may have taken as long as it likes.
    replicateM 2 (evict eviction) `shouldReturn` [OneGivesWay, OneGivesWay]
    readIORef (ended crowd) `shouldReturn` [2, 3, 1]
  it "that find nobody are told when to look again: it takes a tenth of the time" $ do
    crowd <- newCrowd [] []
    eviction <- newEviction (threadDelay 10000 >> find crowd) (endAll crowd)
    untilQuick $ do
      threadDelay 200000
      writeIORef (looks crowd) 0
      (answers, seconds) <- timed (replicateM 10 (evict eviction))
      counted <- readIORef (looks crowd)
      if seconds > 0.08
        then return Nothing
        else do
          (take 1 answers, counted) `shouldBe` ([NoneGivesWay], 1)
          drop 1 answers `shouldSatisfy` all isPause
          return (Just ())
  forM_
    [ ("is told", \client _ -> clientEnd client, "HTTP/1.1 400 "),
      ("is not told, because the server did,", \_ served -> giveWay served, "")
    ]
    $ \(what, end, expected) ->
      it ("make connections give way: a client " ++ what ++ " that it has ended within a head") $ do
        (transport, client) <- newMemoryTransport goodConditions (SockAddrInet 1 (tupleToHostAddress (127, 0, 0, 1)))
        server <- newServerContext (quiet defaultSettings)
        served <- newServed server transport
        void . forkIO . mask_ $ runConnection served pong (closeTransport (servedTransport served))
        let waitUntil condition =
              within "the server" $ let go = condition >>= \is -> unless is (threadDelay 1000 >> go) in go
        waitUntil (isIdle served)
        clientSend client "GET / HT"
        waitUntil (not <$> isIdle served)
        end client served
        within "the end" (clientReceive client 13) `shouldReturn` expected
  where
    isPause (AskLater micros) = micros > 0 && micros <= 100001
    isPause _ = False

data Crowd = Crowd
  { preferred :: IORef [Int],
    others :: IORef [Int],
    ended :: IORef [Int],
    looks :: IORef Int
  }

newCrowd :: [Int] -> [Int] -> IO Crowd
newCrowd first second = Crowd <$> newIORef first <*> newIORef second <*> newIORef [] <*> newIORef 0

find :: Crowd -> IO (Candidates Int)
find crowd = do
  modifyIORef' (looks crowd) (+ 1)
  Candidates <$> readIORef (preferred crowd) <*> readIORef (others crowd)

-- A connection that has ended must not be tried again.
endAll :: Crowd -> Int -> IO EvictionOutcome
endAll crowd one = do
  there <- elem one <$> ((++) <$> readIORef (preferred crowd) <*> readIORef (others crowd))
  when
    there
    ( modifyIORef (ended crowd) (one :)
        >> modifyIORef (preferred crowd) (delete one)
        >> modifyIORef (others crowd) (delete one)
    )
  return (if there then GivesWay else Stays)
