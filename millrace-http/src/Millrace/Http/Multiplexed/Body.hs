-- Must not know: responses.

-- |
-- The body of a request of HTTP\/2 or HTTP\/3, which is read when the application asks for it.
--
-- An application may use the reader in another thread, and keep it after it has returned. So reading happens under a
-- lock. At the end of the request the reader is disabled under the same lock, and never touches the stream again.
module Millrace.Http.Multiplexed.Body (BodyReader, newBodyReader, readBody, liftLimits, endBody, abandonBody) where

import Control.Concurrent.MVar (MVar, modifyMVar, newMVar, putMVar, takeMVar)
import Control.Exception (SomeException, mask_, throwIO, toException, try, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as BI
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (nullPtr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Exception
import Millrace.Http.Field (readField, writeField)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Rows (Event (..), ReadResult (..))
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Server.Limits (Limits (..), Rate (..))
import Millrace.Http.Threads (Waited (..))

-- | The body of one request, and the action that sends 100 (Continue).
data BodyReader = BodyReader !Stream !(IO ()) !(MVar BodyState)

data BodyState
  = -- | The microseconds that the client has left for the next bytes, and how many of these bytes have arrived.
    Open !Int !Int
  | Finished
  | Failed SomeException

-- | The body of a request, and the action that sends 100 (Continue).
newBodyReader :: Stream -> IO () -> IO BodyReader
newBodyReader stream begin = BodyReader stream begin <$> newMVar (Open micros 0)
  where
    Rate _ micros = bodyRate (limitsFor stream)

-- | The next piece of the body, empty at its end. Parks until some of it has arrived. Throws 'ConnectionClosedByPeer'
-- if the client has reset the stream or is gone, 'RequestTimedOut' if it is too slow, and 'PayloadTooLarge'. Later
-- calls throw the same again.
readBody :: BodyReader -> IO ByteString
readBody reader@(BodyReader _ _ variable) = mask_ $ do
  result <- modifyMVar variable $ \state -> case state of
    Finished -> return (Finished, Right B.empty)
    Failed reason -> return (state, Left reason)
    Open budget progress -> do
      outcome <- try (step reader budget progress)
      case outcome of
        Right (next, bytes) -> return (next, Right bytes)
        Left failure
          | isAsynchronous failure -> throwIO failure
          | otherwise -> return (Failed failure, Left failure)
  either throwIO return result

-- The largest piece in bytes.
pieceMax :: Int
pieceMax = 32768

step :: BodyReader -> Int -> Int -> IO (BodyState, ByteString)
step (BodyReader stream begin _) budget progress = do
  unread <- Engine.streamUnread (streamEngine stream)
  if unread > 0 then takePiece unread budget progress else await
  where
    limits = limitsFor stream
    Rate windowBytes windowMicros = bodyRate limits
    takePiece unread left come = do
      received <- Engine.streamReceived (streamEngine stream)
      when (received > bodyBytesMax limits) (throwIO PayloadTooLarge)
      let size = min pieceMax unread
      memory <- mallocPlainForeignPtrBytes size
      result <- readOf stream (unsafeForeignPtrToPtr memory) size
      touchForeignPtr memory
      case result of
        Bytes count
          | come + count >= windowBytes -> return (Open windowMicros 0, BI.fromForeignPtr memory 0 count)
          | otherwise -> return (Open left (come + count), BI.fromForeignPtr memory 0 count)
        _ -> broken
    broken = do
      over <- (== Over) <$> readField (stateOf stream) reading
      if over then throwIO UsedTooLate else tellLossOf stream >> throwIO ConnectionClosedByPeer
    await = do
      begin
      before' <- monotonicNanoseconds
      limited <- readField (stateOf stream) reading
      total <- remainingMicros (stateOf stream)
      let limit =
            if limited == WithoutTimeLimits
              then total
              else
                shorter
                  total
                  (shorter (limitOf (bodyMicros limits)) (if windowMicros > 0 then Just (max 1 budget) else Nothing))
      outcome <- awaitEvent stream Readable limit arrived
      after' <- monotonicNanoseconds
      case outcome of
        TookTooLong -> throwIO RequestTimedOut
        Came Nothing -> return (Finished, B.empty)
        Came (Just unread) -> takePiece unread (budget - fromIntegral ((after' - before') `quot` 1000)) progress
    -- Reading 0 bytes shows whether there are any.
    arrived = do
      result <- readOf stream nullPtr 0
      case result of
        MustWait -> return Nothing
        Broken -> broken
        Bytes _ -> do
          unread <- Engine.streamUnread (streamEngine stream)
          return (Just (if unread > 0 then Just unread else Nothing))

-- | Lifts the time limits of the body.
liftLimits :: StreamState -> IO ()
liftLimits state = writeField state reading WithoutTimeLimits

-- | Ends the body with its request: later uses of the reader throw 'UsedTooLate'. Another thread of the application
-- that waits for more gets the end of the body.
endBody :: BodyReader -> IO ()
endBody body@(BodyReader stream _ _) = writeField (stateOf stream) reading Over >> abandonBody body

-- | Ends the body when an exception ends the request. A thread that waits for more gets 'ConnectionClosedByPeer'.
abandonBody :: BodyReader -> IO ()
abandonBody (BodyReader stream _ variable) = uninterruptibleMask_ $ do
  Engine.endReading (streamEngine stream)
  wakeOf stream
  _ <- takeMVar variable
  putMVar variable (Failed (toException UsedTooLate))
