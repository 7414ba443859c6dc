{-# LANGUAGE TupleSections #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: listeners.

-- |
-- One connection of a server, from the moment it is accepted until it is closed, whatever protocol it uses; and what
-- the threads that accept and end connections must know of it.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Connection
  ( Served,
    newServed,
    servedTransport,
    servedWorker,

    -- * Its life
    runConnection,
    serveTransport,

    -- * What other threads see of it
    isIdle,
    isInHead,
    isLeaving,
    requestCount,
    finishSoon,
    giveWay,
  )
where

import Control.Exception
import Control.Monad (forM_, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as LC8
import qualified Data.ByteString.Unsafe as BU
import Data.Either (lefts)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Maybe (isJust)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Millrace.Http.Exception (InvalidRequest, isAsynchronous, isTimeExpired)
import Millrace.Http.Exchange (endBelongings)
import Millrace.Http.FileCache (closeFileCache)
import qualified Millrace.Http.Http1.Connection as Http1
import qualified Millrace.Http.Http1.Session as Http1
import qualified Millrace.Http.Http2.Session as Http2
import Millrace.Http.Server.Context
import Millrace.Http.Server.Opening
import Millrace.Http.Server.Settings (Protocols (..), Settings (..))
import Millrace.Http.Threads
import Millrace.Http.Transport
import Network.HTTP.Types (hConnection, hContentType, status505)
import Network.Wai (Application, responseLBS)

-- | A connection. Only the state of the protocol that the client speaks exists.
data Served = Served
  { servedServer :: !ServerContext,
    -- | The transport of the connection, also after a handshake.
    servedTransport :: !Transport,
    -- | The thread that serves the connection.
    servedWorker :: !Worker,
    servedState :: !(IORef State)
  }

data State
  = -- The action of @setOnOpen@ has not returned.
    Unannounced
  | -- No byte has come.
    Waiting
  | -- The server has ended the receiving side before the protocol was known.
    GivingWay
  | -- Bytes have come: a part of a handshake, of a proxy's header, or of what shows which protocol the client speaks.
    Opening
  | -- The connection is over, or about to begin.
    Busy
  | -- All was sent, and only the client's end is missing.
    Leaving
  | SpeakingHttp1 !Http1.Connection
  | SpeakingHttp2 !Http2.Session

-- | Makes a connection on a transport. The caller must close the transport.
newServed :: ServerContext -> Transport -> IO Served
newServed server transport = Served server transport <$> newWorker <*> newIORef Unannounced

enter :: Served -> State -> IO State
enter served next = atomicModifyIORef' (servedState served) (next,)

------------------------------------------------------------------------------------------------------------------------
-- Its life

-- | Serves one connection in this thread, until it ends, with a new server context. Closes the transport.
serveTransport :: Settings -> Application -> Transport -> IO ()
serveTransport settings application transport = do
  server <- newServerContext settings
  served <- newServed server transport
  mask_ (runConnection served application (closeTransport transport)) `finally` closeFileCache (serverFiles server)

-- | @runConnection connection application release@ serves the connection and then runs @release@. Call it masked, in a
-- separate thread, so that the end of the server does not interrupt the cleanup. There is a single exception handler
-- while requests are served, because every handler takes stack for as long as the connection lives (decision 9).
runConnection :: Served -> Application -> IO () -> IO ()
runConnection served application release = do
  outcome <- atWork (servedWorker served) $ do
    -- Masked, as in Warp: no exception can come between this action and the note that the close action has to run.
    wanted <- settingsOnOpen (settingsOf served) (transportPeer (servedTransport served))
    _ <- enter served Busy
    when wanted (serve served application)
  finish served outcome `finally` release

settingsOf :: Served -> Settings
settingsOf = serverSettings . servedServer

-- Opens the connection, and serves the protocol that the client speaks. Not inlined, like 'finish', to keep the stack
-- small.
serve :: Served -> Application -> IO ()
serve served application = do
  outcome <- try (openConnection (servedServer served) (noteOpening served) (servedTransport served))
  case outcome of
    Left failure
      | isAsynchronous failure -> throwIO failure
      | isTimeExpired failure -> return ()
      | otherwise -> reportTo (servedServer served) Nothing failure
    Right (OpenedHttp1 transport buffer count) -> do
      connection <- beginHttp1 served transport buffer count
      interruptible (Http1.runSession connection $! applicationOfHttp1 served application)
      closeProtected served transport
    Right (OpenedHttp2 transport beginning) -> do
      interruptible (Http2.runSession (servedServer served) transport beginning application (noteHttp2 served))
      closeProtected served transport
    Right (OpenedInvalid transport bytes reason) -> do
      connection <- beginRefusal served transport bytes
      interruptible (refuse connection reason)
      closeProtected served transport
    Right NotOpened -> return ()
{-# NOINLINE serve #-}

noteOpening :: Served -> OpeningState -> IO Receiving
noteOpening served opening = atomicModifyIORef' (servedState served) next
  where
    next GivingWay = (GivingWay, EndedByServer)
    next _ = (entered, StillReceiving)
    entered = case opening of
      Waits -> Waiting
      Works -> Opening
      Leaves -> Leaving

noteHttp2 :: Served -> Maybe Http2.Session -> IO ()
noteHttp2 served session = void (enter served (maybe Busy SpeakingHttp2 session))

-- A connection of HTTP/1 that works on the first bytes, which are in this buffer.
beginHttp1 :: Served -> Transport -> Borrowed -> Int -> IO Http1.Connection
beginHttp1 served transport buffer count = do
  connection <- Http1.newConnection (servedServer served) transport (servedWorker served)
  before <- enter served (SpeakingHttp1 connection)
  case before of
    GivingWay -> Http1.noteGivingWay connection
    _ -> return ()
  connection <$ Http1.startWork connection (Received buffer count)
{-# NOINLINE beginHttp1 #-}

-- A connection of HTTP/1 that is to say what is wrong with these bytes.
beginRefusal :: Served -> Transport -> B.ByteString -> IO Http1.Connection
beginRefusal served transport bytes = do
  buffer <- borrow
  BU.unsafeUseAsCStringLen bytes (\(from, count) -> copyBytes (borrowedBytes buffer) (castPtr from) count)
  beginHttp1 served transport buffer (B.length bytes)

-- If the server itself has ended what is received, that is not the client's mistake. Without a response it may send the
-- request again (RFC 9112, section 9.3.1).
refuse :: Http1.Connection -> InvalidRequest -> IO ()
refuse connection reason = do
  isOurs <- Http1.hasGivenWay connection
  unless isOurs (Http1.refuse connection reason)

-- The transport of a handshake is another one on the same socket, which is closed last.
closeProtected :: Served -> Transport -> IO ()
closeProtected served transport =
  when (isJust (settingsProtection (settingsOf served)) && isProtected transport) (closeTransport transport)

applicationOfHttp1 :: Served -> Application -> Application
applicationOfHttp1 served application
  | settingsProtocols (settingsOf served) == OnlyHttp2 = refused
  | otherwise = application

-- The response to an HTTP/1 request on a server that serves only HTTP/2.
refused :: Application
refused _ respond =
  respond
    (responseLBS status505 [(hConnection, C8.pack "close"), (hContentType, C8.pack "text/plain; charset=utf-8")] text)
  where
    text = LC8.pack "This server speaks HTTP/2 only."

-- Not inlined: code that runs after the session must keep few words on the stack during it (decision 9). Never throws,
-- unless evaluating an exception value itself throws.
finish :: Served -> Either SomeException () -> IO ()
finish served outcome = do
  state <- readIORef (servedState served)
  finished <- try (end state)
  forM_ (lefts [outcome, finished]) $ \failure -> do
    killed <- isKillOfServer (servedServer served) failure
    unless killed (settingsOnException settings Nothing failure `catch` ignore)
  where
    settings = settingsOf served
    end state = case state of
      Unannounced -> return ()
      SpeakingHttp1 connection -> do
        Http1.retireEarlyFlush connection
        Http1.endWork connection
        announceClose `finally` endBelongings (Http1.connectionBelongings connection)
      _ -> announceClose
    announceClose = settingsOnClose settings (transportPeer (servedTransport served))
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE finish #-}

------------------------------------------------------------------------------------------------------------------------
-- What other threads see of it

-- | Whether it waits for a request of which no byte has come. Any thread may call this and the functions below.
isIdle :: Served -> IO Bool
isIdle served = do
  state <- readIORef (servedState served)
  case state of
    SpeakingHttp1 connection -> Http1.isIdle connection
    SpeakingHttp2 session -> Http2.isIdle session
    Waiting -> return True
    GivingWay -> return True
    _ -> return False

-- | Whether something has come that must be complete before there is a request: a part of a head, of a handshake or of
-- a proxy's header; and no answer is under way. Of HTTP\/2 only if the connection takes no more requests.
isInHead :: Served -> IO Bool
isInHead served = do
  state <- readIORef (servedState served)
  case state of
    SpeakingHttp1 connection -> Http1.isInHead connection
    SpeakingHttp2 session -> Http2.isInLastHead session
    Opening -> return True
    _ -> return False

-- | Whether all responses were sent, and only the client's end of the connection is missing.
isLeaving :: Served -> IO Bool
isLeaving served = do
  state <- readIORef (servedState served)
  case state of
    SpeakingHttp1 connection -> Http1.isLeaving connection
    SpeakingHttp2 session -> Http2.isLeaving session
    Leaving -> return True
    _ -> return False

-- | The number of requests that have begun.
requestCount :: Served -> IO Int
requestCount served = do
  state <- readIORef (servedState served)
  case state of
    SpeakingHttp1 connection -> Http1.requestCount connection
    SpeakingHttp2 session -> Http2.requestCount session
    _ -> return 0

-- | Asks an HTTP\/2 connection to answer the requests it has received, and then to end. False if the connection does
-- not use HTTP\/2.
finishSoon :: Served -> IO Bool
finishSoon served = do
  state <- readIORef (servedState served)
  case state of
    SpeakingHttp2 session -> True <$ Http2.askToEnd session Http2.ToFinish
    _ -> return False

-- | Ends a connection that is idle or has a part of a head ('isInHead'). If a request has just been received, it is
-- still answered. If only a part of its head was, it is not: the client finds the connection closed, and may send
-- it again.
giveWay :: Served -> IO ()
giveWay served = do
  state <- atomicModifyIORef' (servedState served) (\state -> (ending state, state))
  case state of
    SpeakingHttp1 connection -> Http1.giveWay connection
    SpeakingHttp2 session -> Http2.askToEnd session Http2.ToGiveWay
    _ -> endReceiving (servedTransport served)
  where
    ending Waiting = GivingWay
    ending Opening = GivingWay
    ending state = state
