-- Must not know: protocols.

-- |
-- Where the bytes of a body come from: open files, and the code of an application that streams a body or has taken a
-- stream over.
module Millrace.Http.Answer.Body
  ( readSlice,
    readPiece,
    sendingFile,
    requireAll,
    descriptorOf,

    -- * Streams
    Sink (..),
    runStreamingBody,
    runRawBody,
  )
where

import Control.Concurrent.MVar (newMVar, putMVar, takeMVar, withMVar)
import Control.Exception (SomeException, catch, finally, throwIO, toException, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder)
import qualified Data.ByteString.Internal as BI
import Data.IORef
import Data.Word (Word8)
import Foreign.C.Error (Errno (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Http.Exception (InvalidResponse (..), isAsynchronous)
import Millrace.Http.Exchange (Answerer (..), Detached (..), FileSlice (..), RawBody)
import Millrace.Http.FileCache (fileError)
import Millrace.Http.Transport (isErrorOfFile, readFileAt)
import Network.Wai (StreamingBody)
import System.Posix.Types (Fd (..))

-- | Reads all of a slice to an address. Throws if the file ends before it, or an @IOError@.
readSlice :: FileSlice -> Ptr Word8 -> IO ()
readSlice slice target = do
  result <- readFileAt (descriptorOf slice) target (fromIntegral (sliceLength slice)) (sliceOffset slice)
  when (result /= fromIntegral (sliceLength slice)) (throwIO (unread slice result))

-- | @readPiece slice offset count@ reads up to this many bytes at an offset in the file. Throws if there are none,
-- because the length of the body was announced.
readPiece :: FileSlice -> Integer -> Int -> IO ByteString
readPiece slice offset count = BI.createUptoN count $ \target -> do
  result <- readFileAt (descriptorOf slice) target count (fromInteger offset)
  if result <= 0 then throwIO (unread slice result) else return result

-- | Throws if a slice does not end within its file. Reads the last byte, because some files, such as those in /proc, do
-- not tell their size.
requireAll :: FileSlice -> IO ()
requireAll slice = when (sliceLength slice > 0) $ do
  result <- allocaBytes 1 $ \target ->
    readFileAt (descriptorOf slice) target 1 (sliceOffset slice + sliceLength slice - 1)
  when (result /= 1) (throwIO (unread slice result))

-- | Runs an action that sends a slice. An error of the file is reported as such, and not as an error of the client.
sendingFile :: FileSlice -> IO a -> IO a
sendingFile slice send =
  send `catch` \failure -> throwIO $ case Errno <$> ioe_errno failure of
    Just number | isErrorOfFile number -> fileError (slicePath slice) number
    _ -> failure

-- | The file's descriptor. The slice only borrows it.
descriptorOf :: FileSlice -> Fd
descriptorOf = Fd . fromIntegral . sliceDescriptor

-- The exception for a read that returned too few bytes, or a negative errno.
unread :: FileSlice -> Int -> SomeException
unread slice result
  | result < 0 = toException (fileError (slicePath slice) (Errno (fromIntegral (negate result))))
  | otherwise = toException (FileTruncated (slicePath slice))

------------------------------------------------------------------------------------------------------------------------
-- Streams: the application may hand the writing actions to other threads and may keep them for too long. Writes are
-- whole, and late ones fail.

-- | Where a stream goes.
data Sink = Sink
  { sinkWrite :: Builder -> IO (),
    sinkFlush :: IO (),
    -- | Called when an asynchronous exception has interrupted one of the other two, and the sink must find out whether
    -- part of the body is missing.
    sinkInterrupted :: IO ()
  }

-- | Runs a streaming body: see 'guarding'.
runStreamingBody :: Answerer -> Sink -> StreamingBody -> IO ()
runStreamingBody answerer sink body = guarding answerer (sinkInterrupted sink) $ \guarded ->
  body (guarded . sinkWrite sink) (guarded (sinkFlush sink))

-- | @runRawBody answerer receive send body@ runs a raw body: see 'guarding'. Any thread may receive at any time.
runRawBody :: Answerer -> IO ByteString -> (ByteString -> IO ()) -> RawBody -> IO ()
runRawBody answerer receive send body = guarding answerer (return ()) (\guarded -> body receive (guarded . send))

-- Runs the application's code with a function for the actions that write. @interrupted@ is called when an asynchronous
-- exception has interrupted such an action. Returns when the application's code has returned, and then no such action
-- has an effect any more. Throws 'UsedTooLate' if the application returned before another of its threads finished the
-- stream.
guarding :: Answerer -> IO () -> ((IO () -> IO ()) -> IO ()) -> IO ()
guarding answerer interrupted run = do
  isOver <- newIORef False
  lock <- case answerer of
    OwnThread -> newMVar ()
    OtherThread detached -> detachedHold detached <$ putMVar (detachedHold detached) ()
  let guarded action = withMVar lock $ \_ -> do
        late <- (||) <$> readIORef isOver <*> isPast
        when late (throwIO UsedTooLate)
        action `catch` \failure -> do
          when (isAsynchronous failure) interrupted
          throwIO (failure :: SomeException)
      -- The hold of another thread stays empty: that thread works on the exchange again.
      close = uninterruptibleMask_ $ do
        takeMVar lock
        writeIORef isOver True
        case answerer of
          OwnThread -> putMVar lock ()
          OtherThread _ -> return ()
  run guarded `finally` close
  past <- isPast
  when past (throwIO UsedTooLate)
  where
    isPast = case answerer of
      OwnThread -> return False
      OtherThread detached -> detachedIsPast detached
