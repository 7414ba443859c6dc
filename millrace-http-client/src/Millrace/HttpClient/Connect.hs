{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- | Connecting to the first of several addresses that answers.
module Millrace.HttpClient.Connect
  ( connectToHost,
    connectFirst,
    attemptDelay,
  )
where

import Control.Concurrent (ThreadId, forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (unless)
import Data.IORef
import Millrace.Deadline
import Millrace.HttpClient.Name
import Millrace.Socket
import Millrace.Timer (threadDelay)

-- | Looks a host up and connects to it. The action prepares each socket before it connects.
connectToHost :: (Socket -> IO ()) -> Deadline -> String -> Int -> IO Socket
connectToHost prepare deadline host port = addressesOf deadline host port >>= connectFirst prepare deadline

-- | After this many microseconds of an attempt the next address is tried as well (RFC 8305, section 5).
attemptDelay :: Int
attemptDelay = 250000

data AttemptOutcome
  = Connected !Socket
  | Failed !IOException
  | -- | The attempt with this number has lasted 'attemptDelay'.
    IsSlow !Int

-- | Connects to the first of these addresses that answers. The next address is tried when an attempt has failed, or has
-- taken 'attemptDelay'. If all fail, this throws the 'IOError' of the last one to fail.
connectFirst :: (Socket -> IO ()) -> Deadline -> [AddrInfo] -> IO Socket
connectFirst prepare deadline addresses = case addresses of
  [] -> throwIO (userError "the host has no address")
  [only] -> attempt prepare deadline only
  first : others -> bracket (Race <$> newEmptyMVar <*> newIORef []) endRace $ \race -> mask_ $ do
    start race 1 first others
    await race 1 (1 :: Int) others
  where
    start race number address others = do
      inRace race $
        try (attempt prepare deadline address)
          >>= either (report race . Failed) (\made -> report race (Connected made) `onException` close made)
      unless (null others) . inRace race $ threadDelay attemptDelay >> report race (IsSlow number)
    -- The number of attempts started, how many of them still run, and the addresses that are left.
    await race started running left = do
      outcome <- takeMVar (outcomes race)
      case (outcome, left) of
        (Connected made, _) -> return made
        (Failed _, next : others) -> start race (started + 1) next others >> await race (started + 1) running others
        (Failed problem, [])
          | running == 1 -> throwIO problem
          | otherwise -> await race started (running - 1) left
        (IsSlow number, next : others)
          | number == started -> start race (started + 1) next others >> await race (started + 1) (running + 1) others
        (IsSlow _, _) -> await race started running left

-- | One address.
attempt :: (Socket -> IO ()) -> Deadline -> AddrInfo -> IO Socket
attempt prepare deadline address = bracketOnError (openSocket address) close $ \made -> do
  setSocketOption made NoDelay 1
  prepare made
  connectBefore deadline made (addrAddress address)
  return made

data Race = Race {outcomes :: !(MVar AttemptOutcome), runners :: !(IORef [ThreadId])}

report :: Race -> AttemptOutcome -> IO ()
report = putMVar . outcomes

-- The thread is masked, so that the socket it has made cannot get lost. It can be interrupted while it waits.
inRace :: Race -> IO () -> IO ()
inRace race action = mask_ $ forkIO action >>= \runner -> modifyIORef' (runners race) (runner :)

-- Ends all attempts, and closes the sockets of those that succeeded too late.
endRace :: Race -> IO ()
endRace race = uninterruptibleMask_ $ do
  readIORef (runners race) >>= mapM_ killThread
  tryTakeMVar (outcomes race) >>= mapM_ closeLate
  where
    closeLate (Connected made) = close made
    closeLate _ = return ()
