{-# LANGUAGE TupleSections #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- |
-- A map whose entries live for a fixed time.
module Millrace.Http.Expiring
  ( Expiring,
    newExpiring,
    remembersNothing,
    recall,
    remember,
    forgetAll,

    -- * Shared resources
    Shared,
    share,
    sharedValue,
    retain,
    release,
  )
where

import Control.Exception (finally, mask_)
import Control.Monad (unless, void, when)
import Data.IORef
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Millrace.Deadline (Deadline, deadlineAfter, hasPassed, microseconds, seconds)
import Millrace.Timer (getSystemTimerManager, registerTimeout)

-- | A map whose entries expire after a fixed time.
data Expiring key a = Expiring
  { lifeMicros :: !Int,
    weightMax :: !Int,
    -- The action that disposes of an entry that has left the map.
    discard :: !(a -> IO ()),
    content :: !(IORef (ExpiringTable key a)),
    -- Whether a sweep is scheduled.
    sweeping :: !(IORef Bool)
  }

-- The total weight of the entries, and the entries.
data ExpiringTable key a = ExpiringTable !Int !(Map key (ExpiringEntry a))

-- The time when the entry expires, its weight, and the value.
data ExpiringEntry a = ExpiringEntry !Deadline !Int a

-- | @newExpiring lifeMicros weightMax discard@ makes an empty map. @discard@ runs for each entry that leaves the map:
-- within twice its life, or when others take its place. It runs masked, and must not throw or wait. With a life of 0
-- the map stays empty.
--
-- > pages <- newExpiring 1000000 512 close
newExpiring :: Int -> Int -> (a -> IO ()) -> IO (Expiring key a)
newExpiring life most action = Expiring life most action <$> newIORef (ExpiringTable 0 Map.empty) <*> newIORef False

-- | Whether the life of its entries is 0.
remembersNothing :: Expiring key a -> Bool
remembersNothing expiring = lifeMicros expiring == 0

-- | Looks up a key. The value may be discarded at any moment. O(log n), without a lock. Does not block.
recall :: Ord key => Expiring key a -> key -> IO (Maybe a)
recall expiring key = do
  ExpiringTable _ entries <- readIORef (content expiring)
  case Map.lookup key entries of
    Nothing -> return Nothing
    Just (ExpiringEntry end _ value) -> do
      isOver <- hasPassed end
      return (if isOver then Nothing else Just value)

-- | @remember expiring key weight value@ inserts an entry, in place of an earlier one with this key. If the total
-- weight would be too large, discards all others. Entries that are in use soon come back, and so a lookup need not keep
-- an order of use. O(log n), unless it discards all. An asynchronous exception leaves the map either without the entry
-- or with it.
remember :: Ord key => Expiring key a -> key -> Int -> a -> IO ()
remember expiring key weight value
  | remembersNothing expiring = discard expiring value
  | otherwise = mask_ $ do
    end <- deadlineAfter (microseconds (lifeMicros expiring))
    atomicModifyIORef' (content expiring) (insert (weightMax expiring) key (ExpiringEntry end weight value))
      >>= mapM_ (discard expiring)
    scheduleSweep expiring

-- The new content, and the entries that have left it.
insert :: Ord key => Int -> key -> ExpiringEntry a -> ExpiringTable key a -> (ExpiringTable key a, [a])
insert most key entry@(ExpiringEntry _ weight _) (ExpiringTable total entries)
  | heavier <= most = (ExpiringTable heavier (Map.insert key entry entries), map valueOf before)
  | otherwise = (ExpiringTable weight (Map.singleton key entry), map valueOf (Map.elems entries))
  where
    before = maybe [] pure (Map.lookup key entries)
    heavier = total + weight - sum (map weightOf before)

weightOf :: ExpiringEntry a -> Int
weightOf (ExpiringEntry _ weight _) = weight

valueOf :: ExpiringEntry a -> a
valueOf (ExpiringEntry _ _ value) = value

scheduleSweep :: Expiring key a -> IO ()
scheduleSweep expiring = do
  already <- exchange (sweeping expiring) True
  unless already $ do
    manager <- getSystemTimerManager
    void (registerTimeout manager (lifeMicros expiring) (sweep expiring))

sweep :: Expiring key a -> IO ()
sweep expiring = mask_ $ do
  now <- deadlineAfter (seconds 0)
  (atomicModifyIORef' (content expiring) (forgetDead now) >>= mapM_ (discard expiring)) `finally` goOn
  where
    goOn = do
      atomicWriteIORef (sweeping expiring) False
      ExpiringTable _ left <- readIORef (content expiring)
      unless (Map.null left) (scheduleSweep expiring)

forgetDead :: Deadline -> ExpiringTable key a -> (ExpiringTable key a, [a])
forgetDead now (ExpiringTable total entries) =
  (ExpiringTable (total - sum (fmap weightOf dead)) alive, map valueOf (Map.elems dead))
  where
    (dead, alive) = Map.partition (\(ExpiringEntry end _ _) -> end <= now) entries

-- | Discards all entries, at once.
forgetAll :: Expiring key a -> IO ()
forgetAll expiring = mask_ $ do
  ExpiringTable _ old <- exchange (content expiring) (ExpiringTable 0 Map.empty)
  mapM_ (discard expiring . valueOf) old

-- The entry that was there before.
exchange :: IORef a -> a -> IO a
exchange ref new = atomicModifyIORef' ref (new,)

------------------------------------------------------------------------------------------------------------------------
-- Shared resources

-- | A value, the number of its users, and the action that releases it.
data Shared a = Shared a !(IORef Int) (IO ())

-- | @share release value@ makes a shared value with one user, the caller. @release@ runs when there are no users any
-- more.
--
-- > file <- share (closeFd descriptor) descriptor
share :: IO () -> a -> IO (Shared a)
share letGo value = (\uses -> Shared value uses letGo) <$> newIORef 1

-- | The value. Only its users may call this.
sharedValue :: Shared a -> a
sharedValue (Shared value _ _) = value

-- | Adds a user. False if there were none: the value has been released. O(1), does not block.
retain :: Shared a -> IO Bool
retain (Shared _ uses _) = atomicModifyIORef' uses (\count -> if count == 0 then (0, False) else (count + 1, True))

-- | Removes a user. The last one releases the value.
release :: Shared a -> IO ()
release (Shared _ uses letGo) = mask_ $ do
  left <- atomicModifyIORef' uses (\count -> (count - 1, count - 1))
  when (left == 0) letGo
