-- | Streams of bytes: the few functions that connect sockets, files, pipes and processes.
--
-- > sendWhole path s = withFile path ForReading $ \file -> fromFile file 0 >>= \source -> copy source (toSocket s)
--
-- A source is an action that returns the next piece, and an empty one at the end. A sink is an action that takes a
-- piece, and returns when it can take another one. So a transfer needs memory for one piece only: a slow sink holds up
-- its source (back-pressure). Deadlines and cancellation are those of the actions.
--
-- >>> pieces <- fromPieces ["one\ntw", "o\n", "three"]
-- >>> linesOf 100 pieces >>= collect
-- ["one","two","three"]
module Millrace.Stream
  ( -- * Sources and sinks
    Source,
    Sink,
    fromPieces,
    fromSocket,
    toSocket,
    fromFile,
    toFile,

    -- * Connecting
    copy,
    copyReporting,
    tee,
    counting,
    atMost,
    concurrently,

    -- * Cutting
    TooLong (..),
    EndsWithin (..),
    linesOf,
    Line (..),
    cutLinesOf,
    Framing (..),
    framesOf,
    frame,
    exactly,
    takingFrom,
    linesAndBytes,
    collect,
    whole,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Concurrent.STM
import Control.Exception (Exception (..), SomeException, bracket, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (join, unless, when)
import Data.Bits (shiftL, shiftR, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Millrace.File (File, readAt, writeAt)
import Millrace.Internal.Park (handOver)
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (recv, sendAll)

-- | The next piece; an empty one at the end, and from then on.
type Source = IO ByteString

-- | Takes a piece, which is not empty.
type Sink = ByteString -> IO ()

-- | A source of these pieces. It leaves out empty ones.
fromPieces :: [ByteString] -> IO Source
fromPieces pieces = do
  left <- newIORef (filter (not . ByteString.null) pieces)
  return . taking left $ \takeUntil -> readIORef left >>= takeFirst takeUntil
  where
    takeFirst takeUntil (piece : others) = piece <$ takeUntil others
    takeFirst _ [] = return ByteString.empty

-- | Receives from a socket, in pieces of at most 64 KiB. A client that sends nothing occupies no buffer.
fromSocket :: Socket -> Source
fromSocket s = recv s 65536

-- | Sends each piece to a socket.
toSocket :: Socket -> Sink
toSocket = sendAll

-- | Reads a file from an offset on, in pieces of at most 256 KiB. The source is for one reader.
fromFile :: File -> Int64 -> IO Source
fromFile file begin = do
  position <- newIORef begin
  return . taking position $ \takeUntil -> do
    offset <- readIORef position
    bytes <- readAt file offset 262144
    bytes <$ takeUntil (offset + fromIntegral (ByteString.length bytes))

-- | Writes into a file from an offset on. The sink is for one writer.
toFile :: File -> Int64 -> IO Sink
toFile file begin = do
  position <- newIORef begin
  return $ \bytes -> do
    offset <- readIORef position
    writeAt file offset bytes
    writeIORef position (offset + fromIntegral (ByteString.length bytes))

-- | Moves everything from a source to a sink, and returns how many bytes that were. If it is interrupted, or the sink
-- throws, the piece in flight is lost: it has left the source, and the sink may have taken a part of it.
copy :: Source -> Sink -> IO Word64
copy source sink = copyReporting source sink (\_ -> return ())

-- | Moves everything from a source to a sink, as 'copy' does. After each piece, an action gets the number of bytes that
-- have been moved.
copyReporting :: Source -> Sink -> (Word64 -> IO ()) -> IO Word64
copyReporting source sink report = go 0
  where
    go count = do
      piece <- source
      if ByteString.null piece
        then return count
        else do
          sink piece
          let now = count + fromIntegral (ByteString.length piece)
          report now
          go $! now

-- | A sink that gives each piece to two sinks, one after the other.
tee :: Sink -> Sink -> Sink
tee one other piece = one piece >> other piece

-- | Counts the bytes of a source. Returns a source of the same bytes, and an action that returns how many of them it
-- has given out. If the source is interrupted, no byte is lost. The source runs masked, and is interruptible where it
-- waits.
counting :: Source -> IO (Source, IO Word64)
counting source = do
  count <- newIORef 0
  counted <- changing source (\piece -> piece <$ modifyIORef' count (+ fromIntegral (ByteString.length piece)))
  return (counted, readIORef count)

-- | The first bytes of a source, at most the given number. It reads no further piece; the rest of the last piece is
-- lost. Interruptions lose nothing, as with 'counting'.
atMost :: Word64 -> Source -> IO Source
atMost limit source = do
  left <- newIORef limit
  changing (readIORef left >>= \now -> if now == 0 then return ByteString.empty else source) $ \whole' -> do
    now <- readIORef left
    let piece = ByteString.take (fromIntegral (min now (fromIntegral (maxBound :: Int)))) whole'
    piece <$ writeIORef left (now - fromIntegral (ByteString.length piece))

-- A source that applies an action to each piece of another one. If an exception comes before the caller has a piece,
-- the next call returns it.
changing :: Source -> (ByteString -> IO ByteString) -> IO Source
changing source change = do
  late <- newIORef Nothing
  return . handOver (writeIORef late . Just) $ do
    kept <- readIORef late
    writeIORef late Nothing
    maybe (source >>= change) return kept

-- | @concurrently pieces source use@ reads a source ahead in a new thread, by at most @pieces@ pieces, while @use@
-- takes them. The next read throws an exception of the source. The thread ends with @use@.
concurrently :: Int -> Source -> (Source -> IO a) -> IO a
concurrently pieces source use = do
  queue <- newTBQueueIO (fromIntegral (max 1 pieces))
  isOver <- newTVarIO False
  bracket
    (forkIOWithUnmask (\unmask -> fill (unmask source) (offer isOver queue)))
    (\thread -> atomically (writeTVar isOver True) >> killThread thread)
    (\_ -> use (takeFrom queue))
  where
    -- Call it masked. If an exception comes while the queue is full, it follows the piece that waits for the queue.
    fill next hand = do
      outcome <- try next :: IO (Either SomeException ByteString)
      handed <- try (hand outcome)
      case handed of
        Left problem -> uninterruptibleMask_ (hand outcome >> hand (Left problem))
        Right () -> unless (either (const True) ByteString.null outcome) (fill next hand)
    -- Does not wait once no thread takes pieces any more. The thread is killed only then.
    offer isOver queue outcome = atomically $ do
      over <- readTVar isOver
      unless over (writeTBQueue queue outcome)
    -- The end and a failure stay in the queue, so that later calls find them again.
    takeFrom queue = do
      outcome <- atomically $ do
        next <- readTBQueue queue
        when (either (const True) ByteString.null next) (unGetTBQueue queue next)
        return next
      either throwIO return outcome

-- | Something was longer than its limit. It names both.
data TooLong = TooLong !String !Int
  deriving (Eq)

instance Show TooLong where
  showsPrec _ (TooLong what limit) =
    showString
      ("Millrace.Stream: a " ++ what ++ " is longer than " ++ show limit ++ " bytes; allow more, or refuse the sender")

instance Exception TooLong

-- | A stream has ended within something: it names that, how many bytes were expected, and how many have come.
data EndsWithin = EndsWithin !String !Int !Int
  deriving (Eq)

instance Show EndsWithin where
  showsPrec _ (EndsWithin what expected came) =
    showString
      ( "Millrace.Stream: the stream ends after "
          ++ show came
          ++ " of the "
          ++ show expected
          ++ " bytes of a "
          ++ what
          ++ "; perhaps the sender has failed"
      )

instance Exception EndsWithin

-- | The lines of a source, without their ends (@\\n@ or @\\r\\n@): an action that returns the next one. 'Nothing' is
-- the end; the last line need not have an end. A line may have as many bytes as the first argument says. As soon as one
-- byte more has come, the action throws 'TooLong', without waiting for the end of the line; so does every later call.
-- Of a longer line, it has taken no more from the source than the piece with that byte.
--
-- If the action is interrupted, or the source throws, the next call continues: no byte is lost. The source runs masked,
-- and is interruptible where it waits. What came behind a line in the same piece is kept for the next one, and other
-- readers of the source do not get it.
--
-- >>> next <- fromPieces ["a\r\nb\n\nc"] >>= linesOf 80
-- >>> collect next
-- ["a","b","","c"]
-- >>> endless <- fromPieces (repeat "123") >>= linesOf 5
-- >>> endless
-- *** Exception: Millrace.Stream: a line is longer than 5 bytes; allow more, or refuse the sender
linesOf :: Int -> Source -> IO (IO (Maybe ByteString))
linesOf most source = do
  state <- newIORef emptyLine
  return (takeLine state most source)

takeLine :: IORef LineState -> Int -> Source -> IO (Maybe ByteString)
takeLine state most source = taking state $ \takeUntil ->
  nextLine most source state $ \length' line after ->
    if length' == WithinLimit then line <$ takeUntil after else throwIO (TooLong "line" most)

-- | A line, or the beginning of one that is longer than allowed.
data Line
  = WholeLine !ByteString
  | CutLine !ByteString
  deriving (Eq, Show)

-- | 'linesOf' for conversations that a line which is too long must not end: of such a line this returns the first
-- bytes, as soon as one more has come. It skips the others, and goes on with the next line.
--
-- >>> next <- fromPieces ["one\nlong", "er\ntwo"] >>= cutLinesOf 3
-- >>> collect next
-- [WholeLine "one",CutLine "lon",WholeLine "two"]
cutLinesOf :: Int -> Source -> IO (IO (Maybe Line))
cutLinesOf most source = do
  state <- newIORef emptyLine
  return . taking state $ \takeUntil ->
    nextLine most source state $ \length' line after -> do
      let found = if length' == WithinLimit then WholeLine line else CutLine (ByteString.take most line)
      found <$ takeUntil after

data LineState
  = -- A line that has begun: its parts without an end, the last one first, and how long they are; and bytes that were
    -- not searched yet.
    PartialLine [ByteString] !Int !ByteString
  | -- A line whose beginning was returned; and bytes that may be its rest.
    SkippedLine !ByteString

emptyLine :: LineState
emptyLine = PartialLine [] 0 ByteString.empty

data LineLength = WithinLimit | BeyondLimit
  deriving (Eq)

-- Finds the next line, and passes it with the state after it; of a line that is too long, what has come of it.
nextLine :: Int -> Source -> IORef LineState -> (LineLength -> ByteString -> LineState -> IO a) -> IO (Maybe a)
nextLine most source state found = readIORef state >>= go
  where
    go (SkippedLine bytes) = case Char8.elemIndex '\n' bytes of
      Just at -> continue (PartialLine [] 0 (ByteString.drop (at + 1) bytes))
      Nothing -> do
        piece <- source
        if ByteString.null piece then return Nothing else continue (SkippedLine piece)
    go (PartialLine parts size bytes) = case Char8.elemIndex '\n' bytes of
      Just at -> do
        let line = withoutReturn (joined (ByteString.take at bytes : parts))
        whole' line (PartialLine [] 0 (ByteString.drop (at + 1) bytes))
      Nothing -> do
        let searched = if ByteString.null bytes then parts else bytes : parts
            sizeNow = size + ByteString.length bytes
            -- One more byte may be the first one of the line's end.
            endMayCome = sizeNow - 1 == most && any (ByteString.isSuffixOf return') (take 1 searched)
        if sizeNow > most && not endMayCome
          then Just <$> found BeyondLimit (joined searched) (SkippedLine ByteString.empty)
          else do
            piece <- source
            if ByteString.null piece then atEnd searched sizeNow else continue (PartialLine searched sizeNow piece)
    continue begun = writeIORef state begun >> go begun
    atEnd parts size
      | size == 0 = return Nothing
      | otherwise = whole' (joined parts) emptyLine
    whole' line = fmap Just . found (if ByteString.length line > most then BeyondLimit else WithinLimit) line
    joined = ByteString.concat . reverse
    withoutReturn line = fromMaybe line (ByteString.stripSuffix return' line)
    return' = Char8.singleton '\r'

-- Runs an action that changes a state at last, by the function that it gets. If an exception comes before the caller
-- has the result, that change is undone.
taking :: IORef s -> ((s -> IO ()) -> IO a) -> IO a
taking state action = do
  undo <- newIORef (return ())
  handOver (\_ -> join (readIORef undo)) . action $ \after -> do
    before <- readIORef state
    writeIORef undo (writeIORef state before)
    writeIORef state after

-- | How a frame encodes its length.
data Framing
  = -- | a byte
    Length8
  | -- | two bytes, the high one first
    Length16
  | -- | four bytes, the high one first
    Length32
  deriving (Eq, Show, Read, Enum, Bounded)

lengthBytes :: Framing -> Int
lengthBytes framing = case framing of
  Length8 -> 1
  Length16 -> 2
  Length32 -> 4

-- | A frame: the length of the bytes, and the bytes. They must not be more than the length field can encode.
--
-- >>> frame Length16 "abc"
-- "\NUL\ETXabc"
frame :: Framing -> ByteString -> ByteString
frame framing bytes = ByteString.pack [fromIntegral (size `shiftR` (8 * i)) | i <- [count - 1, count - 2 .. 0]] <> bytes
  where
    size = ByteString.length bytes
    count = lengthBytes framing

-- | The contents of the frames of a source: an action that returns the next one. 'Nothing' is the end. A frame of more
-- bytes than the second argument is 'TooLong', which is thrown when its length has come, and by every later call. If
-- the source ends within a frame, 'EndsWithin' is thrown. If the action is interrupted, or the source throws, the next
-- call continues, as in 'linesOf'.
--
-- >>> next <- fromPieces [frame Length8 "one" <> "\ETXt", "wo"] >>= framesOf Length8 100
-- >>> next
-- Just "one"
framesOf :: Framing -> Int -> Source -> IO (IO (Maybe ByteString))
framesOf framing most source = do
  state <- newIORef (Held [] 0)
  return . taking state $ \takeUntil -> do
    begin <- held state source 1
    if ByteString.null begin
      then return Nothing
      else do
        size <- number . ByteString.take bytesBefore <$> promised "frame's length" state source bytesBefore
        when (size > most) $ throwIO (TooLong "frame" most)
        content <- ByteString.drop bytesBefore <$> promised "frame" state source (bytesBefore + size)
        Just (ByteString.take size content) <$ takeUntil (holding (ByteString.drop size content))
  where
    bytesBefore = lengthBytes framing
    number = ByteString.foldl' (\before byte -> before `shiftL` 8 .|. fromIntegral byte) 0

-- | An action that takes exactly the given number of bytes of a source, and one that tells whether the source is at its
-- end. If the source ends before, the first one throws 'EndsWithin', and takes nothing. If one of them is interrupted,
-- no byte is lost. They hold what has come of the source and was not taken: other readers of it do not get that. Where
-- other things follow, use 'takingFrom'.
--
-- >>> (takeBytes, _) <- fromPieces ["abc", "def"] >>= exactly
-- >>> (,) <$> takeBytes 2 <*> takeBytes 3
-- ("ab","cde")
exactly :: Source -> IO (Int -> IO ByteString, IO Bool)
exactly source = do
  state <- newIORef (Held [] 0)
  return (takeHeld state source, mask_ (ByteString.null <$> held state source 1))

-- | For a stream that begins with parts of known lengths: an action that takes exactly the given number of bytes, as
-- that of 'exactly' does, and a source of what follows them. What follows may be in the same piece, so the source that
-- was given must not be used beside them. If one of them is interrupted, no byte is lost. Where lines say how many
-- bytes follow, use 'linesAndBytes'.
--
-- >>> (takeBytes, rest) <- fromPieces ["\ETXabcone\n", "two"] >>= takingFrom
-- >>> takeBytes 1 >>= takeBytes . fromEnum . Data.ByteString.head
-- "abc"
-- >>> linesOf 80 rest >>= collect
-- ["one","two"]
takingFrom :: Source -> IO (Int -> IO ByteString, Source)
takingFrom source = do
  state <- newIORef (Held [] 0)
  return (takeHeld state source, takeAllHeld state source)

-- | For protocols in which lines and counted bytes take turns, as in HTTP, SMTP and Redis: an action that takes the
-- next line, as that of 'linesOf' does; one that takes exactly the given number of bytes, as that of 'exactly' does;
-- and a source of what follows. Call them in any order. The source that was given must not be used beside them. If one
-- of them is interrupted, no byte is lost.
--
-- The first argument limits lines. Limit the bytes, too, if another program says how many they are: they are kept in
-- memory until all have come. Of many bytes, take some at a time.
--
-- >>> (nextLine, takeBytes, _) <- fromPieces ["3\r\none5\r", "\nt\nwo\n", "5\r\nthree"] >>= linesAndBytes 80
-- >>> let size line = maybe (fail "no size") (return . min 1000 . fst) (Data.ByteString.Char8.readInt line)
-- >>> collect (nextLine >>= mapM (\line -> size line >>= takeBytes))
-- ["one","t\nwo\n","three"]
linesAndBytes :: Int -> Source -> IO (IO (Maybe ByteString), Int -> IO ByteString, Source)
linesAndBytes most source = do
  -- What has come is in one of them, and moves to the one that is needed. The other one is empty.
  line <- newIORef emptyLine
  bytes <- newIORef (Held [] 0)
  let toLine = mask_ $ do
        Held pieces _ <- readIORef bytes
        unless (null pieces) $ do
          writeIORef line (PartialLine [] 0 (ByteString.concat (reverse pieces)))
          writeIORef bytes (Held [] 0)
      toBytes = mask_ $ do
        begun <- readIORef line
        writeIORef line emptyLine
        modifyIORef' bytes (beginningWith begun)
  return
    ( toLine >> takeLine line most source,
      \count -> toBytes >> takeHeld bytes source count,
      toBytes >> takeAllHeld bytes source
    )
  where
    beginningWith (PartialLine parts size bytes) (Held pieces count) =
      Held (pieces ++ bytes : parts) (count + size + ByteString.length bytes)
    beginningWith (SkippedLine bytes) before = beginningWith (PartialLine [] 0 bytes) before

-- All bytes that are held, or the next piece if there are none.
takeAllHeld :: IORef Held -> Source -> Source
takeAllHeld state source = taking state (\takeUntil -> held state source 1 >>= (<$ takeUntil (Held [] 0)))

takeHeld :: IORef Held -> Source -> Int -> IO ByteString
takeHeld state source count = taking state $ \takeUntil -> do
  bytes <- promised "piece" state source count
  ByteString.take count bytes <$ takeUntil (holding (ByteString.drop count bytes))

-- Bytes that have come from a source and were not taken: the pieces, the last one first, and the number of their bytes.
data Held = Held [ByteString] !Int

holding :: ByteString -> Held
holding bytes = Held [bytes] (ByteString.length bytes)

-- Call these two masked. The first one waits until this many bytes have come, or the source has ended, and returns all
-- that are held. The second one throws if these are fewer.
held :: IORef Held -> Source -> Int -> IO ByteString
held state source count = do
  Held pieces size <- readIORef state
  piece <- if size < count then source else return ByteString.empty
  if ByteString.null piece
    then let bytes = ByteString.concat (reverse pieces) in bytes <$ writeIORef state (holding bytes)
    else writeIORef state (Held (piece : pieces) (size + ByteString.length piece)) >> held state source count

promised :: String -> IORef Held -> Source -> Int -> IO ByteString
promised what state source count = do
  bytes <- held state source count
  when (ByteString.length bytes < count) $ throwIO (EndsWithin what count (ByteString.length bytes))
  return bytes

-- | All results of an action until it returns 'Nothing'.
collect :: IO (Maybe a) -> IO [a]
collect next = go []
  where
    go before = next >>= maybe (return (reverse before)) (\one -> go (one : before))

-- | All bytes of a source. Throws 'TooLong' for more than the given number.
whole :: Int -> Source -> IO ByteString
whole most source = go 0 []
  where
    go size parts = do
      piece <- source
      let now = size + ByteString.length piece
      unless (now <= most) $ throwIO (TooLong "stream" most)
      if ByteString.null piece then return (ByteString.concat (reverse parts)) else go now (piece : parts)
