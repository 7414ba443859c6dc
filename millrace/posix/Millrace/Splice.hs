-- | Moving bytes between any two descriptors: sockets, pipes, files, terminals, devices, the standard streams.
--
-- > forward client server = concurrently_ (one client server) (one server client)
-- >   where one from to = splice (FromSocket from) (ToSocket to) everything
--
-- Where the kernel can, it moves them itself, without a copy in the program: between a pipe and something else
-- (splice(2)). Where neither side is a pipe, 'splice' makes one. Transfers that the kernel refuses, for example with a
-- terminal, a character device, or a file that was opened to append, go through the program's memory. The functions
-- wait without occupying an operating system thread; helper threads wait for disks. They are interruptible, and throw
-- 'IOError' that names the function and the side that failed. Only on Linux. Within "Millrace.Simulation" they are
-- refused.
--
-- >>> import Millrace
-- >>> (client, here) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> (there, server) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> sendAll client "forward this" >> close client
-- >>> splice (FromSocket here) (ToSocket there) everything
-- 12
-- >>> recv server 100
-- "forward this"
module Millrace.Splice
  ( From (..),
    To (..),
    splice,
    spliceBefore,
    everything,
  )
where

import Control.Exception
  ( SomeException,
    allowInterrupt,
    bracket,
    catch,
    fromException,
    mask,
    mask_,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, eINVAL, eIO, eTIMEDOUT)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (FunPtr, Ptr, castPtr)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, hasPassed, noDeadline)
import Millrace.Internal.DescriptorTypes
import Millrace.Internal.Errors (failure, throwIfFailed)
import Millrace.Internal.File (File (..), Memory (..), useFile)
import Millrace.Internal.FileJob (Work, endingBeforeCaller, onFileUntil, refuseSimulation)
import Millrace.Internal.FileTransfer (readInto, writeToEnd)
import Millrace.Internal.Socket (Socket (..), keepBytes, keepsBytes)
import Millrace.Internal.StreamDescriptor
import Millrace.Operation (Handle, before, perform, waitReadableRequest, waitWritableRequest, whileOpen)
import Millrace.Pipe (closeReadEnd, closeWriteEnd, newPipe, setPipeCapacity)
import Millrace.Socket.ByteString (recvBefore)

foreign import ccall unsafe "mrh_read_plain" c_read :: CInt -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "mrh_splice" c_splice :: CInt -> CInt -> CSize -> IO Int64

foreign import ccall unsafe "mrh_write_plain" c_write :: CInt -> CString -> CSize -> IO Int64

foreign import ccall "&mrh_do_splice_from" c_splice_from :: FunPtr Work

foreign import ccall "&mrh_do_splice_to" c_splice_to :: FunPtr Work

-- | A source of bytes. Other descriptors that are read in order, such as devices, are a 'ReadEnd', too
-- ('Millrace.Pipe.readEndFromDescriptor').
data From
  = -- | a connection
    FromSocket !Socket
  | FromPipe !ReadEnd
  | -- | a file, from an offset on
    FromFile !File !Int64
  | FromTerminal !Terminal
  | -- | the terminal of a program that this one has started: what that program writes
    FromPseudoTerminal !PseudoTerminal
  | FromStandardInput
  deriving (Eq, Show)

-- | A target of bytes. Other descriptors are a 'WriteEnd', too ('Millrace.Pipe.writeEndFromDescriptor').
data To
  = -- | a connection
    ToSocket !Socket
  | ToPipe !WriteEnd
  | -- | a file, from an offset on, or at its end if it was opened to append
    ToFile !File !Int64
  | ToTerminal !Terminal
  | ToPseudoTerminal !PseudoTerminal
  | ToStandardOutput
  | ToStandardError
  deriving (Eq, Show)

-- | A number of bytes that no source reaches, so that 'splice' moves all.
everything :: Int64
everything = maxBound

-- | Moves bytes until the end of the source, at most the given number, and returns how many it moved. It does not shut
-- down or close either side.
--
-- If it is interrupted or fails, all bytes that have left a source other than a file and have not reached the other
-- side are given back: the next receive or read returns them. Nothing moves after it has thrown: an interrupted call
-- waits for a disk that has begun to work for it. How many bytes a failed target took is not known.
splice :: From -> To -> Int64 -> IO Int64
splice = spliceBefore noDeadline

-- | 'splice' with a deadline for all of it ('Millrace.Deadline.isDeadlineError'), also where nothing has to wait:
-- between pieces of at most 256 KiB it reads the clock. The deadline does not end a wait for a disk.
spliceBefore :: Deadline -> From -> To -> Int64 -> IO Int64
spliceBefore deadline from to most
  | most <= 0 = return 0
  | otherwise = do
    refuseSimulation
    requireOffsets from to
    kept <- moveKept deadline from to most
    byKernel <- if isForKernel from to then throughPipes kept else return (Refused kept)
    case byKernel of
      Ended total -> return total
      Refused done -> throughMemory done
  where
    throughPipes done = case (from, to) of
      (FromPipe _, _) -> throughPipe done
      (_, ToPipe _) -> throughPipe done
      _ -> throughOwnPipe done
    throughPipe done = untilEnd deadline from most done $ \position size ->
      unlessRefused from (move deadline (advanceFrom position from) (advanceTo position to) size)
    throughOwnPipe done = bracket newPipe (\(out, into) -> closeReadEnd out >> closeWriteEnd into) $ \(out, into) -> do
      void (setPipeCapacity into piece) `catch` ignore
      untilEnd
        deadline
        from
        most
        done
        (\position size -> unlessRefused from (relay deadline out into from to position size))
    throughMemory done =
      amount
        <$> untilEnd
          deadline
          from
          most
          done
          ( \position size ->
              Just
                <$> carry
                  deadline
                  (takeBytes deadline (advanceFrom position from))
                  from
                  (advanceTo position to)
                  (min 65536 size)
          )
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- The system takes some negative offsets for the file's position.
requireOffsets :: From -> To -> IO ()
requireOffsets from to = do
  case from of
    FromFile file offset -> unless (offset >= 0) (refuse file)
    _ -> return ()
  case to of
    ToFile file offset -> unless (offset >= 0) (refuse file)
    _ -> return ()
  where
    refuse file = throwIO (failure function (show file) eINVAL)

-- How many bytes were moved: all until the end, or those before the kernel refused to move more between these two.
data Progress = Ended !Int64 | Refused !Int64

amount :: Progress -> Int64
amount progress = case progress of
  Ended total -> total
  Refused total -> total

-- Whether the kernel may move the bytes. It can move them between a pipe and a terminal, but where other programs share
-- a descriptor, it could wait.
isForKernel :: From -> To -> Bool
isForKernel from to = isSource && isTarget
  where
    isSource = case from of
      FromTerminal _ -> False
      FromPseudoTerminal _ -> False
      FromStandardInput -> False
      _ -> True
    isTarget = case to of
      ToTerminal _ -> False
      ToPseudoTerminal _ -> False
      ToStandardOutput -> False
      ToStandardError -> False
      _ -> True

-- 'Nothing' if the kernel cannot move between such descriptors. For real mistakes there are the same errors when the
-- bytes go through memory. There the end of a terminal whose other side is closed is no error, either.
unlessRefused :: From -> IO Int -> IO (Maybe Int)
unlessRefused from step =
  (Just <$> step) `catch` \problem -> if isRefusal from problem then return Nothing else throwIO problem

isRefusal :: From -> IOException -> Bool
isRefusal from problem = case Errno <$> ioe_errno problem of
  Just code -> code == eINVAL || (code == eIO && isStream)
  Nothing -> False
  where
    isStream = case from of
      FromPipe _ -> True
      _ -> False

-- Bytes of a source in one step, as far as they fit into the pipe.
piece :: Int
piece = 262144

-- Repeats a step, which gets the position and how much it may move, until it has moved nothing or all, or cannot, or
-- the deadline has passed. Begins after this many bytes that have been moved.
untilEnd :: Deadline -> From -> Int64 -> Int64 -> (Int64 -> Int -> IO (Maybe Int)) -> IO Progress
untilEnd deadline from most begin step = go begin
  where
    go done
      | done >= most = return (Ended done)
      | otherwise =
        step done (fromIntegral (min (fromIntegral piece) (most - done))) >>= maybe (return (Refused done)) (goOn done)
    goOn done 0 = return (Ended done)
    goOn done count = do
      let now = done + fromIntegral count
      isLate <- if now < most then hasPassed deadline else return False
      when isLate $ throwIO (failure function (show from) eTIMEDOUT)
      go now

advanceFrom :: Int64 -> From -> From
advanceFrom count from = case from of
  FromFile file offset -> FromFile file (offset + count)
  _ -> from

advanceTo :: Int64 -> To -> To
advanceTo count to = case to of
  ToFile file offset -> ToFile file (offset + count)
  _ -> to

-- Bytes that an interrupted receive or read has left in the program cannot be spliced. So they are written.
moveKept :: Deadline -> From -> To -> Int64 -> IO Int64
moveKept deadline from to most = go 0
  where
    go done = do
      count <-
        if done < most
          then
            carry
              deadline
              takeKeptBytes
              from
              (advanceTo done to)
              (fromIntegral (min (fromIntegral piece) (most - done)))
          else return 0
      if count == 0 then return done else go (done + fromIntegral count)
    takeKeptBytes size = case from of
      FromSocket s -> keepsBytes s >>= \isKept -> if isKept then recvBefore deadline s size else return ByteString.empty
      _ -> maybe (return ByteString.empty) (`takeKept` size) (streamFrom from)

-- Moves at most this many bytes through the program's memory: reads them, and writes all. If that is interrupted or
-- fails, bytes that were not written go back to the source.
carry :: Deadline -> (Int -> IO ByteString) -> From -> To -> Int -> IO Int
carry deadline takeSome from to size = mask $ \restore -> do
  bytes <- takeSome size
  left <- newIORef bytes
  restore (putAll deadline to left) `catch` \problem -> do
    readIORef left >>= giveBack from
    throwIO (problem :: SomeException)
  return (ByteString.length bytes)

-- At most this many bytes, for which it waits; none at the end.
takeBytes :: Deadline -> From -> Int -> IO ByteString
takeBytes deadline from size = case from of
  FromSocket s -> recvBefore deadline s size
  FromFile file offset -> do
    memory <- mallocByteString size
    fromForeignPtr memory 0 <$> readInto function file offset memory size
  _ -> maybe (return ByteString.empty) (\stream -> readStream function stream deadline size) (streamFrom from)

-- The descriptor that is read in order and is no socket.
streamFrom :: From -> Maybe StreamDescriptor
streamFrom from = case from of
  FromSocket _ -> Nothing
  FromFile _ _ -> Nothing
  FromPipe (ReadEnd stream) -> Just stream
  FromTerminal (Terminal stream) -> Just stream
  FromPseudoTerminal (PseudoTerminal stream) -> Just stream
  FromStandardInput -> Just standardInput

-- Writes bytes, and records after each write which are left.
putAll :: Deadline -> To -> IORef ByteString -> IO ()
putAll deadline to left = case to of
  ToSocket s@(Socket handle _) -> go handle (show s) $ \start size ->
    whileOpen handle (\descriptor -> c_write descriptor start (fromIntegral size))
      >>= maybe (throwIO (failure function (show s) eBADF)) return
  ToPipe (WriteEnd stream) -> intoStream stream
  ToTerminal (Terminal stream) -> intoStream stream
  ToPseudoTerminal (PseudoTerminal stream) -> intoStream stream
  ToStandardOutput -> intoStream standardOutput
  ToStandardError -> intoStream standardError
  -- Masked, so that bytes that are in the file are not given back: they are forgotten before an exception is thrown.
  ToFile file offset -> mask_ $ do
    bytes <- readIORef left
    let forget = writeIORef left ByteString.empty
    unless (ByteString.null bytes) $ writeToEnd function file offset bytes forget >> forget
  where
    intoStream stream@(StreamDescriptor handle _ _ name) = go handle name (writeSome function stream . castPtr)
    go handle name write = do
      bytes <- readIORef left
      unless (ByteString.null bytes) $ do
        written <- mask_ $ do
          count <- unsafeUseAsCStringLen bytes (uncurry write)
          count <$ when (count > 0) (writeIORef left (ByteString.drop (fromIntegral count) bytes))
        if written >= 0
          then go handle name write
          else do
            let code = Errno (fromIntegral (negate written))
            unless (code == eAGAIN) $ throwIO (failure function name code)
            perform (before deadline (waitWritableRequest handle)) >>= throwIfFailed function name
            go handle name write

giveBack :: From -> ByteString -> IO ()
giveBack from bytes = unless (ByteString.null bytes) $ case from of
  FromSocket s -> keepBytes s bytes
  _ -> maybe (return ()) (`keepInStream` bytes) (streamFrom from)

-- Moves one piece into the pipe, and all of it out again. If that fails, the bytes in the pipe are put back. The first
-- step stays masked, so that no exception comes after bytes have entered the pipe and before their count is known; its
-- waits are interruptible. Bytes that the kernel has moved before it refuses the rest, such as the last bytes for a
-- file that was opened directly, count.
relay :: Deadline -> ReadEnd -> WriteEnd -> From -> To -> Int64 -> Int -> IO Int
relay deadline out into from to position size = mask $ \restore -> do
  count <- move deadline (advanceFrom position from) (ToPipe into) size
  moved <- newIORef 0
  let empty = do
        now <- readIORef moved
        when (now < count) $ do
          part <- mask_ $ do
            part <- move deadline (FromPipe out) (advanceTo (position + fromIntegral now) to) (count - now)
            part <$ writeIORef moved (now + part)
          when (part > 0) empty
  (count <$ restore empty) `catch` \problem -> do
    uninterruptibleMask_ (takeOut out >>= giveBack from)
    now <- readIORef moved
    if now > 0 && maybe False (isRefusal from) (fromException problem)
      then return now
      else throwIO (problem :: SomeException)

-- Reads all bytes of a pipe. Does not wait.
takeOut :: ReadEnd -> IO ByteString
takeOut (ReadEnd (StreamDescriptor handle _ _ _)) = ByteString.concat <$> go
  where
    go = do
      memory <- mallocByteString 65536
      count <- whileOpen handle (\descriptor -> withForeignPtr memory (\buffer -> c_read descriptor buffer 65536))
      case count of
        Just some | some > 0 -> (ByteString.copy (fromForeignPtr memory 0 (fromIntegral some)) :) <$> go
        _ -> return []

-- One call, one of whose sides is a pipe. Waits until it moves something, or the source is at its end.
move :: Deadline -> From -> To -> Int -> IO Int
move deadline from to size = case (from, to) of
  (FromFile file offset, ToPipe (WriteEnd pipe)) ->
    byHelper c_splice_from file offset pipe (waitFor waitWritableRequest (sideOf pipe))
  (FromPipe (ReadEnd pipe), ToFile file offset) ->
    byHelper c_splice_to file offset pipe (waitFor waitReadableRequest (sideOf pipe))
  (FromSocket s, ToPipe (WriteEnd pipe)) -> between (socketSide s) (sideOf pipe)
  (FromPipe (ReadEnd pipe), ToSocket s) -> between (sideOf pipe) (socketSide s)
  (FromPipe (ReadEnd one), ToPipe (WriteEnd other)) -> between (sideOf one) (sideOf other)
  _ -> error "Millrace.Splice: neither side is a pipe"
  where
    sideOf pipe@(StreamDescriptor handle _ _ _) = (handle, show pipe)
    socketSide s@(Socket handle _) = (handle, show s)
    waitFor request (handle, name) = perform (before deadline (request handle)) >>= throwIfFailed function name
    -- The kernel does not tell which side it would have to wait for.
    between source target = do
      result <- callOnBoth source target size
      case result of
        Right count -> return count
        Left code | code /= eAGAIN -> throwIO (failure function (snd source ++ " to " ++ snd target) code)
        Left _ -> do
          allowInterrupt
          waitFor waitReadableRequest source
          waitFor waitWritableRequest target
          between source target
    -- A helper waits for the disk, and this thread for the pipe.
    byHelper work file offset pipe wait = do
      result <- try (spliceByHelper work file offset pipe size)
      case result of
        Right count -> return count
        Left problem | fmap Errno (ioe_errno problem) == Just eAGAIN -> wait >> byHelper work file offset pipe wait
        Left problem -> throwIO problem

function :: String
function = "Millrace.Splice.splice"

callOnBoth :: (Handle, String) -> (Handle, String) -> Int -> IO (Either Errno Int)
callOnBoth (source, sourceName) (target, targetName) size = do
  result <- whileOpen source (\here -> whileOpen target (\there -> c_splice here there (fromIntegral size)))
  case result of
    Nothing -> throwIO (failure function sourceName eBADF)
    Just Nothing -> throwIO (failure function targetName eBADF)
    Just (Just moved)
      | moved >= 0 -> return (Right (fromIntegral moved))
      | otherwise -> return (Left (Errno (fromIntegral (negate moved))))

-- File and pipe stay open until the helper has finished. An interrupted caller waits for that, too. Then bytes that the
-- helper has moved are in the target, and all others still in the source.
spliceByHelper :: FunPtr Work -> File -> Int64 -> StreamDescriptor -> Int -> IO Int
spliceByHelper work file offset pipe@(StreamDescriptor handle _ _ _) size = mask_ $
  useFile function (File handle (show pipe) ThroughMemory) $ \descriptor release ->
    onFileUntil
      (endingBeforeCaller (\_ -> return ()) release)
      function
      file
      work
      [offset, fromIntegral descriptor, fromIntegral size]
      Nothing
      (\count _ -> return (fromIntegral count))
