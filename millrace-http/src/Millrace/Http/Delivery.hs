-- |
-- Hands bytes to a socket for as long as the client takes them. Knows nothing of what the bytes mean.
--
-- What counts is progress, not how long a response takes: a client that reads slowly is served, one that acknowledges
-- nothing for too long is given up. The kernel tells of room in a socket only when a third of its queue is free, and
-- that queue holds megabytes; a slow client would seem dead for minutes. So a wait is cut into slices, after each of
-- which the length of the queue (SIOCOUTQ, tcp(7)) shows whether the client has acknowledged anything. Who takes
-- everything within a slice is not measured at all, unless a rate is asked for.
module Millrace.Http.Delivery (Pace, makePace, isPaced, Window (..), Progress, deliver, deliverAhead, deliverTwo, deliverFile) where

import Control.Exception (throwIO)
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int64)
import Data.Maybe (isJust)
import Data.Primitive.ByteArray (MutableByteArray, readByteArray, writeByteArray)
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno (..), eTIMEDOUT)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (pokeElemOff)
import Millrace.Deadline (Deadline, deadlineAfter, earlier, monotonicNanoseconds, noDeadline)
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Limits (Limits (..), Rate (..))
import Millrace.Operation
import Millrace.Socket (Socket, socketHandle)
import System.Posix.Types (Fd)

-- | How long to be patient with any client.
data Pace = Pace
  { -- Without a byte acknowledged; 0: for ever.
    paceSilenceMicros :: !Int,
    -- How long to wait before looking for progress; 0: for ever.
    paceSliceMicros :: !Int,
    -- The least that the client must acknowledge while we wait for it.
    paceRate :: !(Maybe Rate)
  }

-- | The pace that these limits ask for.
makePace :: Limits -> Pace
makePace limits = Pace (sendMicros limits) (if null waits then 0 else max 1 (minimum waits `quot` slicesPerWait)) (sendRate limits)
  where
    waits = filter (> 0) (sendMicros limits : [window | Just (Rate _ window) <- [sendRate limits]])

-- A client is given up up to two slices late, and never early.
slicesPerWait :: Int
slicesPerWait = 16

-- | Must every wait be measured?
isPaced :: Pace -> Bool
isPaced pace = isJust (paceRate pace)
{-# INLINE isPaced #-}

-- | Where a connection keeps count: two words from an index on, which are for nothing else and 0 at first. They are
-- microseconds waited, and bytes acknowledged meanwhile, in the current window of the rate.
data Window = Window !(MutableByteArray RealWorld) !Int

-- | @deliver pace window limit socket bytes count@ sends all bytes. Parks while the client takes none. Throws an @IOError@, of
-- type @TimeExpired@ if the client was too slow or the limit has passed; part of the bytes may have gone then.
deliver :: Pace -> Window -> Deadline -> Socket -> Ptr Word8 -> Int -> IO ()
deliver = deliverBy id
{-# INLINE deliver #-}

-- | The same, with more to be delivered at once, so that the kernel can send both together.
deliverAhead :: Pace -> Window -> Deadline -> Socket -> Ptr Word8 -> Int -> IO ()
deliverAhead = deliverBy moreFollows
{-# NOINLINE deliverAhead #-}

deliverBy :: (Request Word8 -> Request Word8) -> Pace -> Window -> Deadline -> Socket -> Ptr Word8 -> Int -> IO ()
deliverBy how pace window limit socket bytes count = do
  result <- firstAttempt pace limit (request 0)
  unless (result == fromIntegral count) $
    void (goOn (\_ -> return ()) pace window limit socket result count 0 request)
  where
    request done = how (sendRequest False (socketHandle socket) (bytes `plusPtr` done) (min (count - done) pieceMax))
{-# INLINE deliverBy #-}

-- | Is told how many bytes have gone in all, whenever some have.
type Progress = Int -> IO ()

-- | @deliverTwo progress pace window limit socket bytes count string@ sends bytes and then a string, together as far as
-- possible.
deliverTwo :: Progress -> Pace -> Window -> Deadline -> Socket -> Ptr Word8 -> Int -> ByteString -> IO ()
deliverTwo progress pace window limit socket first size string = BU.unsafeUseAsCStringLen string $ \(second, rest) -> do
  result <- allocaBytes (2 * vectorElementSize) $ \vector -> do
    pokeElement vector 0 first size
    pokeElement vector 1 (castPtr second) (min rest pieceMax)
    firstAttempt pace limit (partial (sendVectorRequest handle vector 2))
  void . goOn progress pace window limit socket result (size + rest) 0 $ \done ->
    if done < size
      then sendRequest False handle (first `plusPtr` done) (size - done)
      else sendRequest False handle (castPtr second `plusPtr` (done - size)) (min (size + rest - done) pieceMax)
  where
    handle = socketHandle socket

-- struct iovec
vectorElementSize :: Int
vectorElementSize = 16

pokeElement :: Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO ()
pokeElement vector index base size = do
  pokeElemOff (castPtr vector) (2 * index) base
  pokeElemOff (castPtr vector) (2 * index + 1) size

-- | @deliverFile progress pace window limit socket file offset count@ sends a part of a file. Returns how many bytes went;
-- fewer only if the file ended. Throws like 'deliver'.
deliverFile :: Progress -> Pace -> Window -> Deadline -> Socket -> Fd -> Int64 -> Int64 -> IO Int64
deliverFile progress pace window limit socket file offset count
  | count <= 0 = return 0
  | otherwise = do
    result <- firstAttempt pace limit (request 0)
    fromIntegral <$> goOn progress pace window limit socket result (fromIntegral count) 0 request
  where
    request :: Int -> Request ()
    request done = sendFileRequest (socketHandle socket) file (offset + fromIntegral done) (count - fromIntegral done)

-- An operation may move all its bytes within one call that holds off the garbage collector.
pieceMax :: Int
pieceMax = 262144

------------------------------------------------------------------------------------------------------------------------
-- Patience

timedOut :: Int64
timedOut = let Errno number = eTIMEDOUT in negate (fromIntegral number)

-- Performs a request, but waits no longer than one slice.
performSlice :: Pace -> Deadline -> Request a -> IO Int64
performSlice pace limit request
  | limit == noDeadline = perform (within (paceSliceMicros pace) request)
  | paceSliceMicros pace == 0 = perform (before limit request)
  | otherwise = do
    deadline <- deadlineAfter (paceSliceMicros pace)
    perform (before (earlier limit deadline) request)
{-# INLINE performSlice #-}

-- Nearly always the only one. Where a rate is asked for, every wait is measured, and this one is left out.
firstAttempt :: Pace -> Deadline -> Request a -> IO Int64
firstAttempt pace limit request
  | isPaced pace = return timedOut
  | otherwise = performSlice pace limit request
{-# INLINE firstAttempt #-}

-- After an attempt that had this result: makes others until so many bytes went in all, or one of them moves none. Says
-- how many went.
goOn :: Progress -> Pace -> Window -> Deadline -> Socket -> Int64 -> Int -> Int -> (Int -> Request a) -> IO Int
goOn progress pace window limit socket result count before' request
  | result == timedOut = persist progress pace window limit socket count before' request
  | result < 0 = throwIO (failed socket result)
  | otherwise = do
    progress done
    if result == 0 || done >= count
      then return done
      else do
        next <- performSlice pace limit (request done)
        goOn progress pace window limit socket next count done request
  where
    done = before' + fromIntegral result
{-# NOINLINE goOn #-}

failed :: Socket -> Int64 -> IOError
failed socket = failure sendingResponse (show socket)

-- The same, and the client is watched: it takes less than we have.
persist :: Progress -> Pace -> Window -> Deadline -> Socket -> Int -> Int -> (Int -> Request a) -> IO Int
persist progress pace window limit socket count start request = do
  now <- monotonicNanoseconds
  queued <- queuedBytes socket
  go now now queued start
  where
    go quietSince before' queued done
      | done >= count = return done
      | otherwise = do
        result <- performSlice pace limit (request done)
        now <- monotonicNanoseconds
        left <- queuedBytes socket
        let acknowledged = max 0 (fromIntegral result) + queued - left
        measure pace window socket (now - before') acknowledged
        case compare result 0 of
          GT -> progress (done + fromIntegral result) >> go now now left (done + fromIntegral result)
          EQ -> return done
          LT
            | result /= timedOut -> throwIO (failed socket result)
            | acknowledged > 0 -> checkLimit >> go now now left done
            | paceSilenceMicros pace > 0 && now - quietSince >= nanoseconds (paceSilenceMicros pace) -> throwIO (failed socket timedOut)
            | otherwise -> checkLimit >> go quietSince now left done
    checkLimit = do
      now <- deadlineAfter 0
      when (limit <= now) (throwIO (failed socket timedOut))

nanoseconds :: Int -> Word64
nanoseconds micros = 1000 * fromIntegral micros

-- Counts what was a wait, not what merely took its time.
measure :: Pace -> Window -> Socket -> Word64 -> Int -> IO ()
measure pace (Window words' index) socket elapsed acknowledged = case paceRate pace of
  Just (Rate bytes window) | elapsed >= nanoseconds 1000 -> do
    waited <- (+ fromIntegral (elapsed `quot` 1000)) <$> readByteArray words' index
    moved <- (+ acknowledged) <$> readByteArray words' (index + 1)
    when (waited >= window && moved < bytes) (throwIO (failed socket timedOut))
    writeByteArray words' index (if waited >= window then 0 else waited)
    writeByteArray words' (index + 1) (if waited >= window then 0 else moved)
  _ -> return ()

foreign import ccall unsafe "http_socket_queued"
  c_queued :: CInt -> IO Int64

queuedBytes :: Socket -> IO Int
queuedBytes socket = maybe 0 fromIntegral <$> whileOpen (socketHandle socket) c_queued
