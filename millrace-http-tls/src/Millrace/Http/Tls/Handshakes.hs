-- | Limits the time and the number of handshakes in progress. Must not know: requests, responses.
--
-- Each handshake has its own thread, so none delays another one or accepting. If there are as many as are allowed, the
-- oldest one is aborted after 'crowdedMicros', to make room for the next. An honest client needs far less time, and so
-- a crowd of slow clients cannot keep others out. Not covered by the version policy.
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
    -- By the order in which they began.
    crowdOngoing :: !(IntMap Ongoing)
  }

data Ongoing = Ongoing
  { ongoingSince :: !Word64,
    ongoingEnd :: !(IO ())
  }

-- | The outcome of a handshake.
data Standing = Undisturbed | MadeRoom
  deriving (Eq, Show)

-- | Makes the limiter: at most this many handshakes at the same time.
newHandshakes :: Int -> IO Handshakes
newHandshakes most = Handshakes (max 1 most) <$> newTVarIO (Crowd 0 0 IntMap.empty)

-- | @inHandshake handshakes deadline end action@ waits for room and runs the action. Another thread may call @end@
-- meanwhile, which must make the action fail soon. The result says whether that has happened. Throws an @IOError@ of
-- type @TimeExpired@ if there is no room before the deadline.
inHandshake :: Handshakes -> Deadline -> IO () -> (IO Standing -> IO a) -> IO a
inHandshake handshakes@(Handshakes _ place) deadline end action = mask $ \restore -> do
  number <- enter handshakes deadline end
  result <- restore (action (standing number)) `onException` leave number
  leave number
  return result
  where
    standing number =
      (\crowd -> if IntMap.member number (crowdOngoing crowd) then Undisturbed else MadeRoom) <$> readTVarIO place
    leave number = atomically (remove place number)

-- Another thread may have aborted it already.
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
      if crowdCount crowd < most
        then Right number <$ writeTVar place with
        else return (Left (IntMap.findMin (crowdOngoing crowd)))
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

-- | How long a handshake may take while others wait for room, in microseconds.
crowdedMicros :: Word64
crowdedMicros = 2000000
