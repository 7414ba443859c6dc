{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- One request and the means to answer it, whatever the protocol: HTTP\/1 implements this interface in
-- "Millrace.Http.Http1.Exchange". Must not know: protocols.
--
-- The operations are a record that is built once for a protocol. What they work on is the state of one request, of which a
-- connection may have many at a time. One thread at a time may use an exchange, except where an operation says otherwise.
module Millrace.Http.Exchange
  ( -- * Exchanges
    Exchange (..),
    Operations (..),

    -- * Answers
    Plan (..),
    Body (..),
    AnnouncedLength (..),
    FileSlice (..),
    RawBody,

    -- * Operations
    Answerer (..),
    Detached (..),
    Retraction (..),
    exchangeClient,
    ifServing,
    inform,
    prepare,
    answer,
    takeBack,
    sendSoon,
    settle,
    flush,
    bodyBytes,
    closeAfterwards,
    discardUnsent,
    abort,
    liftTimeLimit,
    hasClientEnded,
    awaitClientInput,
  )
where

import Control.Concurrent.MVar (MVar)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder)
import Data.Int (Int32, Int64)
import GHC.IO (IO (..))
import Millrace.Http.Transport (SockAddr)
import Network.HTTP.Types (ResponseHeaders, Status)
import Network.Wai (StreamingBody)

-- | The operations of a protocol, and the request that they work on.
data Exchange = forall request. Exchange !(Operations request) !request

-- | What a protocol can do for a request. The functions of this module have the same names and say what each does.
data Operations request = Operations
  { opClient :: request -> SockAddr,
    opIfServing :: request -> IO () -> IO (),
    opInform :: request -> ResponseHeaders -> IO (),
    opPrepare :: request -> IO (),
    opAnswer :: request -> Answerer -> Plan -> IO (),
    opTakeBack :: request -> IO Retraction,
    opSendSoon :: request -> IO (),
    opSettle :: request -> IO (),
    opFlush :: request -> IO (),
    opBodyBytes :: request -> IO (Maybe Int),
    opCloseAfterwards :: request -> IO (),
    opDiscardUnsent :: request -> IO (),
    opAbort :: request -> IO (),
    opLiftTimeLimit :: request -> IO (),
    opHasClientEnded :: request -> IO Bool,
    opAwaitClientInput :: request -> IO ()
  }

-- | What is to be sent as the final response.
data Plan
  = Plan !Status ResponseHeaders !Body
  | -- | The application speaks a protocol of its own with the client.
    TakeOver !RawBody

-- | Where the bytes of a body are.
data Body
  = -- | There is none, but the head may say how long it would be.
    NoBody !AnnouncedLength
  | -- | There is none, and the connection ends: the answer to CONNECT without a tunnel.
    NoTunnel
  | BuilderBody Builder
  | FileBody !FileSlice
  | StreamBody !StreamingBody

-- | The Content-Length of a head without a body.
data AnnouncedLength
  = -- | What the fields say, if they do.
    AsGiven
  | Announced !Int
  | NotAnnounced

-- | A part of an open file. It stays open until it is sent.
data FileSlice = FileSlice
  { -- | For messages.
    slicePath :: FilePath,
    sliceDescriptor :: !Int32,
    sliceOffset :: !Int64,
    sliceLength :: !Int64
  }

-- | What is given two actions: one receives bytes, the other one sends them.
type RawBody = IO ByteString -> (ByteString -> IO ()) -> IO ()

-- | The thread that answers.
data Answerer
  = -- | The one that the application was called in.
    OwnThread
  | OtherThread !Detached

-- | What the thread that the application was called in needs to know of another thread that answers.
data Detached = Detached
  { -- | Empty while the other thread works on the exchange. Full while it runs code of the application, and in the end.
    detachedHold :: !(MVar ()),
    -- | Has the application returned?
    detachedIsPast :: !(IO Bool)
  }

-- | What became of taking an answer back.
data Retraction
  = -- | Nothing of it was sent. The next one takes its place.
    TakenBack
  | -- | Some of it was sent, or is just being made.
    AlreadySent
  deriving (Eq, Show)

-- | The address of the client.
exchangeClient :: Exchange -> SockAddr
exchangeClient (Exchange operations request) = opClient operations request

-- | Runs the action if this is the thread that serves the request. May be called by any thread.
ifServing :: Exchange -> IO () -> IO ()
ifServing (Exchange operations request) action = call (opIfServing operations request action)
{-# NOINLINE ifServing #-}

-- | Sends a 103 response with these fields at once. Does nothing if that would be too late, or if the version of the protocol has
-- no interim responses.
inform :: Exchange -> ResponseHeaders -> IO ()
inform (Exchange operations request) fields = call (opInform operations request fields)
{-# NOINLINE inform #-}

-- | To be called before an answer is planned. What was answered before goes out if that takes time.
prepare :: Exchange -> IO ()
prepare (Exchange operations request) = call (opPrepare operations request)
{-# NOINLINE prepare #-}

-- | Makes the final answer. Some of it may be sent later: as soon as this thread gives up the processor, or when the application
-- has returned. Parks while the client does not take what has to be sent. Throws 'Millrace.Http.Exception.InvalidResponse' for an
-- answer that cannot be sent.
answer :: Exchange -> Answerer -> Plan -> IO ()
answer (Exchange operations request) answerer plan = call (opAnswer operations request answerer plan)
{-# NOINLINE answer #-}

-- | Takes back what was made of the answer so far.
takeBack :: Exchange -> IO Retraction
takeBack (Exchange operations request) = call (opTakeBack operations request)
{-# NOINLINE takeBack #-}

-- | What was answered and not sent yet goes out as soon as this thread gives up the processor. 'settle' ends that.
sendSoon :: Exchange -> IO ()
sendSoon (Exchange operations request) = call (opSendSoon operations request)
{-# NOINLINE sendSoon #-}

-- | Calls off what 'sendSoon' has arranged, or waits until it is done.
settle :: Exchange -> IO ()
settle (Exchange operations request) = call (opSettle operations request)
{-# NOINLINE settle #-}

-- | Sends what was answered and not sent yet.
flush :: Exchange -> IO ()
flush (Exchange operations request) = call (opFlush operations request)
{-# NOINLINE flush #-}

-- | Bytes of the body of the last answer that were sent or are going to be. 'Nothing' if it has none.
bodyBytes :: Exchange -> IO (Maybe Int)
bodyBytes (Exchange operations request) = call (opBodyBytes operations request)
{-# NOINLINE bodyBytes #-}

-- | No request follows on the connection, if it carries one request at a time.
closeAfterwards :: Exchange -> IO ()
closeAfterwards (Exchange operations request) = call (opCloseAfterwards operations request)
{-# NOINLINE closeAfterwards #-}

-- | The answer ends where it is: what was not sent of it is not going to be.
discardUnsent :: Exchange -> IO ()
discardUnsent (Exchange operations request) = call (opDiscardUnsent operations request)
{-# NOINLINE discardUnsent #-}

-- | Ends the request at once: what waits for the client fails. May be called by any thread.
abort :: Exchange -> IO ()
abort (Exchange operations request) = call (opAbort operations request)
{-# NOINLINE abort #-}

-- | From here on the time of the request is not limited as a whole.
liftTimeLimit :: Exchange -> IO ()
liftTimeLimit (Exchange operations request) = call (opLiftTimeLimit operations request)
{-# NOINLINE liftTimeLimit #-}

-- | Has the client ended its half of the connection, or of the stream? Does not block. May be called by any thread.
hasClientEnded :: Exchange -> IO Bool
hasClientEnded (Exchange operations request) = call (opHasClientEnded operations request)
{-# NOINLINE hasClientEnded #-}

-- | Parks until the client has sent something or is gone. May be called by any thread.
awaitClientInput :: Exchange -> IO ()
awaitClientInput (Exchange operations request) = call (opAwaitClientInput operations request)
{-# NOINLINE awaitClientInput #-}

-- Runs an action that an unknown function returns, without ever keeping the action: GHC would make a closure of it, to be
-- used by all later calls. For the same reason the functions above are not inlined.
call :: IO a -> IO a
call (IO action) = IO $ \before -> case action before of (# after, result #) -> (# after, result #)
{-# INLINE call #-}
