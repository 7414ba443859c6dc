-- | Handshakes that are under way: bounded in time and number. Must not know: requests, responses.
--
-- Each has its own thread, so none holds up another one or accepting. If there are as many as are allowed, the oldest one ends when
-- it has taken 'crowdedMicros', and makes room for the next: a client that means it needs far less, and a crowd of slow ones cannot
-- keep the others out. Not covered by the version policy.
module Millrace.Http.Tls.Handshakes
  ( Handshakes,
    newHandshakes,
    inHandshake,
    Standing (..),
  )
where

import Control.Concurrent.STM (STM, TVar, atomically, check, newTVarIO, orElse, readTVar, readTVarIO, writeTVar)
import Control.Exception (mask, onException, throwIO)
import Control.Monad (unless)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64)
import Foreign.C.Error (eTIMEDOUT, errnoToIOError)
import Millrace.Deadline (Deadline, deadlineNanoseconds, monotonicNanoseconds)
import Millrace.Timer (registerDelay)

-- | The handshakes of a server.
data Handshakes = Handshakes !Int !(TVar Crowd)

data Crowd = Crowd
  { crowdCount :: !Int,
    crowdNext :: !Int,
    -- By the order in which they have begun.
    crowdOngoing :: !(IntMap Ongoing)
  }

data Ongoing = Ongoing
  { ongoingSince :: !Word64,
    ongoingEnd :: !(IO ())
  }

-- | How a handshake ended as far as others are concerned.
data Standing = Undisturbed | MadeRoom
  deriving (Eq, Show)

-- | No handshake is under way; at most so many may be.
newHandshakes :: Int -> IO Handshakes
newHandshakes most = Handshakes (max 1 most) <$> newTVarIO (Crowd 0 0 IntMap.empty)

-- | @inHandshake handshakes deadline end action@ runs the action when there is room for it. @end@ makes the action fail soon, and may
-- be called by any thread meanwhile. The result says whether that has happened. Throws an @IOError@ of type @TimeExpired@ if there is no
-- room until the deadline.
inHandshake :: Handshakes -> Deadline -> IO () -> (IO Standing -> IO a) -> IO a
inHandshake handshakes@(Handshakes _ place) deadline end action = mask $ \restore -> do
  number <- enter handshakes deadline end
  result <- restore (action (standing number)) `onException` leave number
  leave number
  return result
  where
    standing number = (\crowd -> if IntMap.member number (crowdOngoing crowd) then Undisturbed else MadeRoom) <$> readTVarIO place
    leave number = atomically (remove place number)

-- Another one may have done it.
remove :: TVar Crowd -> Int -> STM ()
remove place number = do
  crowd <- readTVar place
  unless (IntMap.notMember number (crowdOngoing crowd)) $
    writeTVar place crowd {crowdCount = crowdCount crowd - 1, crowdOngoing = IntMap.delete number (crowdOngoing crowd)}

enter :: Handshakes -> Deadline -> IO () -> IO Int
enter (Handshakes most place) deadline end = go
  where
    go = do
      now <- monotonicNanoseconds
      entered <- atomically (tryEnter now)
      either (makeRoom now) return entered
    tryEnter now = do
      crowd <- readTVar place
      let number = crowdNext crowd
          with = Crowd (crowdCount crowd + 1) (number + 1) (IntMap.insert number (Ongoing now end) (crowdOngoing crowd))
      if crowdCount crowd < most then Right number <$ writeTVar place with else return (Left (IntMap.findMin (crowdOngoing crowd)))
    makeRoom now (oldest, ongoing)
      | now >= due = atomically (remove place oldest) >> ongoingEnd ongoing >> go
      | now >= limit = throwIO (errnoToIOError "a handshake" eTIMEDOUT Nothing (Just "waiting for others to end"))
      | otherwise = do
        late <- registerDelay (fromIntegral ((min due limit - now) `quot` 1000) + 1)
        atomically (isRoom `orElse` (readTVar late >>= check))
        go
      where
        due = ongoingSince ongoing + 1000 * crowdedMicros
        limit = deadlineNanoseconds deadline
    isRoom = readTVar place >>= \crowd -> check (crowdCount crowd < most)

-- | How long a handshake may take, in microseconds, while others wait for room.
crowdedMicros :: Word64
crowdedMicros = 2000000
