{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- | What a manager does before it looks for events again, and whether it is going to. Must not know: loops, timers.
--
-- Servers enter something for almost every request, so that nothing is allocated for it: the actions are kept in an array
-- and counted by compare-and-swap.
module Millrace.Internal.Agenda
  ( Agenda,
    newAgenda,
    enter,
    workOff,
    mayRest,
    rise,
  )
where

import Control.Concurrent (yield)
import Control.Exception (SomeException, catch)
import Control.Monad (unless, void)
import Control.Monad.Primitive (RealWorld)
import Data.Primitive.Array (MutableArray, newArray, readArray, writeArray)
import Data.Primitive.ByteArray (MutableByteArray (..), newByteArray, readByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#, isTrue#, reallyUnsafePtrEquality#)
import GHC.IO (IO (..))

-- | Of one manager. The word says how many actions there are, from the first place on; less than 0: the manager sleeps.
data Agenda = Agenda !(MutableByteArray RealWorld) !(MutableArray RealWorld (IO ()))

-- | An empty one, of a manager that is awake.
newAgenda :: IO Agenda
newAgenda = do
  count <- newByteArray 8
  writeByteArray count 0 (0 :: Int)
  Agenda count <$> newArray capacity nothing

-- As many connections as may be served between two polls.
capacity :: Int
capacity = 8192

asleep :: Int
asleep = -1

-- What is in a place where no action is.
nothing :: IO ()
nothing = return ()
{-# NOINLINE nothing #-}

-- True if the word was as expected. A full barrier.
change :: Agenda -> Int -> Int -> IO Bool
change (Agenda (MutableByteArray word) _) (I# old) (I# new) = IO $ \s ->
  case casIntArray# word 0# old new s of (# s', found #) -> (# s', I# found == I# old #)
{-# INLINE change #-}

-- | Adds an action, which must neither wait nor take long. False, and it is not added, if the manager sleeps, or has too
-- much to do already. Allocates nothing.
enter :: Agenda -> IO () -> IO Bool
enter agenda@(Agenda word actions) action = do
  count <- readByteArray word 0
  if count < 0 || count >= capacity
    then return False
    else do
      entered <- change agenda count (count + 1)
      if entered then True <$ writeArray actions count action else enter agenda action

-- | The manager's: runs what is there. Exceptions are ignored. One read if there is nothing.
workOff :: Agenda -> IO ()
workOff agenda@(Agenda word _) = do
  count <- readByteArray word 0
  unless (count == (0 :: Int)) (workOffFrom agenda 0 count)
{-# INLINE workOff #-}

-- What comes meanwhile is behind what is there.
workOffFrom :: Agenda -> Int -> Int -> IO ()
workOffFrom agenda@(Agenda word actions) from count
  | from < count = do
    action <- takeAction
    action `catch` ignore
    workOffFrom agenda (from + 1) count
  | otherwise = do
    emptied <- change agenda count 0
    unless emptied (readByteArray word 0 >>= workOffFrom agenda from)
  where
    -- Who has counted it is about to put it there, on another capability.
    takeAction = do
      action <- readArray actions from
      if isNothing action then yield >> takeAction else action <$ writeArray actions from nothing
    isNothing action = isTrue# (reallyUnsafePtrEquality# action nothing)
    ignore :: SomeException -> IO ()
    ignore _ = return ()

-- | The manager's: may it sleep? If so, it counts as asleep until it calls 'rise'.
mayRest :: Agenda -> IO Bool
mayRest agenda = change agenda 0 asleep

-- | The manager's: it is awake again.
rise :: Agenda -> IO ()
rise agenda = void (change agenda asleep 0)
