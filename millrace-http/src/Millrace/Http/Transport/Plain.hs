{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- |
-- The operations of a transport on a socket of "Millrace.Socket".
--
-- Exposed for other packages of Millrace. Not covered by the version policy.
module Millrace.Http.Transport.Plain
  ( -- * One attempt at sending
    TimeLimit (..),
    Attempt (..),
    Following (..),
    Piece (..),
    FileSlice (..),
    attemptSend,
    attemptSendTwo,
    attemptSendFile,

    -- * What the kernel knows
    queuedBytes,
    arrivedBytes,
    quietMillis,
    hasArrived,
    Presence (..),
    presence,
    hasEnded,
    awaitInput,
    ignoringErrors,
    timeLimit,
  )
where

import Control.Exception (IOException, catch)
import Control.Monad (void)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno, eTIMEDOUT)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (pokeElemOff)
import Millrace.Deadline (Deadline)
import qualified Millrace.Deadline as Deadline
import Millrace.Operation
import Millrace.Socket (Socket, socketHandle)
import qualified Millrace.Socket as Socket
import System.Posix.Types (Fd)

-- | How long an operation may wait.
data TimeLimit
  = -- | This many microseconds from now; 0 means for ever.
    Within !Int
  | Before !Deadline

-- | How an attempt at sending ended.
data Attempt
  = -- | This many bytes went: 0 only at the end of a file.
    Moved !Int
  | -- | The time limit passed before anything went.
    TimedOut
  | Failed !Errno

-- | The bytes that follow at once. The transport may send it together with these bytes.
data Following
  = NothingFollows
  | MoreFollows
  | -- | Nothing is sent after these bytes. A transport that tells the client so may do it now;
    -- 'Millrace.Http.Transport.endSending' or closing comes all the same.
    EndFollows

-- | Bytes in memory: their address and number.
data Piece = Piece !(Ptr Word8) !Int

-- | A part of an open regular file: its offset and its length in bytes.
data FileSlice = FileSlice !Fd !Int64 !Int64

-- | Sends some bytes of a piece.
attemptSend :: Socket -> Following -> TimeLimit -> Piece -> IO Attempt
attemptSend socket following limit (Piece bytes count) =
  attempt limit (marked (partial (sendRequest (socketHandle socket) bytes count)))
  where
    marked = case following of
      NothingFollows -> id
      MoreFollows -> moreFollows
      EndFollows -> id
{-# INLINE attemptSend #-}

-- | Sends some bytes of two pieces, with one system call.
attemptSendTwo :: Socket -> TimeLimit -> Piece -> Piece -> IO Attempt
attemptSendTwo socket limit first second = allocaBytes (2 * vectorElementSize) $ \vector -> do
  pokeElement vector 0 first
  pokeElement vector 1 second
  attempt limit (partial (sendVectorRequest (socketHandle socket) vector 2))

-- struct iovec
vectorElementSize :: Int
vectorElementSize = 16

pokeElement :: Ptr Word8 -> Int -> Piece -> IO ()
pokeElement vector index (Piece base size) = do
  pokeElemOff (castPtr vector) (2 * index) base
  pokeElemOff (castPtr vector) (2 * index + 1) size

-- | Sends some bytes of a file.
attemptSendFile :: Socket -> TimeLimit -> FileSlice -> IO Attempt
attemptSendFile socket limit (FileSlice file offset count) =
  outcome <$> performSendFile (limited limit) (socketHandle socket) file offset count

attempt :: TimeLimit -> Request Int -> IO Attempt
attempt limit request = outcome <$> perform (limited limit request)
{-# INLINE attempt #-}

limited :: TimeLimit -> Request Int -> Request Int
limited limit = case limit of
  Within micros -> within (timeLimit micros)
  Before deadline -> before deadline
{-# INLINE limited #-}

outcome :: Either Errno Int -> Attempt
outcome = either failed Moved
  where
    failed code = if code == eTIMEDOUT then TimedOut else Failed code
{-# INLINE outcome #-}

-- | This many microseconds of waiting; 0 means for ever. Not inlined: a send's code would be repeated for each of the
-- cases.
timeLimit :: Int -> Deadline.Duration
timeLimit micros = if micros == 0 then Deadline.unlimited else Deadline.microseconds micros
{-# NOINLINE timeLimit #-}

foreign import ccall unsafe "http_socket_queued"
  c_queued :: CInt -> IO Int64

-- | Bytes that were sent and that the client has not acknowledged; 0 if the kernel does not say.
queuedBytes :: Socket -> IO Int
queuedBytes socket = maybe 0 fromIntegral <$> whileOpen (socketHandle socket) c_queued

foreign import ccall unsafe "http_socket_arrived"
  c_arrived :: CInt -> IO Int64

-- | Bytes that can be received at once; 0 if the kernel does not say.
arrivedBytes :: Socket -> IO Int
arrivedBytes socket = maybe 0 fromIntegral <$> whileOpen (socketHandle socket) c_arrived

foreign import ccall unsafe "http_socket_quiet_millis"
  c_quietMillis :: CInt -> IO Int64

-- | How long nothing has moved, if the kernel says so. A closed socket is quiet.
quietMillis :: Socket -> IO (Maybe Int)
quietMillis socket = maybe (Just maxBound) known <$> whileOpen (socketHandle socket) c_quietMillis
  where
    known millis = if millis < 0 then Nothing else Just (fromIntegral millis)

foreign import ccall unsafe "http_socket_pending"
  c_pending :: CInt -> IO CInt

-- | Is there something to receive, or on a listening socket a connection to take? Does not block. A closed socket has
-- nothing.
hasArrived :: Socket -> IO Bool
hasArrived socket = maybe False (/= 0) <$> whileOpen (socketHandle socket) c_pending

foreign import ccall unsafe "http_socket_is_over"
  c_isOver :: CInt -> IO CInt

-- | The presence of the client at the other end.
data Presence
  = -- | It may send more.
    Present
  | -- | It has ended its sending side. It may wait for what it is sent, or be gone: TCP does not tell these apart.
    EndedSending
  | Gone
  deriving (Eq, Show)

-- | The presence of the client, as far as the system knows. Does not block. At a closed socket it is gone.
presence :: Socket -> IO Presence
presence socket = do
  ended <- hasEnded socket
  if ended then maybe Gone known <$> whileOpen (socketHandle socket) c_isOver else return Present
  where
    known over = if over /= 0 then Gone else EndedSending

-- | Has the client ended its half of the connection? Does not block. A closed socket has ended.
hasEnded :: Socket -> IO Bool
hasEnded socket = Socket.hasEnded socket `catch` closed
  where
    closed :: IOException -> IO Bool
    closed _ = return True

-- | Waits until there is something to receive, or the end.
awaitInput :: Socket -> IO ()
awaitInput socket = void (perform (waitReadableRequest (socketHandle socket)))

-- | For what ends a connection: one that is over already is as good.
ignoringErrors :: IO () -> IO ()
ignoringErrors action = action `catch` ignored
  where
    ignored :: IOException -> IO ()
    ignored _ = return ()
