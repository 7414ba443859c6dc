-- |
-- Chooses which of many elements to evict for a new one, without scanning all of them each time. Must not know:
-- connections.
--
-- A scan finds all candidates in order. They are kept and tried one by one, and only when they are used up is there
-- another scan. That is cheap if a scan finds many. If it finds few, scanning for each new element would take time
-- proportional to the number of elements. So there is a pause between two scans, long enough that at most a tenth of
-- the time goes into scanning.
module Millrace.Http.Server.Eviction (Eviction, Candidates (..), Outcome (..), Evicted (..), newEviction, evict) where

import Control.Concurrent.MVar (MVar, modifyMVar, newMVar)
import Data.Word (Word64)
import Millrace.Deadline (monotonicNanoseconds)

-- | The candidates, each list in the order in which to try them.
data Candidates a = Candidates
  { -- | Tried first.
    candidatesPreferred :: [a],
    -- | Tried if a scan has found none of the former.
    candidatesOthers :: [a]
  }

-- | The result of trying one candidate.
data Outcome
  = -- | It gives way.
    GivesWay
  | -- | It is in use again.
    Stays
  | -- | It cannot be evicted yet, and neither can those behind it in its list.
    NotYet
  deriving (Eq, Show)

-- | The state of eviction. Several threads may use it.
data Eviction a = Eviction !(IO (Candidates a)) !(a -> IO Outcome) !(MVar (Memory a))

-- The remaining candidates, and the time of the next scan in monotonic nanoseconds.
data Memory a = Memory !(Candidates a) !Word64

-- | @newEviction scan try@: an action that finds all candidates, and one that tries to evict a candidate. They never
-- run at the same time.
newEviction :: IO (Candidates a) -> (a -> IO Outcome) -> IO (Eviction a)
newEviction look ask = Eviction look ask <$> newMVar (Memory (Candidates [] []) 0)

-- | The result of 'evict'.
data Evicted
  = -- | One gives way.
    OneGivesWay
  | -- | There is none to evict. A scan has just shown it.
    NoneGivesWay
  | -- | There is none to evict. Try again after so many microseconds.
    AskLater !Int
  deriving (Eq, Show)

-- | Makes one give way.
evict :: Eviction a -> IO Evicted
evict (Eviction look ask memory) = modifyMVar memory $ \(Memory known next) -> do
  (gone, preferred) <- askEach (candidatesPreferred known)
  start <- monotonicNanoseconds
  let remembered = known {candidatesPreferred = preferred}
  if gone
    then return (Memory remembered next, OneGivesWay)
    else if start < next then askRemembered remembered start next else lookAgain start
  where
    askRemembered known start next = do
      (gone, others) <- askEach (candidatesOthers known)
      return (Memory known {candidatesOthers = others} next, if gone then OneGivesWay else AskLater (microsUntil start next))
    lookAgain start = do
      found <- look
      end <- monotonicNanoseconds
      (gone, left) <- askFound found
      return (Memory left (end + min longestPause (9 * (end - start))), if gone then OneGivesWay else NoneGivesWay)
    askFound found = do
      (gone, preferred) <- askEach (candidatesPreferred found)
      (goneNow, others) <- if gone then return (True, candidatesOthers found) else askEach (candidatesOthers found)
      return (goneNow, Candidates preferred others)
    askEach [] = return (False, [])
    askEach (first : others) = do
      outcome <- ask first
      case outcome of
        GivesWay -> return (True, others)
        Stays -> askEach others
        NotYet -> return (False, first : others)
    microsUntil now later = fromIntegral ((later - now) `div` 1000) + 1

-- In nanoseconds. Without this limit a scan that was preempted would count as a slow one, and cause a long pause.
longestPause :: Word64
longestPause = 100000000
