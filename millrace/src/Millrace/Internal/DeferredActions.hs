{-# LANGUAGE MagicHash #-}

-- Must not know: loops, timers.

-- | The actions that a manager runs before it looks for events again, and whether the manager sleeps.
--
-- Servers add an action for almost every request, so adding allocates nothing: the actions are in an array, and their
-- number changes by compare-and-swap.
module Millrace.Internal.DeferredActions
  ( DeferredActions,
    newDeferredActions,
    defer,
    runDeferred,
    trySleep,
    wakeUp,
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
data DeferredActions = DeferredActions {-# UNPACK #-} !AtomicWord !(MutableArray RealWorld (IO ()))

-- | Makes an empty list, of a manager that is awake.
newDeferredActions :: IO DeferredActions
newDeferredActions = DeferredActions <$> newAtomicWord <*> newArray capacity nothing

-- Enough for the connections that may be served between two polls.
capacity :: Int
capacity = 8192

asleep :: Int
asleep = -1

-- Fills the entries without an action.
nothing :: IO ()
nothing = return ()
{-# NOINLINE nothing #-}

-- | Adds an action, which must neither wait nor take long. Returns 'False' without adding it if the manager sleeps or
-- the array is full. Allocates nothing. Call it masked: between counting the action and storing it the thread must not
-- end, because the manager waits for the action then.
defer :: DeferredActions -> IO () -> IO Bool
defer deferred@(DeferredActions word actions) action = do
  count <- readWord word
  if count < 0 || count >= capacity
    then return False
    else do
      entered <- compareAndSwap word count (count + 1)
      if entered then True <$ writeArray actions count action else defer deferred action

-- | For the manager: runs the actions, and ignores their exceptions. Costs one read if there are none.
runDeferred :: DeferredActions -> IO ()
runDeferred deferred@(DeferredActions word _) = do
  count <- readWord word
  unless (count == 0) (runDeferredFrom deferred 0 count)
{-# INLINE runDeferred #-}

-- Actions that are added meanwhile are behind these.
runDeferredFrom :: DeferredActions -> Int -> Int -> IO ()
runDeferredFrom deferred@(DeferredActions word actions) from count
  | from < count = do
    action <- takeAction
    action `catch` ignore
    runDeferredFrom deferred (from + 1) count
  | otherwise = do
    emptied <- compareAndSwap word count 0
    unless emptied (readWord word >>= runDeferredFrom deferred from)
  where
    -- A thread on another capability has counted its action and is about to store it.
    takeAction = do
      action <- readArray actions from
      if isNothing action then yield >> takeAction else action <$ writeArray actions from nothing
    isNothing action = isTrue# (reallyUnsafePtrEquality# action nothing)
    ignore :: SomeException -> IO ()
    ignore _ = return ()

-- | For the manager: returns whether it may sleep. If so, it counts as asleep until it calls 'wakeUp'.
trySleep :: DeferredActions -> IO Bool
trySleep (DeferredActions word _) = compareAndSwap word 0 asleep

-- | For the manager: it is awake again.
wakeUp :: DeferredActions -> IO ()
wakeUp (DeferredActions word _) = void (compareAndSwap word asleep 0)
