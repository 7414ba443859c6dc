-- |
-- Who of many gives way to a newcomer, without looking at all of them for each newcomer. Must not know: connections.
--
-- A look at all finds those who could give way, the first of them first. They are kept in mind, and asked one by one; only
-- when they are used up, all are looked at again. That pays where a look finds many. Where it finds few, looking would
-- still take a time for each newcomer that grows with the number of those who are there, and so it waits between two looks:
-- no more than a tenth of the time is spent on it.
module Millrace.Http.Server.Eviction (Eviction, Candidates (..), Outcome (..), Evicted (..), newEviction, evict) where

import Control.Concurrent.MVar (MVar, modifyMVar, newMVar)
import Data.Word (Word64)
import Millrace.Deadline (monotonicNanoseconds)

-- | Who could give way, each list in the order in which they are to be asked.
data Candidates a = Candidates
  { -- | Those to be asked first.
    candidatesPreferred :: [a],
    -- | Those to be asked where a look has found none of the former.
    candidatesOthers :: [a]
  }

-- | What became of asking one.
data Outcome
  = -- | It gives way.
    GivesWay
  | -- | It does not any more.
    Stays
  | -- | It does not yet; nor do those behind it.
    NotYet
  deriving (Eq, Show)

-- | Those who may have to give way. May be used by several threads.
data Eviction a = Eviction !(IO (Candidates a)) !(a -> IO Outcome) !(MVar (Memory a))

-- Who was found, and from when on all may be looked at again.
data Memory a = Memory !(Candidates a) !Word64

-- | With what looks at all, and what asks one to give way. Of both only one runs at a time.
newEviction :: IO (Candidates a) -> (a -> IO Outcome) -> IO (Eviction a)
newEviction look ask = Eviction look ask <$> newMVar (Memory (Candidates [] []) 0)

-- | What came of asking for room.
data Evicted
  = -- | One gives way.
    OneGivesWay
  | -- | None does. All were looked at just now.
    NoneGivesWay
  | -- | None does. It makes sense to ask again after so many microseconds.
    AskLater !Int
  deriving (Eq, Show)

-- | Makes one give way.
evict :: Eviction a -> IO Evicted
evict (Eviction look ask place) = modifyMVar place $ \(Memory known next) -> do
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

-- Nanoseconds. A look that was interrupted by something else says nothing of how long looking takes.
longestPause :: Word64
longestPause = 100000000
