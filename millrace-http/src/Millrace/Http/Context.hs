{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE TupleSections #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols.

-- |
-- Functions of an application on a request, beyond what WAI offers.
module Millrace.Http.Context
  ( Context (..),
    contextVault,
    contextOf,
    getFileInfo,
    sendEarlyHints,
    earlyHintsBy,
    sendInterim,
    resetRequest,
    isServerEnding,
    isConnected,
    getPresence,
    probeClient,
    onDisconnect,
    onLoss,
    belongingOfConnection,
    requestNegotiated,
    getRequestTrailers,
    getHTTP2Data,
    setHTTP2Data,
    modifyHTTP2Data,
  )
where

import Control.Concurrent (ThreadId, forkIOWithUnmask, killThread, myThreadId)
import Control.Concurrent.STM (STM)
import Control.Exception (mask, mask_, onException, throwIO)
import Control.Monad (forM, forM_, unless, void, when)
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.IORef
import qualified Data.Vault.Lazy as Vault
import Data.Word (Word32)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange
import Millrace.Http.FieldSyntax (harmless, isToken)
import Millrace.Http.FileCache (FileInfo, fileInfo)
import Millrace.Http.Server.Context (ServerContext (serverFiles, serverState))
import Millrace.Http.Server.State (currentShuttingDownStateSTM)
import Millrace.Http.Trailers (HTTP2Data)
import Millrace.Http.Transport (Negotiated, Presence (..))
import Millrace.Manager (atNextIteration)
import Millrace.Timer (threadDelay)
import Network.HTTP.Types
  ( RequestHeaders,
    ResponseHeaders,
    Status (..),
    continue100,
    hConnection,
    hContentLength,
    mkStatus,
  )
import Network.HTTP.Types.Header (hTransferEncoding)
import Network.Wai (Request, vault)
import System.IO.Unsafe (unsafePerformIO)

-- | The data that the functions of this module need, kept in the vault of the request.
data Context = Context
  { contextExchange :: !Exchange,
    contextServer :: !ServerContext
  }

contextKey :: Vault.Key Context
contextKey = unsafePerformIO Vault.newKey
{-# NOINLINE contextKey #-}

-- | A vault with only this in it.
contextVault :: Context -> Vault.Vault
contextVault context = Vault.insert contextKey context Vault.empty

-- | The context of a request, if it was made by this server.
contextOf :: Request -> Maybe Context
contextOf request = contextIn (vault request)

contextIn :: Vault.Vault -> Maybe Context
contextIn = Vault.lookup contextKey

-- | Size and time of a file, remembered for as long as 'Network.Wai.Handler.Millrace.setFileInfoCacheDuration' says.
-- Throws an @IOError@ if the file is not regular or cannot be read, or if the request was not made by this server.
getFileInfo :: Request -> FilePath -> IO FileInfo
getFileInfo request path = case contextOf request of
  Just context -> fileInfo (serverFiles (contextServer context)) path
  Nothing -> ioError (userError "getFileInfo: not a request of Network.Wai.Handler.Millrace")

-- | Sends a 103 (Early Hints) response with these fields at once, ahead of the final response (RFC 8297). May be called
-- several times. Content-Length, Transfer-Encoding and Connection are left out. Parks until the kernel has taken the
-- bytes. Throws 'InvalidFieldName' for a name that is not a token.
--
-- Does nothing for HTTP\/1.0 clients, once the application has responded, in other threads than the one the application
-- was called in, and for requests that were not made by this server.
--
-- > sendEarlyHints request [("Link", "</style.css>; rel=preload; as=style")]
sendEarlyHints :: Request -> ResponseHeaders -> IO ()
sendEarlyHints request = earlyHintsBy (vault request)

-- | 'sendEarlyHints' for the request with this vault.
earlyHintsBy :: Vault.Vault -> ResponseHeaders -> IO ()
earlyHintsBy belongings = sendInterimBy belongings (mkStatus 103 (C8.pack "Early Hints"))

-- | Sends an interim response, such as 102 (Processing), at once. The status is from 102 to 199: the server itself
-- sends
-- 100 and 101.
-- Throws 'InvalidStatusCode' for others.
--
-- > sendInterim request (mkStatus 102 "Processing") []
sendInterim :: Request -> Status -> ResponseHeaders -> IO ()
sendInterim request = sendInterimBy (vault request)

sendInterimBy :: Vault.Vault -> Status -> ResponseHeaders -> IO ()
sendInterimBy belongings status@(Status code _) fields = forM_ (contextIn belongings) $ \(Context exchange _) -> do
  when (code < 102 || code > 199) (throwIO (InvalidStatusCode code))
  ifServing exchange (either throwIO (inform exchange status) (hintFields fields))

-- | Ends a request of HTTP\/2 or HTTP\/3 without an answer: its stream is reset with this error code (RFC 9113, section
-- 7), or with the one of HTTP\/3 that means the same. What the application responds afterwards reaches nobody;
-- responding throws an @IOError@ then, as for a client that has left. For proxies, whose targets reset streams. False,
-- and nothing happens, over HTTP\/1, once the application has returned, and for requests that were not made by this
-- server. Any thread may call this.
resetRequest :: Request -> Word32 -> IO Bool
resetRequest request code = maybe (return False) (\context -> reset (contextExchange context) code) (contextOf request)

-- The fields that an interim response may have. No interim response is framed (RFC 9110, section 8.6; RFC 9112, section
-- 6.1), and only the final response says whether the connection stays open.
hintFields :: ResponseHeaders -> Either InvalidResponse ResponseHeaders
hintFields = traverse checked . filter (not . isOfConnection . fst)
  where
    isOfConnection name = name `elem` [hContentLength, hTransferEncoding, hConnection]
    checked (name, value)
      | not (isToken text) = Left (InvalidFieldName text)
      | otherwise = Right (name, harmless value)
      where
        text = CI.original name

-- | The parameters that were negotiated for the connection of a request. Nothing if it is not protected, and for
-- requests that were not made by this server.
requestNegotiated :: Request -> Maybe Negotiated
requestNegotiated request = contextOf request >>= exchangeNegotiated . contextExchange

-- | The trailers that the client has sent behind the body, without those that must be in a head (@mayBeTrailer@). Empty
-- before the body has been read to its end, if there are none, over HTTP\/1, and for requests that were not made by
-- this server. Any thread may ask, also after the application has returned. Does not block.
getRequestTrailers :: Request -> IO RequestHeaders
getRequestTrailers request = maybe (return []) (requestTrailers . contextExchange) (contextOf request)

-- | The 'HTTP2Data' that the application has set for the response. Nothing at first, and over HTTP\/1. Does not block.
getHTTP2Data :: Request -> IO (Maybe HTTP2Data)
getHTTP2Data request = maybe (return Nothing) readIORef (dataOf request)

-- | Sets the 'HTTP2Data' of the response. Call it before the application responds. Does nothing over HTTP\/1.
setHTTP2Data :: Request -> Maybe HTTP2Data -> IO ()
setHTTP2Data request value = forM_ (dataOf request) (`writeIORef` value)

-- | Changes the 'HTTP2Data' of the response. Does nothing over HTTP\/1.
--
-- > modifyHTTP2Data request $ \present -> Just (fromMaybe defaultHTTP2Data present) {http2dataTrailers = trailers}
modifyHTTP2Data :: Request -> (Maybe HTTP2Data -> Maybe HTTP2Data) -> IO ()
modifyHTTP2Data request change = forM_ (dataOf request) (`modifyIORef'` change)

-- | @belongingOfConnection request key make end@: a thing that belongs to the client's connection, and not to one
-- request. It is made when it is first asked for with this key. When the connection is over, the action @end@ runs with
-- it. Nothing over HTTP\/2 and HTTP\/3, where a connection carries many requests at a time, and for requests that were
-- not made by this server. Call it in the thread that the application was called in.
belongingOfConnection :: Request -> Vault.Key a -> IO a -> (a -> IO ()) -> IO (Maybe a)
belongingOfConnection request key make end =
  forM (contextOf request >>= belongingsOf . contextExchange) (\belongings -> belonging belongings key make end)

dataOf :: Request -> Maybe (IORef (Maybe HTTP2Data))
dataOf request = contextOf request >>= http2Data . contextExchange

-- | Whether the server of a request shuts down. An answer without an end, such as a stream of events, ends then. False
-- for requests that were not made by this server.
isServerEnding :: Request -> STM Bool
isServerEnding request =
  maybe (return False) (currentShuttingDownStateSTM . serverState . contextServer) (contextOf request)

-- | Is the client still there, as far as the system knows? A client that has ended its half of the connection counts as
-- gone, because the server cannot tell whether it will still receive. Any thread may ask, at any time: False once the
-- application has returned, even if the client has sent another request since. Does not block. True for requests that
-- were not made by this server.
isConnected :: Request -> IO Bool
isConnected request = (== Present) <$> getPresence request

-- | Tells whether the client is still there, and whether it has ended only its sending side: it may then still wait for
-- the answer (RFC 9112, section 9.6). 'Present' for requests that were not made by this server. Does not block.
getPresence :: Request -> IO Presence
getPresence request = maybe (return Present) (clientPresence . contextExchange) (contextOf request)

-- | Sends 100 (Continue) to a client that has ended its sending side ('EndedSending'). To one that waits it means
-- nothing. The system of one that is gone answers that there is no connection. So the client is 'Gone' soon afterwards.
-- Does nothing to other clients, and where 'sendEarlyHints' does nothing.
probeClient :: Request -> IO ()
probeClient request = forM_ (contextOf request) $ \(Context exchange _) -> ifServing exchange $ do
  ended <- (== EndedSending) <$> clientPresence exchange
  when ended (inform exchange continue100 [])

-- | @onDisconnect request callback action@ runs the action. If the client goes away meanwhile ('isConnected'), it runs
-- the callback once, in another thread. When the action ends, a callback that is still running is interrupted. The
-- callback also runs when the application has returned, if another thread's action goes on.
--
-- > onDisconnect request (cancel query) (wait query) >>= respond . page
--
-- While unread bytes wait on the connection, such as the client's next request, the check for the client's end happens
-- only five times a second.
--
-- An action that ends without waiting costs no thread: the thread that watches the client begins when the action waits
-- for the first time.
onDisconnect :: Request -> IO () -> IO a -> IO a
onDisconnect = onAbsence (/= Present)

-- | 'onDisconnect' for an application that also serves clients that have ended their sending side: only a client that
-- is 'Gone' counts.
onLoss :: Request -> IO () -> IO a -> IO a
onLoss = onAbsence (== Gone)

onAbsence :: (Presence -> Bool) -> Request -> IO () -> IO a -> IO a
onAbsence isAbsence request callback action = case contextOf request of
  Nothing -> action
  Just context -> mask $ \restore -> do
    watch <- newIORef NotBegun
    -- The manager runs when all threads that can run have had their turn.
    willBegin <- atNextIteration (beginWatch watch context)
    unless willBegin (beginWatch watch context)
    result <- restore action `onException` endWatch watch
    result <$ endWatch watch
  where
    beginWatch watch context = do
      state <- readIORef watch
      unless (state == Over) (void (mask_ (forkIOWithUnmask (watching watch context))))
    watching :: IORef Watch -> Context -> (forall a. IO a -> IO a) -> IO ()
    watching watch context unmask = do
      self <- myThreadId
      begins <- atomicModifyIORef' watch $ \state -> if state == Over then (Over, False) else (WatchedBy self, True)
      when begins (unmask (awaitAbsence isAbsence (contextExchange context) >> callback))
    endWatch watch = do
      state <- atomicModifyIORef' watch (Over,)
      case state of
        WatchedBy thread -> killThread thread
        _ -> return ()

-- | Whether a thread watches for the end of a client.
data Watch
  = NotBegun
  | WatchedBy !ThreadId
  | -- | The action has ended.
    Over
  deriving (Eq)

awaitAbsence :: (Presence -> Bool) -> Exchange -> IO ()
awaitAbsence isAbsence exchange = do
  awaitClientInput exchange
  absent <- isAbsence <$> clientPresence exchange
  unless absent (threadDelay pauseMicros >> awaitAbsence isAbsence exchange)
  where
    pauseMicros = 200000
