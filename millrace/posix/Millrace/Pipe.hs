-- | Pipes, within this program and to others, and named pipes (FIFOs).
--
-- > main = do
-- >   (out, into) <- newPipe
-- >   _ <- forkIO (writePipe into "hello" >> closeWriteEnd into)
-- >   readPipe out 100 >>= print
--
-- Threads that wait occupy no operating system thread. All functions are interruptible, and throw an 'IOError' that
-- names the function and the pipe. The next 'readPipe' returns what an interrupted thread has read. Writing to a pipe
-- without readers fails with @EPIPE@, as GHC ignores the signal. Within "Millrace.Simulation" there are no pipes.
--
-- >>> (out, into) <- newPipe
-- >>> writePipe into "through the pipe"
-- >>> closeWriteEnd into
-- >>> readPipe out 100
-- "through the pipe"
-- >>> readPipe out 100
-- ""
-- >>> closeReadEnd out
module Millrace.Pipe
  ( -- * Pipes
    ReadEnd,
    WriteEnd,
    newPipe,
    withPipe,
    readPipe,
    readPipeBefore,
    writePipe,
    writePipeBefore,
    closeReadEnd,
    closeWriteEnd,
    setPipeCapacity,

    -- * Named pipes
    createFifo,
    openFifoForReading,
    openFifoForWriting,
    openFifoForWritingBefore,

    -- * Descriptors
    readEndFromDescriptor,
    writeEndFromDescriptor,
    readEndDescriptor,
    writeEndDescriptor,
  )
where

import Control.Exception (bracket, onException, throwIO, uninterruptibleMask_)
import Control.Monad (void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Foreign.C.Error (Errno (..), eNXIO)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (FunPtr, Ptr)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Directory (Permissions (..))
import Millrace.Internal.DescriptorTypes
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File (pathBytes)
import Millrace.Internal.FileJob
import Millrace.Internal.StreamDescriptor
import Millrace.Internal.Units (saturated)
import System.Posix.Types (Fd (..))

foreign import ccall unsafe "mrh_pipe" c_pipe :: Ptr CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_open_fifo" c_open_fifo :: CString -> CInt -> IO CInt

foreign import ccall unsafe "mrh_pipe_capacity" c_pipe_capacity :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_set_nonblocking" c_set_nonblocking :: CInt -> IO CInt

foreign import ccall "&mrh_do_mkfifo" c_mkfifo :: FunPtr Work

-- | Makes a pipe. Bytes that are written into the second end come out of the first. Programs that are started do not
-- inherit it. Close both ends.
newPipe :: IO (ReadEnd, WriteEnd)
newPipe = handOver (\(out, into) -> closeReadEnd out >> closeWriteEnd into) $
  allocaArray 2 $ \ends -> do
    refuseSimulation
    result <- c_pipe ends 1 1
    when (result < 0) $ throwIO (failure "Millrace.Pipe.newPipe" "a pipe" (Errno (negate result)))
    numbers <- peekArray 2 ends
    case numbers of
      [out, into] -> do
        readEnd <- newStreamDescriptor "pipe, to read from" out `onException` closeNumber into
        writeEnd <-
          newStreamDescriptor "pipe, to write to" into `onException` uninterruptibleMask_ (closeStream readEnd)
        return (ReadEnd readEnd, WriteEnd writeEnd)
      _ -> error "Millrace.Pipe.newPipe: two elements were asked for"

-- | Makes a pipe, and closes its ends when the action has ended.
withPipe :: (ReadEnd -> WriteEnd -> IO a) -> IO a
withPipe = bracket newPipe (\(out, into) -> closeReadEnd out >> closeWriteEnd into) . uncurry

-- | Waits for bytes, and reads at most the given number. Returns none when all writers have closed the pipe.
readPipe :: ReadEnd -> Int -> IO ByteString
readPipe = readPipeBefore noDeadline

-- | 'readPipe' with a deadline.
readPipeBefore :: Deadline -> ReadEnd -> Int -> IO ByteString
readPipeBefore deadline (ReadEnd stream) = readStream "Millrace.Pipe.readPipe" stream deadline

-- | Writes all bytes, and waits while the pipe is full. If it is interrupted or fails, a part of unknown size may have
-- been written.
writePipe :: WriteEnd -> ByteString -> IO ()
writePipe = writePipeBefore noDeadline

-- | 'writePipe' with a deadline.
writePipeBefore :: Deadline -> WriteEnd -> ByteString -> IO ()
writePipeBefore deadline (WriteEnd stream) = writeStream "Millrace.Pipe.writePipe" stream deadline

-- | Closes an end. Threads that wait for it end with @EBADF@. Closing it again does nothing.
closeReadEnd :: ReadEnd -> IO ()
closeReadEnd (ReadEnd stream) = closeStream stream

-- | Closes an end: when all writers have done so, readers come to the end of the stream.
closeWriteEnd :: WriteEnd -> IO ()
closeWriteEnd (WriteEnd stream) = closeStream stream

-- | Sets how many bytes the pipe holds, and returns how many it holds now (Linux rounds up). A new pipe holds 65536.
setPipeCapacity :: WriteEnd -> Int -> IO Int
setPipeCapacity (WriteEnd stream) bytes = do
  result <- callStream stream (`c_pipe_capacity` saturated bytes)
  when (result < 0) $ throwIO (failure "Millrace.Pipe.setPipeCapacity" (show stream) (Errno (negate result)))
  return (fromIntegral result)

-- | Makes a named pipe.
createFifo :: FilePath -> Permissions -> IO ()
createFifo path (Permissions bits) =
  void $ onPath "Millrace.Pipe.createFifo" path c_mkfifo [fromIntegral bits] (\result _ -> return result)

-- | Opens a named pipe for reading. Does not wait for a writer: until there is one, 'readPipe' finds the end of the
-- stream.
openFifoForReading :: FilePath -> IO ReadEnd
openFifoForReading path = handOver closeReadEnd $ do
  descriptor <-
    openFifo "Millrace.Pipe.openFifoForReading" path 0
      >>= either (throwIO . failure "Millrace.Pipe.openFifoForReading" path) return
  ReadEnd <$> newStreamDescriptor ("FIFO " ++ path ++ ", to read from") descriptor

-- | Opens a named pipe for writing. Waits for a reader: looks for one every 1 to 50 milliseconds.
openFifoForWriting :: FilePath -> IO WriteEnd
openFifoForWriting = openFifoForWritingBefore noDeadline

-- | 'openFifoForWriting' with a deadline.
openFifoForWritingBefore :: Deadline -> FilePath -> IO WriteEnd
openFifoForWritingBefore deadline path = handOver closeWriteEnd . askUntil deadline function path $ do
  result <- openFifo function path 1
  case result of
    Right descriptor -> Just . WriteEnd <$> newStreamDescriptor ("FIFO " ++ path ++ ", to write to") descriptor
    Left code | code == eNXIO -> return Nothing
    Left code -> throwIO (failure function path code)
  where
    function = "Millrace.Pipe.openFifoForWriting"

openFifo :: String -> FilePath -> CInt -> IO (Either Errno CInt)
openFifo function path forWriting = do
  refuseSimulation
  name <- pathBytes function path
  result <- ByteString.useAsCString name (`c_open_fifo` forWriting)
  return (if result < 0 then Left (Errno (negate result)) else Right result)

-- | Takes over the descriptor of a pipe, a terminal or another device: from now on only 'closeReadEnd' may close it. If
-- this function fails or is interrupted, it is closed. It is made non-blocking, which other programs that share it
-- notice.
readEndFromDescriptor :: Fd -> IO ReadEnd
readEndFromDescriptor fd =
  handOver closeReadEnd (ReadEnd <$> fromDescriptor "readEndFromDescriptor" "pipe, to read from" fd)

-- | Takes over a descriptor for writing. From now on only 'closeWriteEnd' may close it; see 'readEndFromDescriptor'.
writeEndFromDescriptor :: Fd -> IO WriteEnd
writeEndFromDescriptor fd =
  handOver closeWriteEnd (WriteEnd <$> fromDescriptor "writeEndFromDescriptor" "pipe, to write to" fd)

-- Call it masked. If the flags cannot be set, there is no descriptor with this number, and a later one with it would
-- belong to somebody else.
fromDescriptor :: String -> String -> Fd -> IO StreamDescriptor
fromDescriptor name what (Fd number) = do
  refuseSimulation
  result <- c_set_nonblocking number
  when (result < 0) $
    throwIO (failure ("Millrace.Pipe." ++ name) ("descriptor " ++ show number) (Errno (negate result)))
  newStreamDescriptor what number

-- | The descriptor's number, for programs that are started ('Millrace.Process.Descriptor'). It is valid until the end
-- is closed. Do not close it. It is non-blocking. A program that "Millrace.Process" starts gets it blocking.
readEndDescriptor :: ReadEnd -> Fd
readEndDescriptor (ReadEnd stream) = Fd (streamNumber stream)

-- | The number of the descriptor to write to; see 'readEndDescriptor'.
writeEndDescriptor :: WriteEnd -> Fd
writeEndDescriptor (WriteEnd stream) = Fd (streamNumber stream)
