{-# LANGUAGE TupleSections #-}

-- |
-- A map whose entries live for a fixed time. Knows nothing of what they mean.
module Millrace.Http.Expiring (Expiring, newExpiring, remembersNothing, recall, remember, forgetAll) where

import Control.Monad (forM_, unless, void)
import Data.IORef
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Millrace.Deadline (Deadline, deadlineAfter)
import Millrace.Timer (getSystemTimerManager, registerTimeout)

-- | A map from paths.
data Expiring a = Expiring
  { lifeMicros :: !Int,
    entriesMax :: !Int,
    -- What to do with what is forgotten.
    discard :: !(a -> IO ()),
    entries :: !(IORef (Map FilePath (Deadline, a))),
    -- Is a sweep going to happen?
    sweeping :: !(IORef Bool)
  }

-- | @newExpiring lifeMicros entriesMax discard@. With a life of 0 it remembers nothing.
newExpiring :: Int -> Int -> (a -> IO ()) -> IO (Expiring a)
newExpiring life size action = Expiring life size action <$> newIORef Map.empty <*> newIORef False

-- | Is the life of its entries 0?
remembersNothing :: Expiring a -> Bool
remembersNothing expiring = lifeMicros expiring == 0

-- | What is remembered of a path. O(log n).
recall :: Expiring a -> FilePath -> IO (Maybe a)
recall expiring path
  | remembersNothing expiring = return Nothing
  | otherwise = do
    now <- deadlineAfter 0
    found <- Map.lookup path <$> readIORef (entries expiring)
    return $ case found of
      Just (end, value) | end > now -> Just value
      _ -> Nothing

-- | Remembers something, for the time that was set, in place of what was remembered before. False if there is no room:
-- it is then still the caller's. O(log n).
remember :: Expiring a -> FilePath -> a -> IO Bool
remember expiring path value
  | remembersNothing expiring = return False
  | otherwise = do
    end <- deadlineAfter (lifeMicros expiring)
    outcome <- atomicModifyIORef' (entries expiring) (insert end)
    case outcome of
      Nothing -> return False
      Just old -> mapM_ (discard expiring . snd) old >> scheduleSweep expiring >> return True
  where
    insert end map'
      | Map.size map' >= entriesMax expiring = (map', Nothing)
      | otherwise = let (old, new) = Map.insertLookupWithKey (\_ latest _ -> latest) path (end, value) map' in (new, Just old)

scheduleSweep :: Expiring a -> IO ()
scheduleSweep expiring = do
  already <- exchange (sweeping expiring) True
  unless already $ do
    manager <- getSystemTimerManager
    void (registerTimeout manager (lifeMicros expiring) (sweep expiring))

sweep :: Expiring a -> IO ()
sweep expiring = do
  now <- deadlineAfter 0
  old <- atomicModifyIORef' (entries expiring) (\map' -> let (dead, alive) = Map.partition ((<= now) . fst) map' in (alive, dead))
  forM_ old (discard expiring . snd)
  atomicWriteIORef (sweeping expiring) False
  left <- readIORef (entries expiring)
  unless (Map.null left) (scheduleSweep expiring)

-- | Forgets everything.
forgetAll :: Expiring a -> IO ()
forgetAll expiring = do
  old <- exchange (entries expiring) Map.empty
  forM_ old (discard expiring . snd)

-- What was there before.
exchange :: IORef a -> a -> IO a
exchange ref new = atomicModifyIORef' ref (new,)
