{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- Whether a client waits for 100 (Continue), and the right to send it. One thread of an application may read the
-- request's body, which sends 100 (Continue), while another thread responds. Once the final response has begun it would
-- be too late (RFC 9110, section 15.2).
module Millrace.Http.Expectation (Expectation (..), startExpecting, expectNothing, isExpecting, fulfil, dismiss) where

import Control.Exception (finally)
import Control.Monad (when)
import Millrace.Internal.AtomicWord
import Millrace.Timer (threadDelay)

-- | The word that holds the state. It must be used for nothing else, and be 0 at first.
newtype Expectation = Expectation AtomicWord

-- The client does not wait; it waits; 100 (Continue) is being sent.
nothing, waiting, telling :: Int
nothing = 0
waiting = 1
telling = 2

-- | Call this for a new request whose client waits. No other thread may know of the request yet.
startExpecting :: Expectation -> IO ()
startExpecting (Expectation word) = writeWord word waiting
{-# INLINE startExpecting #-}

-- | Call this for a new request whose client does not wait. No other thread may know of the request yet.
expectNothing :: Expectation -> IO ()
expectNothing (Expectation word) = writeWord word nothing
{-# INLINE expectNothing #-}

-- | Whether the client waits.
isExpecting :: Expectation -> IO Bool
isExpecting (Expectation word) = (/= nothing) <$> readWord word
{-# INLINE isExpecting #-}

-- | If the client waits, runs the action that sends 100 (Continue), once.
fulfil :: Expectation -> IO () -> IO ()
fulfil expectation@(Expectation word) tell = do
  waits <- isExpecting expectation
  when waits $ do
    begun <- compareAndSwap word waiting telling
    when begun (tell `finally` writeWord word nothing)
{-# INLINE fulfil #-}

-- | Ends the time in which 100 (Continue) may be sent. True if the client still waits for it. If another thread is just
-- sending it, waits until that is done.
dismiss :: Expectation -> IO Bool
dismiss expectation = isExpecting expectation >>= \waits -> if waits then dismissWaiting expectation else return False
{-# INLINE dismiss #-}

dismissWaiting :: Expectation -> IO Bool
dismissWaiting expectation@(Expectation word) = do
  dismissed <- compareAndSwap word waiting nothing
  if dismissed
    then return True
    else do
      stillTelling <- isExpecting expectation
      when stillTelling (threadDelay pauseMicros)
      dismiss expectation
{-# NOINLINE dismissWaiting #-}

-- Sending it takes only a few bytes, so polling is enough.
pauseMicros :: Int
pauseMicros = 1000
