{-# LANGUAGE LambdaCase #-}

-- Must not know: files, HTTP.

-- | Values that are costly to make: each is made by one thread, while others wait for it, and then kept in bounded
-- memory.
module Millrace.Cli.Files.SingleFlight
  ( SingleFlight,
    newSingleFlight,
    Bounds (..),
    Made (..),
    recall,
    obtain,
    keptWeight,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar)
import Control.Concurrent.QSem (QSem, newQSem, signalQSem, waitQSem)
import Control.Exception (bracket_, mask, onException)
import Control.Monad (unless, when)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import qualified Data.List as List
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Word (Word64)
import GHC.Clock (getMonotonicTime)

-- | Values by their keys.
data SingleFlight key a = SingleFlight
  { bounds :: Bounds,
    weightOf :: a -> Int,
    turns :: QSem,
    content :: IORef (FlightTable key a)
  }

-- | The bounds of what is kept, and of what is made at a time.
data Bounds = Bounds
  { -- | The weight of all values that are kept. The values that were not used for the longest time are dropped first.
    boundKept :: Int,
    -- | How many values are made at the same time.
    boundAtOnce :: Int,
    -- | The effort of all values that are being made or wait for that. What would exceed it is not made.
    boundEffort :: Int,
    -- | A value that was not used for this many seconds is dropped within as many again. This is looked at when another
    -- one is made.
    boundUnusedSeconds :: Double
  }

-- | What came of making a value.
data Made a
  = Made a
  | -- | There is no value for this key, and never will be. This is remembered.
    NeverMade
  | -- | There is none at present.
    NotMadeNow

data FlightTable key a = FlightTable
  { contentWeight :: !Int,
    -- The effort that is being made or waits.
    contentEffort :: !Int,
    -- Counts insertions. It serves as the time of the last use.
    contentAge :: !Word64,
    contentSweep :: !Sweep,
    contentEntries :: !(Map key (CachedResult a))
  }

-- | When values that were not used are dropped again, and since which age they must have been used.
data Sweep = Sweep
  { sweepSeconds :: !Double,
    sweepAge :: !Word64
  }

data CachedResult a
  = Kept (KeptEntry a)
  | UnderWay (MVar (Maybe a))

data KeptEntry a = KeptEntry
  { entryUsed :: !(IORef Word64),
    entryWeight :: !Int,
    entryValue :: !(Maybe a)
  }

-- | @newSingleFlight bounds weight@ keeps nothing yet.
--
-- > pages <- newSingleFlight (Bounds 1000000 2 1000000 600) ByteString.length
newSingleFlight :: Bounds -> (a -> Int) -> IO (SingleFlight key a)
newSingleFlight limits weight = do
  now <- getMonotonicTime
  SingleFlight limits weight <$> newQSem (boundAtOnce limits)
    <*> newIORef (FlightTable 0 0 0 (Sweep (now + boundUnusedSeconds limits) 0) Map.empty)

-- | The value for a key, if it is kept: 'Just' 'Nothing' if it is known that there is none. O(log n). Does not block.
recall :: Ord key => SingleFlight key a -> key -> IO (Maybe (Maybe a))
recall values key = do
  now <- readIORef (content values)
  case Map.lookup key (contentEntries now) of
    Just (Kept entry) -> Just <$> useEntry now entry
    _ -> pure Nothing

-- Most uses write nothing, because nothing was inserted since the last one.
useEntry :: FlightTable key a -> KeptEntry a -> IO (Maybe a)
useEntry now entry = do
  used <- readIORef (entryUsed entry)
  unless (used == contentAge now) (writeIORef (entryUsed entry) (contentAge now))
  pure (entryValue entry)

-- | @obtain values key effort make@: the value for a key. If it is not kept, this makes it, or waits for the thread
-- that does. 'Nothing' if there is none, or if too much is being made already. Blocks. Interruptible; if the thread
-- that makes a value is interrupted, those that wait for it get 'Nothing'. Throws what @make@ throws.
obtain :: Ord key => SingleFlight key a -> key -> Int -> IO (Made a) -> IO (Maybe a)
obtain values key effort make = mask $ \restore -> do
  result <- newEmptyMVar
  claim values key effort result >>= \case
    Found now (Kept entry) -> useEntry now entry
    Found _ (UnderWay other) -> readMVar other
    TooMuch -> pure Nothing
    Claimed -> do
      made <-
        bracket_
          (waitQSem (turns values))
          (signalQSem (turns values))
          (restore make)
          `onException` finish values key effort result NotMadeNow
      finish values key effort result made
      pure $ case made of
        Made value -> Just value
        _ -> Nothing

data Claim key a
  = Found (FlightTable key a) (CachedResult a)
  | TooMuch
  | Claimed

claim :: Ord key => SingleFlight key a -> key -> Int -> MVar (Maybe a) -> IO (Claim key a)
claim values key effort result = atomicModifyIORef' (content values) $ \now ->
  case Map.lookup key (contentEntries now) of
    Just entry -> (now, Found now entry)
    Nothing
      | contentEffort now > 0 && contentEffort now + effort > boundEffort (bounds values) -> (now, TooMuch)
      | otherwise ->
        ( now
            { contentEffort =
                contentEffort now + effort,
              contentEntries = Map.insert key (UnderWay result) (contentEntries now)
            },
          Claimed
        )

-- Ends what a claim began. Does not block, and so cannot be interrupted: nobody else writes to the variable.
finish :: Ord key => SingleFlight key a -> key -> Int -> MVar (Maybe a) -> Made a -> IO ()
finish values key effort result made = do
  used <- newIORef 0
  case made of
    Made value ->
      insert (KeptEntry used (weightOf values value + entryBytes) (Just value)) >> putMVar result (Just value)
    NeverMade -> insert (KeptEntry used entryBytes Nothing) >> putMVar result Nothing
    NotMadeNow -> atomicModifyIORef' (content values) (\now -> (without now, ())) >> putMVar result Nothing
  where
    without now = now {contentEffort = contentEffort now - effort, contentEntries = Map.delete key (contentEntries now)}
    insert entry
      | entryWeight entry > boundKept (bounds values) = atomicModifyIORef' (content values) (\now -> (without now, ()))
      | otherwise = do
        dropUnused values
        makeRoom values (entryWeight entry)
        age <- atomicModifyIORef' (content values) $ \now ->
          let next = contentAge now + 1
           in ( now
                  { contentWeight = contentWeight now + entryWeight entry,
                    contentEffort = contentEffort now - effort,
                    contentAge = next,
                    contentEntries = Map.insert key (Kept entry) (contentEntries now)
                  },
                next
              )
        writeIORef (entryUsed entry) age

-- Drops what was not used since this was done the last time. Most of it is made of something that has changed
-- meanwhile.
dropUnused :: Ord key => SingleFlight key a -> IO ()
dropUnused values = do
  time <- getMonotonicTime
  now <- readIORef (content values)
  when (time >= sweepSeconds (contentSweep now)) $ do
    aged <- ages now
    let unused = [key | (used, (key, _)) <- aged, used < sweepAge (contentSweep now)]
        next = Sweep (time + boundUnusedSeconds (bounds values)) (contentAge now)
    atomicModifyIORef' (content values) (\current -> ((dropAll unused current) {contentSweep = next}, ()))

-- Drops the values that were not used for the longest time, until a sixteenth is free besides what is needed. So it
-- need not look at all entries for each insertion.
makeRoom :: Ord key => SingleFlight key a -> Int -> IO ()
makeRoom values needed = do
  now <- readIORef (content values)
  unless (contentWeight now + needed <= most) $ do
    aged <- ages now
    let excess = contentWeight now + needed - (most - most `quot` 16)
        victims = map (fst . snd) (takeUntil excess (List.sortOn fst aged))
    atomicModifyIORef' (content values) (\current -> (dropAll victims current, ()))
  where
    most = boundKept (bounds values)
    takeUntil excess candidates = case candidates of
      candidate@(_, (_, weight)) : others | excess > 0 -> candidate : takeUntil (excess - weight) others
      _ -> []

-- When each value was used the last time, its key and its weight.
ages :: FlightTable key a -> IO [(Word64, (key, Int))]
ages now = mapM withUse [(key, entry) | (key, Kept entry) <- Map.toList (contentEntries now)]
  where
    withUse (key, entry) = do
      used <- readIORef (entryUsed entry)
      pure (used, (key, entryWeight entry))

-- Another thread may have dropped some of them, and what is being made stays.
dropAll :: Ord key => [key] -> FlightTable key a -> FlightTable key a
dropAll keys now = List.foldl' drop' now keys
  where
    drop' current key = case Map.lookup key (contentEntries current) of
      Just (Kept entry) ->
        current
          { contentWeight =
              contentWeight current - entryWeight entry,
            contentEntries = Map.delete key (contentEntries current)
          }
      _ -> current

-- What an entry takes besides its value.
entryBytes :: Int
entryBytes = 1024

-- | The weight of all that is kept. Each value weighs 1,024 more than it says.
keptWeight :: SingleFlight key a -> IO Int
keptWeight values = contentWeight <$> readIORef (content values)
