{-# LANGUAGE MagicHash #-}

-- | What a manager does before it looks for events again, and whether it is going to. Must not know: loops, timers.
--
-- Servers add an action for almost every request, so adding allocates nothing: the actions are in an array, and their
-- number changes by compare-and-swap.
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
import GHC.Exts (isTrue#, reallyUnsafePtrEquality#)
import Millrace.Internal.AtomicWord

-- | The actions of one manager. The word is their number; negative means that the manager sleeps.
data Agenda = Agenda {-# UNPACK #-} !AtomicWord !(MutableArray RealWorld (IO ()))

-- | An empty one, of a manager that is awake.
newAgenda :: IO Agenda
newAgenda = Agenda <$> newAtomicWord <*> newArray capacity nothing

-- Room for as many connections as may be served between two polls.
capacity :: Int
capacity = 8192

asleep :: Int
asleep = -1

-- Fills places without an action.
nothing :: IO ()
nothing = return ()
{-# NOINLINE nothing #-}

-- | Adds an action, which must neither wait nor take long. Returns 'False' without adding it if the manager sleeps or
-- the array is full. Allocates nothing. Call it masked: between counting the action and storing it the thread must not
-- end, because the manager waits for the action then.
enter :: Agenda -> IO () -> IO Bool
enter agenda@(Agenda word actions) action = do
  count <- readWord word
  if count < 0 || count >= capacity
    then return False
    else do
      entered <- compareAndSwap word count (count + 1)
      if entered then True <$ writeArray actions count action else enter agenda action

-- | For the manager: runs the actions, and ignores their exceptions. Costs one read if there are none.
workOff :: Agenda -> IO ()
workOff agenda@(Agenda word _) = do
  count <- readWord word
  unless (count == 0) (workOffFrom agenda 0 count)
{-# INLINE workOff #-}

-- Actions that are added meanwhile are behind these.
workOffFrom :: Agenda -> Int -> Int -> IO ()
workOffFrom agenda@(Agenda word actions) from count
  | from < count = do
    action <- takeAction
    action `catch` ignore
    workOffFrom agenda (from + 1) count
  | otherwise = do
    emptied <- compareAndSwap word count 0
    unless emptied (readWord word >>= workOffFrom agenda from)
  where
    -- A thread on another capability has counted its action and is about to store it.
    takeAction = do
      action <- readArray actions from
      if isNothing action then yield >> takeAction else action <$ writeArray actions from nothing
    isNothing action = isTrue# (reallyUnsafePtrEquality# action nothing)
    ignore :: SomeException -> IO ()
    ignore _ = return ()

-- | For the manager: may it sleep? If so, it counts as asleep until it calls 'rise'.
mayRest :: Agenda -> IO Bool
mayRest (Agenda word _) = compareAndSwap word 0 asleep

-- | For the manager: it is awake again.
rise :: Agenda -> IO ()
rise (Agenda word _) = void (compareAndSwap word asleep 0)
