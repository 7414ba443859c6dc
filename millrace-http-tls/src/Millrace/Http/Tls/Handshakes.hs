-- Must not know: requests, responses.

-- | Limits the time and the number of handshakes in progress.
--
-- Each handshake has its own thread, so none delays another one or accepting. When the limit is reached, the oldest one
-- is aborted after 'crowdedMicros', so that the next one can begin. An honest client needs far less time, and so a
-- crowd of slow clients cannot keep others out. Not covered by the version policy.
module Millrace.Http.Tls.Handshakes
  ( Handshakes,
    newHandshakes,
    inHandshake,
    HandshakeFate (..),
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
    -- In the order in which they began.
    crowdOngoing :: !(IntMap Ongoing)
  }

data Ongoing = Ongoing
  { ongoingSince :: !Word64,
    ongoingEnd :: !(IO ())
  }

-- | The outcome of a handshake.
data HandshakeFate = Undisturbed | Aborted
  deriving (Eq, Show)

-- | Makes the limiter: at most this many handshakes at the same time.
newHandshakes :: Int -> IO Handshakes
newHandshakes most = Handshakes (max 1 most) <$> newTVarIO (Crowd 0 0 IntMap.empty)

-- | @inHandshake handshakes deadline end action@ waits until another handshake may begin, and runs the action. Another
-- thread may call @end@ meanwhile, which must make the action fail soon. The action's argument returns whether that has
-- happened. Throws an @IOError@ of type @TimeExpired@ if the deadline passes before it may begin.
inHandshake :: Handshakes -> Deadline -> IO () -> (IO HandshakeFate -> IO a) -> IO a
inHandshake handshakes@(Handshakes _ state) deadline end action = mask $ \restore -> do
  number <- enter handshakes deadline end
  result <- restore (action (fate number)) `onException` leave number
  leave number
  return result
  where
    fate number =
      (\crowd -> if IntMap.member number (crowdOngoing crowd) then Undisturbed else Aborted) <$> readTVarIO state
    leave number = atomically (remove state number)

-- Another thread may have aborted it already.
remove :: TVar Crowd -> Int -> STM ()
remove state number = do
  crowd <- readTVar state
  unless (IntMap.notMember number (crowdOngoing crowd)) $
    writeTVar
      state
      crowd {crowdCount = crowdCount crowd - 1, crowdOngoing = IntMap.delete number (crowdOngoing crowd)}

enter :: Handshakes -> Deadline -> IO () -> IO Int
enter (Handshakes most state) deadline end = go
  where
    go = do
      now <- monotonicNanoseconds
      entered <- atomically (tryEnter now)
      either (abortOldest now) return entered
    tryEnter now = do
      crowd <- readTVar state
      let number = crowdNext crowd
          with = Crowd (crowdCount crowd + 1) (number + 1) (IntMap.insert number (Ongoing now end) (crowdOngoing crowd))
      if crowdCount crowd < most
        then Right number <$ writeTVar state with
        else return (Left (IntMap.findMin (crowdOngoing crowd)))
    abortOldest now (oldest, ongoing)
      | now >= due = atomically (remove state oldest) >> ongoingEnd ongoing >> go
      | now >= limit = throwIO (errnoToIOError "a handshake" eTIMEDOUT Nothing (Just "waiting for others to end"))
      | otherwise = do
        late <- registerDelay (fromIntegral ((min due limit - now) `quot` 1000) + 1)
        atomically (isFree `orElse` (readTVar late >>= check))
        go
      where
        due = ongoingSince ongoing + 1000 * crowdedMicros
        limit = deadlineNanoseconds deadline
    isFree = readTVar state >>= \crowd -> check (crowdCount crowd < most)

-- | How long a handshake may take while others wait for their turn, in microseconds.
crowdedMicros :: Word64
crowdedMicros = 2000000
