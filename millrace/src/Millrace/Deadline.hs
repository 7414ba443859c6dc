-- | Deadlines: points in time at which an operation ends.
--
-- A deadline is a point in time. So several operations that together have a time limit can share it.
--
-- One rule holds for all functions whose names end with @Before@: they take the deadline first, and if it passes they
-- throw an 'IOError' of type 'GHC.IO.Exception.TimeExpired' ('isDeadlineError'), which names the function and its
-- object. 'nothingIfLate' makes 'Nothing' of it. No asynchronous exception is involved, and nothing that was received
-- is lost.
--
-- > deadline <- deadlineAfter (seconds 5)     -- for both
-- > greeting <- recvBefore deadline socket 4096
-- > sendAllBefore deadline socket answer
--
-- A receive that ends at its deadline loses nothing:
--
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> soon <- deadlineAfter (milliseconds 1)
-- >>> nothingIfLate (recvBefore soon here 100)
-- Nothing
-- >>> sendAll there "late, but not lost"
-- >>> recv here 100
-- "late, but not lost"
module Millrace.Deadline
  ( Deadline,
    noDeadline,
    deadlineAfter,
    earlier,
    hasPassed,
    isDeadlineError,
    nothingIfLate,
    deadlineNanoseconds,
    deadlineFromNanoseconds,
    monotonicNanoseconds,

    -- * Durations
    module Millrace.Duration,
  )
where

import Control.Exception (catch, throwIO)
import Data.Word (Word64)
import GHC.IO.Exception (IOErrorType (TimeExpired))
import Millrace.Duration
import Millrace.Internal.CoreCalls (c_now)
import System.IO.Error (ioeGetErrorType)

-- | A point on the monotonic clock, or never. Later deadlines are greater.
newtype Deadline = Deadline Word64
  deriving (Eq)

instance Ord Deadline where
  -- 0 is never. For comparing, 1 is subtracted, which makes 0 the largest number.
  compare (Deadline a) (Deadline b) = compare (a - 1) (b - 1)

instance Show Deadline where
  showsPrec _ (Deadline 0) = showString "noDeadline"
  showsPrec d (Deadline ns) = showParen (d > 10) (showString "Deadline " . shows ns . showString " ns")

-- | The deadline that never passes.
noDeadline :: Deadline
noDeadline = Deadline 0

-- | The deadline in the given time: @deadlineAfter (seconds 5)@. No time is now, and 'unlimited' is 'noDeadline'. Reads
-- the clock. Does not block. O(1).
deadlineAfter :: Duration -> IO Deadline
deadlineAfter delay
  | delay == unlimited = return noDeadline
  | otherwise = (\now -> Deadline (if delayNs > maxBound - now then maxBound else now + delayNs)) <$> c_now
  where
    delayNs = durationNanoseconds delay
{-# INLINE deadlineAfter #-}

-- | The deadline that passes first. 'noDeadline' is later than all others.
--
-- >>> soon <- deadlineAfter (milliseconds 1)
-- >>> earlier soon noDeadline == soon
-- True
earlier :: Deadline -> Deadline -> Deadline
earlier = min

-- | Whether a deadline has passed. Reads the clock, unless it is 'noDeadline'. Call it in loops that may never have to
-- wait: an operation that does not wait does not check its deadline. Does not block. O(1).
--
-- >>> deadlineAfter (seconds 0) >>= hasPassed
-- True
-- >>> hasPassed noDeadline
-- False
hasPassed :: Deadline -> IO Bool
hasPassed deadline
  | deadline == noDeadline = return False
  | otherwise = (>= deadline) . Deadline <$> c_now

-- | Whether an operation ended because its deadline passed. Also true if the peer of a TCP connection stopped answering
-- and the system gave it up (@ETIMEDOUT@).
isDeadlineError :: IOError -> Bool
isDeadlineError problem = case ioeGetErrorType problem of
  TimeExpired -> True
  _ -> False

-- | Runs an action, and returns 'Nothing' if a deadline passed in it ('isDeadlineError').
--
-- > deadline <- deadlineAfter (seconds 5)
-- > signal <- nothingIfLate (nextSignalBefore deadline signals)
nothingIfLate :: IO a -> IO (Maybe a)
nothingIfLate action =
  (Just <$> action) `catch` \problem -> if isDeadlineError problem then return Nothing else throwIO problem

-- | The deadline in nanoseconds on the core's monotonic clock; 0 for 'noDeadline'. "Millrace.Operation" needs it.
deadlineNanoseconds :: Deadline -> Word64
deadlineNanoseconds (Deadline ns) = ns
{-# INLINE deadlineNanoseconds #-}

-- | The inverse of 'deadlineNanoseconds', for programs that store deadlines as numbers.
deadlineFromNanoseconds :: Word64 -> Deadline
deadlineFromNanoseconds = Deadline
{-# INLINE deadlineFromNanoseconds #-}

-- | The current time on the clock of deadlines. In a simulation it is the machine's clock ("Millrace.Simulation"). Does
-- not block. O(1).
--
-- > begin <- monotonicNanoseconds
-- > answer <- recv socket 4096
-- > end <- monotonicNanoseconds
-- > print (end - begin)
monotonicNanoseconds :: IO Word64
monotonicNanoseconds = c_now
{-# INLINE monotonicNanoseconds #-}
