-- | Deadlines: points in time at which an operation ends.
--
-- A deadline is a point in time. So several operations that together have a time limit can share it. An operation whose
-- deadline passes ends with an 'IOError' of type 'GHC.IO.Exception.TimeExpired' ('isDeadlineError'); no asynchronous
-- exception is involved, and nothing that was received is lost.
--
-- > deadline <- deadlineAfter 5000000         -- five seconds for both
-- > greeting <- recvBefore deadline socket 4096
-- > sendAllBefore deadline socket answer
--
-- A receive that ends at its deadline loses nothing:
--
-- >>> import Millrace
-- >>> import System.IO.Error (tryIOError)
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> soon <- deadlineAfter 1000
-- >>> either isDeadlineError (const False) <$> tryIOError (recvBefore soon here 100)
-- True
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
    deadlineNanoseconds,
    deadlineFromNanoseconds,
    monotonicNanoseconds,

    -- * Limits on the time of one operation
    TimeLimit,
    noTimeLimit,
    microseconds,
    timeLimitNanoseconds,
  )
where

import Data.Word (Word64)
import GHC.IO.Exception (IOErrorType (TimeExpired))
import Millrace.Internal.CoreCalls (c_deadline_after, c_now)
import Millrace.Internal.Units (thousandfold)
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

-- | The deadline in the given number of microseconds; zero or less is now. Reads the clock. Does not block. O(1).
deadlineAfter :: Int -> IO Deadline
deadlineAfter delayMicros = Deadline <$> c_deadline_after (fromIntegral delayMicros)
{-# INLINE deadlineAfter #-}

-- | The deadline that passes first. 'noDeadline' is later than all others.
--
-- >>> soon <- deadlineAfter 1000
-- >>> earlier soon noDeadline == soon
-- True
earlier :: Deadline -> Deadline -> Deadline
earlier = min

-- | Whether a deadline has passed. Reads the clock, unless it is 'noDeadline'. Call it in loops that may never have to
-- wait: an operation that does not wait does not check its deadline. Does not block. O(1).
--
-- >>> deadlineAfter 0 >>= hasPassed
-- True
-- >>> hasPassed noDeadline
-- False
hasPassed :: Deadline -> IO Bool
hasPassed deadline
  | deadline == noDeadline = return False
  | otherwise = (>= deadline) <$> deadlineAfter 0

-- | Whether an operation ended because its deadline passed. Also true if the peer of a TCP connection stopped answering
-- and the system gave it up (@ETIMEDOUT@).
isDeadlineError :: IOError -> Bool
isDeadlineError problem = case ioeGetErrorType problem of
  TimeExpired -> True
  _ -> False

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

-- | How long an operation may wait, or that it may wait for ever. Unlike a 'Deadline' it needs no reading of the clock
-- if the operation does not wait.
newtype TimeLimit = TimeLimit Word64
  deriving (Eq)

-- | The operation may wait for ever.
noTimeLimit :: TimeLimit
noTimeLimit = TimeLimit 0

-- | The operation may wait for this number of microseconds. With zero or less it must not wait.
microseconds :: Int -> TimeLimit
microseconds micros = TimeLimit (if micros <= 0 then 1 else fromIntegral (thousandfold micros))
{-# INLINE microseconds #-}

-- | The limit in nanoseconds, as the core takes it; 0 for 'noTimeLimit'. "Millrace.Operation" needs it.
timeLimitNanoseconds :: TimeLimit -> Word64
timeLimitNanoseconds (TimeLimit ns) = ns
{-# INLINE timeLimitNanoseconds #-}
