-- | Sources and sinks of conduit for Millrace's sockets, streams, files and directories, and the names of
-- "Data.Conduit.Network" (conduit-extra). A program that uses that module changes the import.
--
-- > main = runTCPServer (serverSettings 7000 "*") $ \app ->
-- >   runConduit (appSource app .| appSink app)
--
-- All of them wait as the functions below them do: the thread parks, and is interruptible. Their errors pass through
-- unchanged. No source yields an empty piece, and each needs memory for one piece only. A sink holds up its source
-- until it can take more.
--
-- __Bytes that are not used.__ When a consumer ends early, a source has yielded at most one piece that was not needed,
-- and all later bytes are still in the socket or file. conduit's operator @.|@ drops that piece, or the part of it that
-- a consumer gives back (@leftover@). If they are needed, make a 'StreamReader': 'consume' keeps what is given back,
-- and 'attempt' keeps everything if its consumer is interrupted or fails, for example by 'Millrace.Timer.timeout'.
--
-- >>> import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> runConduit (yieldMany ["one\n", "two\nthree"] .| sinkSocket there)
-- >>> shutdown there ShutdownSend
-- >>> reader <- newStreamReader (recv here 100)
-- >>> consume reader (takeCE 4 .| foldC)
-- "one\n"
-- >>> runConduit (sourceStream (nextPiece reader) .| foldC)
-- "two\nthree"
module Millrace.Streaming.Conduit
  ( -- * Sockets
    sourceSocket,
    sinkSocket,

    -- * Streams
    sourceStream,
    sinkStream,

    -- * Streams that keep unused bytes
    StreamReader,
    newStreamReader,
    nextPiece,
    consume,
    attempt,

    -- * Files and directories
    sourceFile,
    sinkFile,
    sourceDirectory,

    -- * Servers and clients
    appSource,
    appSink,
    serverSettings,
    clientSettings,
    runGeneralTCPServer,
    runGeneralTCPClient,
    forkTCPServer,
    module Millrace.Streaming.Network,
  )
where

import Control.Concurrent (ThreadId, forkIOWithUnmask, killThread, newEmptyMVar, putMVar, readMVar, tryPutMVar)
import Control.Exception (SomeException, catch, finally, mask, mask_, onException, throwIO)
import Control.Monad (join, unless)
import Control.Monad.IO.Class (MonadIO, liftIO)
import Control.Monad.IO.Unlift (MonadUnliftIO, withRunInIO)
import Control.Monad.Trans.Resource (MonadResource)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Conduit (ConduitT, awaitForever, bracketP, fuseReturnLeftovers, runConduit, yield)
import Data.IORef
import Data.Void (Void)
import Millrace.Directory (closeDirectory, entryPath, nextEntry, openDirectory)
import Millrace.File (Mode (..), closeFile, openFile)
import Millrace.File.Buffered (flush, newWriter, writeBytes)
import Millrace.Socket (Socket)
import Millrace.Socket.Borrowed (borrowedSize)
import Millrace.Socket.ByteString (recv)
import Millrace.Stream (Sink, Source, fromFile, toSocket)
import Millrace.Streaming.Network

-- | Receives until the end of the stream, in pieces of at most 16 KiB. It holds no memory while it waits. It does not
-- close the socket.
sourceSocket :: MonadIO m => Socket -> ConduitT i ByteString m ()
sourceSocket s = sourceStream (recv s borrowedSize)

-- | Sends each piece as soon as it comes, however large it is. It does not close the socket, nor shut it down. If it is
-- interrupted, a part of unknown size has been sent.
sinkSocket :: MonadIO m => Socket -> ConduitT ByteString o m ()
sinkSocket = sinkStream . toSocket

-- | The pieces of a stream ("Millrace.Stream"), as large as that makes them, until its end.
--
-- >>> import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
-- >>> import Millrace.Stream
-- >>> source <- fromPieces ["one", "two"]
-- >>> runConduit (sourceStream source .| sinkList)
-- ["one","two"]
--
-- Lines and bytes of a file that is read through a buffer ("Millrace.File.Buffered"): @sourceStream
-- ('Millrace.File.Buffered.readBytes' reader 65536)@.
sourceStream :: MonadIO m => Source -> ConduitT i ByteString m ()
sourceStream source = next
  where
    next = do
      piece <- liftIO source
      unless (ByteString.null piece) (yield piece >> next)

-- | Gives each piece to a sink of "Millrace.Stream", except empty ones. For a file with a buffer: @sinkStream
-- ('Millrace.File.Buffered.writeBytes' writer)@, and 'Millrace.File.Buffered.flush' at the end.
sinkStream :: MonadIO m => Sink -> ConduitT ByteString o m ()
sinkStream sink = awaitForever (\piece -> unless (ByteString.null piece) (liftIO (sink piece)))

-- | A stream that takes back unused bytes. It is for one thread at a time.
data StreamReader = StreamReader !Source !(IORef [ByteString])

-- | A reader of a stream, for example of a socket (@recv s 16384@) or of 'appRead'. From now on read the stream through
-- it only. Does not block.
newStreamReader :: Source -> IO StreamReader
newStreamReader source = StreamReader source <$> newIORef []

-- | Returns bytes that were given back, or else the next piece of the stream; an empty one at the end. So @nextPiece
-- reader@ is again a stream, for 'sourceStream' and for the functions of "Millrace.Stream".
nextPiece :: StreamReader -> Source
nextPiece (StreamReader source unused) = do
  pieces <- readIORef unused
  case pieces of
    [] -> source
    first : others -> first <$ writeIORef unused others

-- | Runs a consumer on the pieces of the reader. Bytes that it gives back (@leftover@) stay in the reader, as do later
-- ones. If it throws or is interrupted, the pieces that it had are lost; see 'attempt'. Memory does not grow with the
-- size of the stream.
consume :: MonadIO m => StreamReader -> ConduitT ByteString Void m r -> m r
consume reader consumer = do
  (result, back) <- runConduit (fuseReturnLeftovers (sourceStream (nextPiece reader)) consumer)
  result <$ liftIO (giveBack reader back)

giveBack :: StreamReader -> [ByteString] -> IO ()
giveBack (StreamReader _ unused) pieces = modifyIORef' unused (filter (not . ByteString.null) pieces ++)

-- | Runs a consumer that may be interrupted, or fail. Then the reader is as it was before, and another call finds every
-- byte again. Otherwise it works like 'consume'. Until the consumer has ended, all pieces that it was given stay in
-- memory, so it should be for something short, such as a line or a head. The stream is read in masked state, and is
-- interruptible while it waits.
--
-- >>> import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> reader <- newStreamReader (recv here 100)
-- >>> sendAll there "four"
-- >>> timeout 10000 (attempt reader (takeCE 8 .| foldC))
-- Nothing
-- >>> sendAll there "teen, more"
-- >>> attempt reader (takeCE 8 .| foldC)
-- "fourteen"
-- >>> nextPiece reader
-- ", more"
attempt :: MonadUnliftIO m => StreamReader -> ConduitT ByteString Void m r -> m r
attempt (StreamReader source unused) consumer = withRunInIO $ \run -> do
  before <- readIORef unused
  new <- newIORef []
  let noting = mask_ $ do
        piece <- source
        piece <$ modifyIORef' new (piece :)
      undo = do
        pieces <- readIORef new
        writeIORef unused (before ++ reverse (filter (not . ByteString.null) pieces))
  -- The handler is outside of the mask: an exception that is pending when the mask ends comes before the caller has the
  -- result.
  mask (\unmask -> unmask (run (consume (StreamReader noting unused) consumer))) `catch` \problem -> do
    undo
    throwIO (problem :: SomeException)

-- | A file from its beginning to its end, in pieces of at most 256 KiB. The file is open while the source runs. Throws
-- for a file without offsets, such as a terminal or a FIFO. To begin at another offset, or to use a file that is open,
-- use 'Millrace.Stream.fromFile' and 'sourceStream'.
--
-- >>> import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
-- >>> import Millrace.File
-- >>> runConduitRes (yieldMany ["one\n", "two\n"] .| sinkFile "lines")
-- >>> runConduitRes (sourceFile "lines" .| foldC)
-- "one\ntwo\n"
-- >>> removeFile "lines"
sourceFile :: MonadResource m => FilePath -> ConduitT i ByteString m ()
sourceFile path = bracketP (openFile path ForReading) closeFile (\file -> liftIO (fromFile file 0) >>= sourceStream)

-- | Writes into a file, which is emptied, or created. Pieces are written when 64 KiB have come together, and at the
-- end. If the conduit ends by an exception, what has come until then is still written. The bytes are in the file then;
-- 'Millrace.File.sync' brings them to the disk, and 'Millrace.File.Temporary.replaceFile' replaces a file safely.
sinkFile :: MonadResource m => FilePath -> ConduitT ByteString o m ()
sinkFile path = bracketP begin end $ \(_, writer) -> sinkStream (writeBytes writer) >> liftIO (flush writer)
  where
    begin = do
      file <- openFile path ForWriting
      (,) file <$> newWriter file 0
    end (file, writer) = flush writer `finally` closeFile file

-- | The paths of everything in a directory, without @.@ and @..@ and in no particular order, like conduit's function of
-- this name. It reads some thousand names at a time: so its memory does not grow with the directory, which is open
-- while the source runs. With their kinds, or below a whole tree: 'Millrace.Directory.foldEntries',
-- 'Millrace.Directory.foldTree'.
--
-- >>> import Conduit hiding (sinkFile, sourceDirectory, sourceFile)
-- >>> import Millrace.Directory
-- >>> createDirectories "names/one" ownerOnly
-- >>> runConduitRes (sourceDirectory "names" .| sinkList)
-- ["names/one"]
-- >>> removeTree "names"
sourceDirectory :: MonadResource m => FilePath -> ConduitT i FilePath m ()
sourceDirectory path = bracketP (openDirectory path) closeDirectory next
  where
    next stream = liftIO (nextEntry stream) >>= mapM_ (\entry -> yield (entryPath entry) >> next stream)

-- | Reads from a connection of 'runTCPServer' and its relatives.
appSource :: (HasReadWrite app, MonadIO m) => app -> ConduitT i ByteString m ()
appSource = sourceStream . appRead

-- | Writes to a connection.
appSink :: (HasReadWrite app, MonadIO m) => app -> ConduitT ByteString o m ()
appSink = sinkStream . appWrite

-- | Settings of a TCP server: 'serverSettingsTCP'. (The function of this name in "Data.Conduit.Network.Unix" is
-- 'serverSettingsUnix'.)
serverSettings :: Int -> HostPreference -> ServerSettings
serverSettings = serverSettingsTCP

-- | Settings of a TCP client: 'clientSettingsTCP'.
clientSettings :: Int -> ByteString -> ClientSettings
clientSettings = clientSettingsTCP

-- | Runs a server as 'runTCPServer' does, in another monad. State that one connection's action changes is not seen by
-- others.
runGeneralTCPServer :: MonadUnliftIO m => ServerSettings -> (AppData -> m ()) -> m a
runGeneralTCPServer settings serve = withRunInIO (\run -> runTCPServer settings (run . serve))

-- | Runs a client as 'runTCPClient' does, in another monad.
runGeneralTCPClient :: MonadUnliftIO m => ClientSettings -> (AppData -> m a) -> m a
runGeneralTCPClient settings use = withRunInIO (\run -> runTCPClient settings (run . use))

-- | Runs a server in a new thread, and returns when it listens. Kill the thread to end the server. If the server cannot
-- listen, its error is thrown here.
forkTCPServer :: MonadUnliftIO m => ServerSettings -> (AppData -> m ()) -> m ThreadId
forkTCPServer settings serve = withRunInIO $ \run -> mask_ $ do
  began <- newEmptyMVar
  let ready listener = getAfterBind settings listener >> putMVar began (return ())
      failed problem = do
        isFirst <- tryPutMVar began (throwIO problem)
        unless isFirst (throwIO (problem :: SomeException))
  thread <-
    forkIOWithUnmask (\unmask -> unmask (run (runGeneralTCPServer (setAfterBind ready settings) serve)) `catch` failed)
  thread <$ join (readMVar began `onException` killThread thread)
