{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Passes the role of serving a connection to another thread when an application blocks. The thread that has the role
-- runs applications itself. If one gives up the processor, another thread takes over the connection. So an application
-- that answers at once needs no thread of its own, and one that waits does not delay other requests. Must not know:
-- connections.
--
-- The time that an application will take is unknown, but it is known whether it gives up the processor: the manager of
-- the capability runs after all runnable threads have had their turn ("Millrace.Http.EarlyFlush" relies on the same).
-- If the application still runs then, a thread of the pool takes the role. The first thread notices that when its
-- application returns.
module Millrace.Http.HandOver (HandOver, Ticket, newHandOver, armHandOver, keepsRole) where

import Control.Exception (mask_)
import Control.Monad (unless)
import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray (MutableByteArray (..), newByteArray, readByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#)
import GHC.IO (IO (..))
import Millrace.Http.Threads
import Millrace.Manager (atNextTurn)

-- | Which thread has the role: a word that all threads change by compare-and-swap, as in "Millrace.Http.EarlyFlush".
data HandOver = HandOver !(MutableByteArray RealWorld) !Threads

-- | A thread's claim on the role while it runs an application: how often the role had been passed on before.
newtype Ticket = Ticket Int

-- The word has the number of times that the role was passed on, and one of these states: no check is scheduled; one is,
-- and will do nothing; one is, and an application runs.
unarmed, disarmed, armed, tags :: Int
unarmed = 0
disarmed = 1
armed = 2
tags = 4

-- | Initially the caller has the role.
newHandOver :: Threads -> IO HandOver
newHandOver threads = do
  word <- newByteArray 8
  writeByteArray word 0 unarmed
  return (HandOver word threads)

-- Compare-and-swap of the word: replaces the first by the second. True if it did. A full barrier.
change :: HandOver -> Int -> Int -> IO Bool
change (HandOver (MutableByteArray array) _) old@(I# old#) (I# new) = IO $ \s ->
  case casIntArray# array 0# old# new s of (# s', found #) -> (# s', I# found == old #)
{-# INLINE change #-}

-- | Call this before the thread with the role runs an application. If the application gives up the processor, another
-- thread gets the role and runs this action, masked. The action must be the same each time, and must not throw.
armHandOver :: HandOver -> IO () -> IO Ticket
armHandOver role@(HandOver word _) continue = do
  now <- readByteArray word 0
  if now `rem` tags == disarmed
    then do
      done <- change role now (now - disarmed + armed)
      if done then return (ticket now) else armHandOver role continue
    else do
      let next = now - now `rem` tags + armed
      mask_ $ do
        writeByteArray word 0 next
        willLook <- atNextTurn (look role continue)
        unless willLook (takeInOther role continue)
      return (ticket next)
  where
    ticket value = Ticket (value `quot` tags)

-- | Call this after the application. True if this thread still has the role.
keepsRole :: HandOver -> Ticket -> IO Bool
keepsRole role (Ticket number) = change role (number * tags + armed) (number * tags + disarmed)

-- What the manager does.
look :: HandOver -> IO () -> IO ()
look role continue = do
  over <- disarm role
  unless over (takeInOther role continue)

-- True if no application runs.
disarm :: HandOver -> IO Bool
disarm role@(HandOver word _) = do
  now <- readByteArray word 0
  if now `rem` tags /= disarmed
    then return False
    else do
      done <- change role now (now - disarmed + unarmed)
      if done then return True else disarm role

takeInOther :: HandOver -> IO () -> IO ()
takeInOther role@(HandOver _ threads) continue = runHere threads (takeRole role continue)

-- The application may have returned meanwhile.
takeRole :: HandOver -> IO () -> IO ()
takeRole role@(HandOver word _) continue = do
  over <- disarm role
  unless over $ do
    now <- readByteArray word 0
    taken <- if now `rem` tags == armed then change role now (now - armed + unarmed + tags) else return False
    if taken then continue else takeRole role continue
