-- Must not know: requests, responses.

-- |
-- Hands bytes to a transport for as long as the client takes them.
--
-- What counts is progress, not how long a response takes. A client that reads slowly is served; a client that
-- acknowledges nothing for too long is given up. The kernel reports space in a socket only when a third of its queue is
-- free, and that queue holds megabytes, so a slow client would seem dead for minutes. Therefore a wait is cut into
-- slices. After each slice the length of the queue (SIOCOUTQ, tcp(7)) shows whether the client has acknowledged
-- anything. A client that takes everything within a slice is not measured at all, unless a rate is asked for.
module Millrace.Http.Delivery
  ( Pace,
    makePace,
    isPaced,
    Window (..),
    Delivery (..),
    Progress,
    deliver,
    deliverTwo,
    deliverFile,

    -- * The end of a connection whose client may still be sending
    linger,
    lingerMicros,
    lingerPauseMicros,
  )
where

import Control.Concurrent (yield)
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Data.Maybe (isJust)
import Data.Primitive.ByteArray (MutableByteArray, readByteArray, writeByteArray)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eTIMEDOUT)
import Foreign.Ptr (castPtr, plusPtr)
import Millrace.Deadline (Deadline, deadlineAfter, earlier, hasPassed, microseconds, monotonicNanoseconds, noDeadline)
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Server.Limits (Limits (..), Rate (..))
import Millrace.Http.Transport
import Millrace.Operation (failure)

-- | How long the server waits for a slow client.
data Pace = Pace
  { -- Microseconds without an acknowledged byte before the client is given up; 0: no limit.
    paceSilenceMicros :: !Int,
    -- Microseconds of a slice, after which progress is checked; 0: no slices.
    paceSliceMicros :: !Int,
    -- The least rate at which the client must acknowledge bytes while the server waits for it.
    paceRate :: !(Maybe Rate)
  }

-- | Computes the pace from the limits.
makePace :: Limits -> Pace
makePace limits =
  Pace (sendMicros limits) (if null waits then 0 else max 1 (minimum waits `quot` slicesPerWait)) (sendRate limits)
  where
    waits = filter (> 0) (sendMicros limits : [window | Just (Rate _ window) <- [sendRate limits]])

-- So a client is given up at most two slices late, and never early.
slicesPerWait :: Int
slicesPerWait = 16

-- | Whether every wait must be measured, because there is a least rate.
isPaced :: Pace -> Bool
isPaced pace = isJust (paceRate pace)
{-# INLINE isPaced #-}

-- | The counters of a connection for the current window of the rate: two words from an index on, initially 0. They are
-- the microseconds waited, and the bytes acknowledged during them.
data Window = Window !(MutableByteArray RealWorld) !Int

-- | What all sends of a connection share. The 'Deadline' holds independently of the pace.
data Delivery = Delivery
  { deliveryTransport :: !Transport,
    deliveryPace :: !Pace,
    deliveryWindow :: !Window,
    deliveryLimit :: !Deadline
  }

-- | Sends all bytes of a piece. Parks while the client takes none. Throws an @IOError@, of type @TimeExpired@ if the
-- client was too slow or the deadline has passed. Part of the bytes may have been sent then.
deliver :: Delivery -> Following -> Piece -> IO ()
deliver delivery following piece@(Piece _ count)
  | count > pieceMax = deliverParts delivery following piece
  | otherwise = do
    first <- firstAttempt delivery (\limit -> attemptSend (deliveryTransport delivery) following limit piece)
    case first of
      Moved moved | moved == count -> return ()
      _ -> continueDelivering delivery following piece first
{-# INLINE deliver #-}

-- A piece that takes several operations.
deliverParts :: Delivery -> Following -> Piece -> IO ()
deliverParts delivery following piece =
  firstAttempt delivery (attemptPart delivery following piece 0) >>= continueDelivering delivery following piece
{-# NOINLINE deliverParts #-}

-- Sends the rest, after a first attempt that ended like this.
continueDelivering :: Delivery -> Following -> Piece -> Attempt -> IO ()
continueDelivering delivery following piece@(Piece _ count) =
  void . continueSending delivery (Transfer count (attemptPart delivery following piece) (\_ -> return ())) 0
{-# NOINLINE continueDelivering #-}

-- Sends as much of a piece as one operation may, behind this many bytes that were sent.
attemptPart :: Delivery -> Following -> Piece -> Int -> TimeLimit -> IO Attempt
attemptPart delivery following (Piece bytes count) done limit
  | left <= pieceMax = attemptSend transport following limit (Piece at left)
  | otherwise = attemptSend transport MoreFollows limit (Piece at pieceMax)
  where
    transport = deliveryTransport delivery
    at = bytes `plusPtr` done
    left = count - done
{-# NOINLINE attemptPart #-}

-- | Called with the total number of bytes sent, whenever it has grown.
type Progress = Int -> IO ()

-- | Sends a piece and then a string, together if possible.
deliverTwo :: Delivery -> Progress -> Piece -> ByteString -> IO ()
deliverTwo delivery progress (Piece first size) string = BU.unsafeUseAsCStringLen string $ \(second, rest) -> do
  let total = size + rest
      restFrom skipped = Piece (castPtr second `plusPtr` skipped) (min (rest - skipped) pieceMax)
      attemptFrom done limit
        | done < size = attemptSend transport MoreFollows limit (Piece (first `plusPtr` done) (size - done))
        | otherwise = attemptSend transport NothingFollows limit (restFrom (done - size))
  together <- firstAttempt delivery (\limit -> attemptSendTwo transport limit (Piece first size) (restFrom 0))
  void (continueSending delivery (Transfer total attemptFrom progress) 0 together)
  where
    transport = deliveryTransport delivery

-- | Sends a part of a file. Returns the number of bytes sent, which is smaller only if the file ended. Throws like
-- 'deliver'.
deliverFile :: Delivery -> Progress -> FileSlice -> IO Int64
deliverFile delivery progress (FileSlice file offset count)
  | count <= 0 = return 0
  | otherwise = do
    first <- firstAttempt delivery (attemptFrom 0)
    fromIntegral <$> continueSending delivery (Transfer (fromIntegral count) attemptFrom progress) 0 first
  where
    attemptFrom :: Int -> TimeLimit -> IO Attempt
    attemptFrom done limit =
      attemptSendFile
        (deliveryTransport delivery)
        limit
        (FileSlice file (offset + fromIntegral done) (count - fromIntegral done))

-- The most bytes of one operation. An operation may move all its bytes within one call that delays the garbage
-- collector.
pieceMax :: Int
pieceMax = 262144

------------------------------------------------------------------------------------------------------------------------
-- Patience

-- Makes an attempt that waits at most one slice. The attempt stands here once, and not once for each kind of limit,
-- because it is much code.
withinSlice :: Delivery -> (TimeLimit -> IO Attempt) -> IO Attempt
withinSlice delivery attempt = slice delivery >>= attempt
{-# INLINE withinSlice #-}

slice :: Delivery -> IO TimeLimit
slice delivery
  | limit == noDeadline = return (Within sliceMicros)
  | sliceMicros == 0 = return (Before limit)
  | otherwise = Before . earlier limit <$> deadlineAfter (microseconds sliceMicros)
  where
    limit = deliveryLimit delivery
    sliceMicros = paceSliceMicros (deliveryPace delivery)

-- Nearly always the only attempt. It is skipped if there is a least rate, because then every wait is measured.
firstAttempt :: Delivery -> (TimeLimit -> IO Attempt) -> IO Attempt
firstAttempt delivery attempt
  | isPaced (deliveryPace delivery) = return TimedOut
  | otherwise = withinSlice delivery attempt
{-# INLINE firstAttempt #-}

-- The total number of bytes; an action that attempts to send what is left after an offset; and an observer.
data Transfer = Transfer !Int (Int -> TimeLimit -> IO Attempt) !Progress

-- @continueSending delivery transfer done attempt@: continues after an attempt that ended like this, until all bytes
-- were sent or an attempt sends none. Returns the number of bytes sent.
continueSending :: Delivery -> Transfer -> Int -> Attempt -> IO Int
continueSending delivery transfer@(Transfer count attemptFrom progress) before' attempt = case attempt of
  TimedOut -> persist delivery transfer before'
  Failed errno -> throwIO (failed delivery errno)
  Moved moved -> do
    let done = before' + moved
    progress done
    if moved == 0 || done >= count
      then return done
      else withinSlice delivery (attemptFrom done) >>= continueSending delivery transfer done
{-# NOINLINE continueSending #-}

failed :: Delivery -> Errno -> IOError
failed delivery = failure sendingResponse (describeTransport (deliveryTransport delivery))

-- The same for a client that takes less than there is: its progress is measured.
persist :: Delivery -> Transfer -> Int -> IO Int
persist delivery (Transfer count attemptFrom progress) start = do
  now <- monotonicNanoseconds
  queued <- queuedBytes transport
  go now now queued start
  where
    go quietSince before' queued done
      | done >= count = return done
      | otherwise = do
        attempt <- withinSlice delivery (attemptFrom done)
        now <- monotonicNanoseconds
        left <- queuedBytes transport
        let moved = case attempt of Moved bytes -> bytes; _ -> 0
            acknowledged = moved + queued - left
        measure delivery (now - before') acknowledged
        case attempt of
          Moved 0 -> return done
          Moved _ -> progress (done + moved) >> go now now left (done + moved)
          Failed errno -> throwIO (failed delivery errno)
          TimedOut
            | acknowledged > 0 -> checkLimit >> go now now left done
            | silenceMicros > 0 && now - quietSince >= nanosecondsOf silenceMicros -> tooSlow
            | otherwise -> checkLimit >> go quietSince now left done
    transport = deliveryTransport delivery
    silenceMicros = paceSilenceMicros (deliveryPace delivery)
    tooSlow = throwIO (failed delivery eTIMEDOUT)
    checkLimit = do
      isLate <- hasPassed (deliveryLimit delivery)
      when isLate tooSlow

nanosecondsOf :: Int -> Word64
nanosecondsOf micros = 1000 * fromIntegral micros

-- Counts only time spent waiting, not time spent working.
measure :: Delivery -> Word64 -> Int -> IO ()
measure delivery elapsed acknowledged = case paceRate (deliveryPace delivery) of
  Just (Rate bytes windowMicros) | elapsed >= nanosecondsOf 1000 -> do
    let Window counts index = deliveryWindow delivery
    waited <- (+ fromIntegral (elapsed `quot` 1000)) <$> readByteArray counts index
    moved <- (+ acknowledged) <$> readByteArray counts (index + 1)
    when (waited >= windowMicros && moved < bytes) (throwIO (failed delivery eTIMEDOUT))
    writeByteArray counts index (if waited >= windowMicros then 0 else waited)
    writeByteArray counts (index + 1) (if waited >= windowMicros then 0 else moved)
  _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- The end of a connection whose client may still be sending

-- | Closing a socket that has unread input resets the connection, and the reset may overtake the response. So this ends
-- the sending side, and gives the client a little time to stop sending (RFC 9112, section 9.6).
linger :: Transport -> Int -> IO ()
linger transport micros = void . (try :: IO () -> IO (Either SomeException ())) $ do
  endSending transport
  limit <- deadlineAfter (microseconds micros)
  drain limit lingerBytes
  where
    drain :: Deadline -> Int -> IO ()
    drain limit left = when (left > 0) $ do
      pause <- deadlineAfter (microseconds lingerPauseMicros)
      bytes <- receiveBytes transport (earlier limit pause) lingerPiece
      -- A client that never stops sending would keep this thread running until it is preempted, and again after that.
      unless (B.null bytes) (yield >> drain limit (left - B.length bytes))

-- | The longest time in microseconds for which the sessions let 'linger' wait.
lingerMicros :: Int
lingerMicros = 5000000

-- | 'linger' stops when the client has sent no byte for this many microseconds.
lingerPauseMicros :: Int
lingerPauseMicros = 1000000

-- It also stops after 'lingerBytes' bytes in total, and receives at most 'lingerPiece' bytes at a time. The limit in
-- bytes is large, because some clients send a complete body before they read the response.
lingerBytes, lingerPiece :: Int
lingerBytes = 1073741824
lingerPiece = 65536
