{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols, sockets.

-- |
-- One request and the means to answer it, for all protocols. "Millrace.Http.Http1.Exchange" implements this interface
-- for HTTP\/1,
-- "Millrace.Http.Exchange.Memory" for tests.
--
-- Each protocol builds its record of operations once. The operations work on the state of one request, and a connection
-- may have many requests at a time. One thread at a time may use an exchange, except where an operation says otherwise.
--
-- Exposed for the package's own tests. Not covered by the version policy.
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
    exchangeNegotiated,
    ifServing,
    inform,
    reset,
    answer,
    takeBack,
    sendSoon,
    settle,
    flush,
    bodyBytes,
    closeAfterwards,
    discardUnsent,
    abort,
    totalDeadline,
    setTotalDeadline,
    clientPresence,
    awaitClientInput,
    takingOver,
    requestTrailers,
    http2Data,
    belongingsOf,

    -- * What applications keep with a connection
    Belongings,
    newBelongings,
    belonging,
    endBelongings,
  )
where

import Control.Concurrent.MVar (MVar)
import Control.Exception (finally, mask_)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import Data.Int (Int32, Int64)
import Data.Vault.Lazy (Key, Vault)
import qualified Data.Vault.Lazy as Vault
import Data.Word (Word32)
import GHC.IO (IO (..))
import Millrace.Deadline (Deadline)
import Millrace.Http.Trailers (HTTP2Data)
import Millrace.Http.Transport (Negotiated, Presence, SockAddr)
import Network.HTTP.Types (ResponseHeaders, Status)
import Network.Wai (StreamingBody)

-- | The operations of a protocol, and the request that they work on.
data Exchange = forall request. Exchange !(Operations request) !request

-- | What a protocol can do for a request. The functions below have the same names and say what each one does.
data Operations request = Operations
  { opClient :: request -> SockAddr,
    opNegotiated :: request -> Maybe Negotiated,
    opIfServing :: request -> IO () -> IO (),
    opInform :: request -> Status -> ResponseHeaders -> IO (),
    opReset :: request -> Word32 -> IO Bool,
    opAnswer :: request -> Answerer -> Plan -> IO (),
    opTakeBack :: request -> IO Retraction,
    opSendSoon :: request -> IO (),
    opSettle :: request -> IO (),
    opFlush :: request -> IO (),
    opBodyBytes :: request -> IO (Maybe Int),
    opCloseAfterwards :: request -> IO (),
    opDiscardUnsent :: request -> IO (),
    opAbort :: request -> IO (),
    opTotalDeadline :: request -> IO Deadline,
    opSetTotalDeadline :: request -> Deadline -> IO (),
    opPresence :: request -> IO Presence,
    opAwaitClientInput :: request -> IO (),
    opTakingOver :: request -> Maybe Status,
    opRequestTrailers :: request -> IO ResponseHeaders,
    opHttp2Data :: request -> Maybe (IORef (Maybe HTTP2Data)),
    opBelongings :: request -> Maybe Belongings
  }

-- | The final response as it is handed to an exchange.
data Plan
  = Plan !Status ResponseHeaders !Body
  | -- | The application speaks another protocol with the client.
    TakeOver !RawBody

-- | Where the bytes of a body are.
data Body
  = -- | There is no body, but the head may say how long it would be.
    NoBody !AnnouncedLength
  | -- | There is no body, and the connection ends: the answer to CONNECT without a tunnel.
    NoTunnel
  | BuilderBody Builder
  | FileBody !FileSlice
  | StreamBody !StreamingBody

-- | The Content-Length of a head without a body.
data AnnouncedLength
  = -- | The length that the fields give, if they give one.
    AsGiven
  | Announced !Int
  | NotAnnounced
  deriving (Eq, Show)

-- | A part of an open file. The file stays open until the part is sent.
data FileSlice = FileSlice
  { -- | Only for messages.
    slicePath :: FilePath,
    sliceDescriptor :: !Int32,
    sliceOffset :: !Int64,
    sliceLength :: !Int64
  }

-- | A protocol that the application speaks itself. The first action receives bytes, the second one sends them.
type RawBody = IO ByteString -> (ByteString -> IO ()) -> IO ()

-- | Which thread answers.
data Answerer
  = -- | The thread that the application was called in.
    OwnThread
  | OtherThread !Detached

-- | What the application's first thread must know about another thread that answers.
data Detached = Detached
  { -- | Empty while the other thread works on the exchange. Full while that thread runs code of the application,
    -- and at the end.
    detachedHold :: !(MVar ()),
    -- | Has the application returned?
    detachedIsPast :: !(IO Bool)
  }

-- | Whether an answer could be taken back.
data Retraction
  = -- | Nothing of the answer was sent. The next one takes its place.
    TakenBack
  | -- | Part of the answer was sent, or its application code still runs.
    AlreadySent
  deriving (Eq, Show)

-- | The address of the client.
exchangeClient :: Exchange -> SockAddr
exchangeClient (Exchange operations request) = opClient operations request

-- | What was negotiated for the connection, if it is protected.
exchangeNegotiated :: Exchange -> Maybe Negotiated
exchangeNegotiated (Exchange operations request) = opNegotiated operations request

-- | Runs the action if this is the thread that serves the request. May be called by any thread.
ifServing :: Exchange -> IO () -> IO ()
ifServing (Exchange operations request) action = call (opIfServing operations request action)
{-# NOINLINE ifServing #-}

-- | Sends an interim response with this status and these fields at once. The names must be tokens, and the values
-- harmless. Does nothing when the final response has begun, or if the version of the protocol has no interim responses.
inform :: Exchange -> Status -> ResponseHeaders -> IO ()
inform (Exchange operations request) status fields = call (opInform operations request status fields)
{-# NOINLINE inform #-}

-- | Resets the request's stream with an error code of HTTP\/2. False, and nothing is done, if the protocol has no such
-- codes.
reset :: Exchange -> Word32 -> IO Bool
reset (Exchange operations request) code = call (opReset operations request code)
{-# NOINLINE reset #-}

-- | Makes the final answer. Part of it may be sent later: as soon as this thread gives up the processor, or when the
-- application has returned. Parks while the client does not take the bytes that must be sent. Throws @InvalidResponse@
-- for an answer that cannot be sent.
answer :: Exchange -> Answerer -> Plan -> IO ()
answer (Exchange operations request) answerer plan = call (opAnswer operations request answerer plan)
{-# NOINLINE answer #-}

-- | Takes the answer back, if nothing of it was sent.
takeBack :: Exchange -> IO Retraction
takeBack (Exchange operations request) = call (opTakeBack operations request)
{-# NOINLINE takeBack #-}

-- | Arranges that answers that are not sent yet go out as soon as this thread gives up the processor. 'settle' ends
-- that.
sendSoon :: Exchange -> IO ()
sendSoon (Exchange operations request) = call (opSendSoon operations request)
{-# NOINLINE sendSoon #-}

-- | Cancels what 'sendSoon' has arranged, or waits until it is done.
settle :: Exchange -> IO ()
settle (Exchange operations request) = call (opSettle operations request)
{-# NOINLINE settle #-}

-- | Sends the answers that are not sent yet.
flush :: Exchange -> IO ()
flush (Exchange operations request) = call (opFlush operations request)
{-# NOINLINE flush #-}

-- | How many bytes of the last answer's body were sent or are going to be. 'Nothing' if it has no body.
bodyBytes :: Exchange -> IO (Maybe Int)
bodyBytes (Exchange operations request) = call (opBodyBytes operations request)
{-# NOINLINE bodyBytes #-}

-- | Closes the connection after this request, if it carries one request at a time.
closeAfterwards :: Exchange -> IO ()
closeAfterwards (Exchange operations request) = call (opCloseAfterwards operations request)
{-# NOINLINE closeAfterwards #-}

-- | Ends the answer where it is: bytes that are not sent yet are dropped.
discardUnsent :: Exchange -> IO ()
discardUnsent (Exchange operations request) = call (opDiscardUnsent operations request)
{-# NOINLINE discardUnsent #-}

-- | Ends the request at once: operations that wait for the client fail. May be called by any thread.
abort :: Exchange -> IO ()
abort (Exchange operations request) = call (opAbort operations request)
{-# NOINLINE abort #-}

-- | The deadline of the whole request.
totalDeadline :: Exchange -> IO Deadline
totalDeadline (Exchange operations request) = call (opTotalDeadline operations request)
{-# NOINLINE totalDeadline #-}

-- | Changes the deadline of the whole request, for operations that begin from now on.
setTotalDeadline :: Exchange -> Deadline -> IO ()
setTotalDeadline (Exchange operations request) deadline = call (opSetTotalDeadline operations request deadline)
{-# NOINLINE setTotalDeadline #-}

-- | Whether the client can still send, or can only receive, or is gone. Does not block. May be called by any thread.
clientPresence :: Exchange -> IO Presence
clientPresence (Exchange operations request) = call (opPresence operations request)
{-# NOINLINE clientPresence #-}

-- | Parks until the client has sent something or is gone. May be called by any thread.
awaitClientInput :: Exchange -> IO ()
awaitClientInput (Exchange operations request) = call (opAwaitClientInput operations request)
{-# NOINLINE awaitClientInput #-}

-- | The status that tells the client that the application has taken this request over ('TakeOver'), if it can.
takingOver :: Exchange -> Maybe Status
takingOver (Exchange operations request) = opTakingOver operations request

-- | The trailers of the request, as far as they have come: that is when the body has been read to its end.
requestTrailers :: Exchange -> IO ResponseHeaders
requestTrailers (Exchange operations request) = call (opRequestTrailers operations request)
{-# NOINLINE requestTrailers #-}

-- | The 'HTTP2Data' of the response, if the protocol has it.
http2Data :: Exchange -> Maybe (IORef (Maybe HTTP2Data))
http2Data (Exchange operations request) = opHttp2Data operations request

-- | What applications keep with the connection, if it carries one request at a time.
belongingsOf :: Exchange -> Maybe Belongings
belongingsOf (Exchange operations request) = opBelongings operations request

-- Runs an action that an unknown function returns, without ever keeping the action. Otherwise GHC would make a closure
-- of it, for all later calls. For the same reason the functions above are not inlined.
call :: IO a -> IO a
call (IO action) = IO $ \before -> case action before of (# after, result #) -> (# after, result #)
{-# INLINE call #-}

------------------------------------------------------------------------------------------------------------------------
-- What applications keep with a connection

-- | The things of one connection, and the action that ends them.
newtype Belongings = Belongings (IORef Held)

data Held = Held !Vault !(IO ())

-- | None yet.
newBelongings :: IO Belongings
newBelongings = Belongings <$> newIORef none

none :: Held
none = Held Vault.empty (return ())

-- | @belonging belongings key make end@: the thing with this key. It is made when it is first asked for. The action
-- @end@ runs with it when the connection is over. One thread at a time may call this for a connection.
belonging :: Belongings -> Key a -> IO a -> (a -> IO ()) -> IO a
belonging (Belongings variable) key make end = mask_ $ do
  Held things ending <- readIORef variable
  case Vault.lookup key things of
    Just known -> return known
    Nothing -> do
      made <- make
      made <$ writeIORef variable (Held (Vault.insert key made things) (end made `finally` ending))

-- | Ends the things of a connection that is over.
endBelongings :: Belongings -> IO ()
endBelongings (Belongings variable) = do
  Held _ ending <- atomicModifyIORef' variable (none,)
  ending
