{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections, protocols.

-- |
-- Lets another thread do something as soon as this thread gives up the processor.
--
-- A server calls an application and cannot know how long it will take. But it can know whether the application waits:
-- the manager of a capability runs when all threads that can run have had their turn, and not before. So the thread
-- that calls the application arms an action for the manager's next turn, and calls the action off when the application
-- returns. Usually that is before the manager's turn, and both together cost two changes of a word. Otherwise the
-- action runs in another thread of the same capability, since it may have to wait.
--
-- HTTP\/1 sends what is waiting in the output ('runAwaited', 'settle'). HTTP\/2 and HTTP\/3 pass on the role of
-- receiving: the action calls 'finish' first, and the thread that was in the application sees by its 'Ticket' that it
-- has lost the role.
--
-- The threads are those of a pool: a fork makes the scheduler switch threads soon, in the middle of a batch of
-- requests, and a wake-up does not. The state is a word that is changed by compare-and-swap, because a modified @IORef@
-- allocates. Without both, a pipelined request cost half as much again (decision 16).
module Millrace.Http.Threads.OnYield
  ( OnYield (..),

    -- * Arming
    Ticket,
    arm,
    armTicketed,
    callOff,
    finish,

    -- * Actions that are waited for
    Runner,
    newRunner,
    runAwaited,
    settle,
    retire,
  )
where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask_, try)
import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import Data.IORef
import Millrace.Http.Threads (Threads, runHere)
import Millrace.Internal.AtomicWord
import Millrace.Manager (atNextIteration)

-- | Values that have such an action. It is a class, because a record with a closure would cost memory for each
-- connection.
class OnYield c where
  -- | The word with the state, which is 0 at first. Nothing else may change it.
  yieldWord :: c -> AtomicWord

  -- | The pool whose threads run the action.
  yieldThreads :: c -> Threads

  -- | The action. Runs masked, at most once for each 'arm', and must not throw. Must call 'finish' once.
  onYield :: c -> IO ()

-- | One arming: the word's value at that time. Another arming has another value if the action has run between the two.
newtype Ticket = Ticket Int
  deriving (Eq)

-- The word is four times the number of actions that have ended, and one of these states: the manager has no entry; it
-- has one and will do nothing; it has one and the action is to run; the action runs.
unarmed, disarmed, armed, running, step :: Int
unarmed = 0
disarmed = 1
armed = 2
running = 3
step = 4

stateOf :: Int -> Int
stateOf word = word .&. (step - 1)
{-# INLINE stateOf #-}

-- The word in another state.
inState :: Int -> Int -> Int
inState word state = word - stateOf word + state
{-# INLINE inState #-}

-- Changes from the first state to the second one, and returns whether it did. The word was read before.
change :: OnYield c => c -> Int -> Int -> Int -> IO Bool
change c word from to
  | stateOf word == from = compareAndSwap (yieldWord c) word (inState word to)
  | otherwise = return False
{-# INLINE change #-}

-- | Arms the action: it runs when this thread waits for something, unless it is called off before. Call this only when
-- the last action was called off or has finished.
arm :: OnYield c => c -> IO ()
arm c = do
  word <- readWord (yieldWord c)
  hasEntry <- change c word disarmed armed
  -- The manager may just have removed its entry.
  unless hasEntry (armWithEntry c)
{-# INLINE arm #-}

-- | Arms the action, and returns what tells this arming from later ones.
armTicketed :: OnYield c => c -> IO Ticket
armTicketed c = do
  word <- readWord (yieldWord c)
  arm c
  return (Ticket (inState word armed))

-- Masked, so that an exception cannot prevent the entry after the word says that there is one.
armWithEntry :: OnYield c => c -> IO ()
armWithEntry c = mask_ $ do
  word <- readWord (yieldWord c)
  writeWord (yieldWord c) (inState word armed)
  willLook <- atNextIteration (look c)
  unless willLook (runInOther c)
{-# INLINEABLE armWithEntry #-}

-- | Calls the action off. Returns whether it will not run; otherwise it has begun.
callOff :: OnYield c => c -> Ticket -> IO Bool
callOff c (Ticket word) = change c word armed disarmed
{-# INLINE callOff #-}

-- | The action is done: 'arm' may be called again.
finish :: OnYield c => c -> IO ()
finish c = void (fetchAdd (yieldWord c) (step + unarmed - running))
{-# INLINE finish #-}

-- The action that the manager runs.
look :: OnYield c => c -> IO ()
look c = do
  over <- removeEntry c
  unless over (runInOther c)
{-# INLINEABLE look #-}

runInOther :: OnYield c => c -> IO ()
runInOther c = runHere (yieldThreads c) (run c)
{-# INLINEABLE runInOther #-}

-- Repeats until the action is called off, or begins here.
run :: OnYield c => c -> IO ()
run c = do
  over <- removeEntry c
  unless over $ do
    word <- readWord (yieldWord c)
    begun <- change c word armed running
    if begun then onYield c else run c
{-# INLINEABLE run #-}

-- Returns whether the action was called off.
removeEntry :: OnYield c => c -> IO Bool
removeEntry c = do
  word <- readWord (yieldWord c)
  if stateOf word /= disarmed
    then return False
    else do
      done <- change c word disarmed unarmed
      if done then return True else removeEntry c
{-# INLINEABLE removeEntry #-}

-- | The thread that runs the action, if one does: it fills the variable at the end.
type Runner = IORef (Maybe (MVar ()))

-- | No thread runs it.
newRunner :: IO Runner
newRunner = newIORef Nothing

-- | For an 'onYield': runs an action whose end 'settle' awaits, ignores its exceptions, and calls 'finish'.
runAwaited :: OnYield c => c -> Runner -> IO () -> IO ()
runAwaited c runner action = do
  done <- newEmptyMVar
  writeIORef runner (Just done)
  void (try action :: IO (Either SomeException ()))
  writeIORef runner Nothing
  finish c
  putMVar done ()
{-# INLINEABLE runAwaited #-}

-- | Calls the action off, or waits until it has ended. Costs one read if nothing was armed.
settle :: OnYield c => c -> Runner -> IO ()
settle c runner = do
  word <- readWord (yieldWord c)
  when (stateOf word >= armed) (settleArmed c runner word)
{-# INLINE settle #-}

-- Usually it has not begun.
settleArmed :: OnYield c => c -> Runner -> Int -> IO ()
settleArmed c runner word = do
  calledOff <- change c word armed disarmed
  unless calledOff (retire c runner (return ()))
{-# INLINEABLE settleArmed #-}

-- | Settles as 'settle' does. If the action has begun, first runs another one that should make it end.
retire :: OnYield c => c -> Runner -> IO () -> IO ()
retire c runner hasten = do
  word <- readWord (yieldWord c)
  calledOff <- change c word armed disarmed
  when (not calledOff && stateOf word >= armed) $ do
    -- There is no runner to find if it has just begun or ended.
    readIORef runner >>= maybe yield (\done -> hasten >> readMVar done)
    retire c runner hasten
{-# INLINEABLE retire #-}
