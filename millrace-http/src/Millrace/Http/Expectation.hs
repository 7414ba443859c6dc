{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Whether a client waits for 100 (Continue), and who may still tell it to go on. One thread of an application may read the
-- request's body, which does that, while another one responds; and once the final response has begun it would be too late
-- (RFC 9110, section 15.2). Must not know: connections.
module Millrace.Http.Expectation (Expectation (..), startExpecting, expectNothing, isExpecting, fulfil, dismiss) where

import Control.Exception (finally)
import Control.Monad (when)
import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray (MutableByteArray (..), readByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#)
import GHC.IO (IO (..))
import Millrace.Timer (threadDelay)

-- | Where a word is that is for nothing else, and 0 at first.
data Expectation = Expectation !(MutableByteArray RealWorld) !Int

-- The client waits for nothing (any more); it waits; it is being told to go on.
nothing, waiting, telling :: Int
nothing = 0
waiting = 1
telling = 2

-- | The client of a new request waits. No other thread must know of the request yet.
startExpecting :: Expectation -> IO ()
startExpecting (Expectation array index) = writeByteArray array index waiting
{-# INLINE startExpecting #-}

-- | The client of a new request waits for nothing. No other thread must know of the request yet.
expectNothing :: Expectation -> IO ()
expectNothing (Expectation array index) = writeByteArray array index nothing
{-# INLINE expectNothing #-}

-- | Does it wait?
isExpecting :: Expectation -> IO Bool
isExpecting (Expectation array index) = (/= nothing) <$> readByteArray array index
{-# INLINE isExpecting #-}

-- | Runs what tells the client to go on if it waits, once.
fulfil :: Expectation -> IO () -> IO ()
fulfil expectation@(Expectation array index) tell = do
  waits <- isExpecting expectation
  when waits $ do
    begun <- change expectation waiting telling
    when begun (tell `finally` writeByteArray array index nothing)
{-# INLINE fulfil #-}

-- | From here on it would be too late. Does the client still wait? If it is just being told, waits until it has been.
dismiss :: Expectation -> IO Bool
dismiss expectation = isExpecting expectation >>= \waits -> if waits then dismissWaiting expectation else return False
{-# INLINE dismiss #-}

dismissWaiting :: Expectation -> IO Bool
dismissWaiting expectation = do
  dismissed <- change expectation waiting nothing
  if dismissed
    then return True
    else do
      stillTelling <- isExpecting expectation
      when stillTelling (threadDelay pauseMicros)
      dismiss expectation
{-# NOINLINE dismissWaiting #-}

-- Telling is a send of a few bytes.
pauseMicros :: Int
pauseMicros = 1000

-- Puts a state in the place of another one, if that is the present one. True if so.
change :: Expectation -> Int -> Int -> IO Bool
change (Expectation (MutableByteArray array) (I# index)) (I# old) (I# new) = IO $ \s ->
  case casIntArray# array index old new s of (# s', found #) -> (# s', I# found == I# old #)
{-# INLINE change #-}
