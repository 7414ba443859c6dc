-- | Reading and writing files through a buffer, for programs that work line by line.
--
-- > main = withFile "log" ForReading $ \file -> do
-- >   reader <- newReader file 0
-- >   let go = readLine reader 65536 >>= mapM_ (\line -> handle line >> go)
-- >   go
--
-- Each reader and each writer has its own position, so a file can have several. Threads can share one. A function that
-- throws or is interrupted leaves the reader or writer as it was: nothing is skipped, and nothing is written twice at
-- different offsets. (If another thread uses the same reader meanwhile, it gets the bytes that the interrupted thread
-- would have got. Bytes that an interrupted writer has already handed over stay.) They wait as "Millrace.File" does,
-- and throw its errors. In "Millrace.Simulation" they work on the simulated machine.
--
-- >>> import Millrace.File
-- >>> let write writer = mapM_ (writeLine writer) ["one", "two", "three"]
-- >>> withFile "lines" ForWriting (\file -> withWriter file 0 write)
-- >>> file <- openFile "lines" ForReading
-- >>> reader <- newReader file 4
-- >>> (,) <$> readLine reader 80 <*> readLine reader 80
-- (Just "two",Just "three")
-- >>> readLine reader 80
-- Nothing
-- >>> closeFile file >> removeFile "lines"
module Millrace.File.Buffered
  ( -- * Reading
    Reader,
    newReader,
    readLine,
    skipLine,
    readBytes,
    readerOffset,
    TooLong (..),

    -- * Writing
    Writer,
    newWriter,
    withWriter,
    writeBytes,
    writeLine,
    flush,
    writerOffset,
  )
where

import Control.Concurrent.MVar (MVar, modifyMVar, modifyMVar_, newMVar, readMVar)
import Control.Exception (throwIO, uninterruptibleMask_)
import Control.Monad (join, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Millrace.File (File, readAt, writeAt)
import Millrace.Internal.Park (handOver)
import Millrace.Stream (TooLong (..))

-- | Reads a file from a position on.
data Reader = Reader !File !(MVar Ahead)

-- Bytes that were read ahead, and the offset after them.
data Ahead = Ahead !ByteString !Int64

instance Show Reader where
  showsPrec _ (Reader file _) = showString "<reader of " . shows file . showChar '>'

-- | A reader of a file, from an offset on. It reads ahead, 64 KiB at a time. It need not be closed; the file must stay
-- open as long as it is used. Does not block.
newReader :: File -> Int64 -> IO Reader
newReader file offset = Reader file <$> newMVar (Ahead ByteString.empty offset)

-- | The next line, without its end (@\\n@ or @\\r\\n@). 'Nothing' is the end of the file for now: if the file grows,
-- the next call finds more. The last line need not have an end. A line of more bytes than the second argument is
-- 'TooLong'; the reader then stays before it, and 'skipLine' passes over it. Memory never holds more than that number
-- of bytes and 64 KiB.
readLine :: Reader -> Int -> IO (Maybe ByteString)
readLine (Reader file state) most = taking state $ \begin -> do
  (after, found) <- findEnd file (\size -> refuse (size - 1)) begin -- a byte of it may still be of its end
  let line = withoutReturn <$> found
      taken =
        ByteString.take
          (fromIntegral (position after - position begin))
          (maybe ByteString.empty (`Char8.snoc` '\n') found)
  mapM_ (refuse . ByteString.length) line
  return (after, backTo begin after taken, line)
  where
    refuse size = when (size > most) $ throwIO (TooLong "line" most)
    withoutReturn line
      | not (ByteString.null line) && Char8.last line == '\r' = ByteString.init line
      | otherwise = line

-- The line that begins here, and the state after it. The check gets the number of bytes without an end until now.
findEnd :: File -> (Int -> IO ()) -> Ahead -> IO (Ahead, Maybe ByteString)
findEnd file check = go [] 0
  where
    go parts size (Ahead bytes next) = case Char8.elemIndex '\n' bytes of
      Just at -> do
        check (size + at)
        return (Ahead (ByteString.drop (at + 1) bytes) next, Just (joined (ByteString.take at bytes : parts)))
      Nothing -> do
        let sizeNow = size + ByteString.length bytes
        check sizeNow
        more <- readAt file next aheadBytes
        if ByteString.null more
          then return (Ahead ByteString.empty next, if sizeNow == 0 then Nothing else Just (joined (bytes : parts)))
          else go (bytes : parts) sizeNow (Ahead more (next + fromIntegral (ByteString.length more)))
    joined = ByteString.concat . reverse

aheadBytes :: Int
aheadBytes = 65536

-- | Passes over the next line, however long it is, without keeping it in memory. Returns 'False' if there was none.
skipLine :: Reader -> IO Bool
skipLine (Reader file state) = taking state $ \begin -> do
  (after, found) <- go False begin
  return (after, backTo begin after ByteString.empty, found)
  where
    go seen (Ahead bytes next) = case Char8.elemIndex '\n' bytes of
      Just at -> return (Ahead (ByteString.drop (at + 1) bytes) next, True)
      Nothing -> do
        more <- readAt file next aheadBytes
        let something = seen || not (ByteString.null bytes)
        if ByteString.null more
          then return (Ahead ByteString.empty next, something)
          else go something (Ahead more (next + fromIntegral (ByteString.length more)))

-- | The next bytes, at most the given number; none at the end of the file. It may return fewer before the end. The
-- number must be positive.
readBytes :: Reader -> Int -> IO ByteString
readBytes (Reader file state) most = taking state $ \begin@(Ahead bytes next) ->
  if ByteString.null bytes
    then do
      more <- readAt file next (if most > 0 then max most aheadBytes else most)
      return (split begin more (next + fromIntegral (ByteString.length more)))
    else return (split begin bytes next)
  where
    split begin bytes next =
      let (now, later) = ByteString.splitAt most bytes
          after = Ahead later next
       in (after, backTo begin after now, now)

position :: Ahead -> Int64
position (Ahead bytes next) = next - fromIntegral (ByteString.length bytes)

-- | @backTo begin after taken now@ undoes a step from one state to another. If another thread has taken more meanwhile,
-- the next call returns the bytes that the step took.
backTo :: Ahead -> Ahead -> ByteString -> Ahead -> Ahead
backTo begin after taken now@(Ahead bytes next)
  | position now == position after = begin
  | otherwise = Ahead (taken <> bytes) next

-- | Runs a step from one state to the next one. The step also returns how to undo it, and is undone if an exception
-- comes before its result. The step is masked, and interruptible where it waits.
taking :: MVar s -> (s -> IO (s, s -> s, a)) -> IO a
taking state step = do
  undo <- newIORef (return ())
  handOver (\_ -> join (readIORef undo)) . modifyMVar state $ \begin -> do
    (after, undone, result) <- step begin
    writeIORef undo (uninterruptibleMask_ (modifyMVar_ state (return . undone)))
    return (after, result)

-- | Where the next byte is in the file.
readerOffset :: Reader -> IO Int64
readerOffset (Reader _ state) = position <$> readMVar state

-- | Writes into a file from a position on.
data Writer = Writer !File !(MVar Behind)

-- The offset of the next byte in the file; the pieces that wait to be written there, the last one first; and the number
-- of their bytes.
data Behind = Behind !Int64 [ByteString] !Int

instance Show Writer where
  showsPrec _ (Writer file _) = showString "<writer of " . shows file . showChar '>'

-- | A writer into a file, from an offset on. 'flush' it before the file is closed: otherwise the bytes in its buffer
-- are lost. Does not block.
newWriter :: File -> Int64 -> IO Writer
newWriter file offset = Writer file <$> newMVar (Behind offset [] 0)

-- | Makes a writer for the time of an action. It is flushed when the action has returned, but not if the action throws.
withWriter :: File -> Int64 -> (Writer -> IO a) -> IO a
withWriter file offset action = do
  writer <- newWriter file offset
  result <- action writer
  result <$ flush writer

-- | Writes bytes once 64 KiB have come together, and waits for the file then. If it is interrupted or fails, these
-- bytes do not count as written: write them again.
writeBytes :: Writer -> ByteString -> IO ()
writeBytes (Writer file state) bytes = taking state $ \begin@(Behind offset pieces size) -> do
  let sizeNow = size + ByteString.length bytes
      now = Behind offset (bytes : pieces) sizeNow
  after <- if sizeNow >= aheadBytes then writeOut file now else return now
  return (after, \latest -> if ending latest == ending after then begin else latest, ())

ending :: Behind -> Int64
ending (Behind offset _ size) = offset + fromIntegral size

-- | Writes a line and its end (@\\n@).
writeLine :: Writer -> ByteString -> IO ()
writeLine writer line = writeBytes writer (Char8.snoc line '\n')

-- | Writes all bytes of the buffer. They are in the file then; 'Millrace.File.sync' brings it to the disk.
flush :: Writer -> IO ()
flush (Writer file state) = modifyMVar_ state (writeOut file)

-- If it is interrupted, the same bytes are written to the same offset the next time.
writeOut :: File -> Behind -> IO Behind
writeOut file (Behind offset pieces size) = do
  unless (size == 0) $ writeAt file offset (ByteString.concat (reverse pieces))
  return (Behind (offset + fromIntegral size) [] 0)

-- | Where the next byte will be in the file, whether those before it have been written or wait.
writerOffset :: Writer -> IO Int64
writerOffset (Writer _ state) = ending <$> readMVar state
