-- All that works on a stream is compiled for streams of this kind, here.
{-# OPTIONS_GHC -fspecialise-aggressively #-}

-- |
-- A request of an HTTP\/3 connection while it is served. Must not know: servers.
module Millrace.Http.Http3.Stream (Stream (..), serveStreamHere) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Int (Int64)
import Foreign.Ptr (Ptr)
import Millrace.Http.Exchange (Operations)
import Millrace.Http.Http3.Endpoint
import Millrace.Http.Http3.Engine (errorCode)
import Millrace.Http.Multiplexed.Engine hiding (Stream)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Exchange (Request, operationsOf)
import Millrace.Http.Multiplexed.Head (Security (..))
import Millrace.Http.Multiplexed.Serve (Serving (..), serveRequest)
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Transport (Negotiated (..))
import Network.HTTP.Types (HttpVersion (..))
import Network.Socket (SockAddr)
import Network.Wai (Application)

-- | A request that is served.
data Stream = Stream
  { streamEndpoint :: !Endpoint,
    streamEngine :: !(Ptr Engine.Stream),
    -- | Its numbers: in its connection, and in the endpoint.
    streamId :: !Int64,
    streamNoticeKey :: !Int,
    streamPeer :: !SockAddr,
    streamCommon :: !Common
  }

instance Multiplexed Stream where
  commonOf = streamCommon
  serverOf = endpointServer . streamEndpoint
  clientOf = streamPeer
  negotiatedOf _ = Just agreed
  headOf = streamHead . streamEngine
  copyHeadOf = copyStreamHead . streamEngine
  describeStream stream = "HTTP/3 connection of " ++ show (streamPeer stream) ++ ", stream " ++ show (streamId stream)

  -- A connection that is lost is not reported by itself: a client may leave without a word.
  tellLossOf _ = return ()
  awaitEventOf stream prepare event = waitFor (streamEndpoint stream) prepare (noticeKey (streamNoticeKey stream) event)
  flushOf = flush . streamEndpoint
  flushIfNeededOf = flushIfNeeded . streamEndpoint
  wakeOf = wakeNow . streamEndpoint
  hasEndedOf = streamHasEnded . streamEngine
  isClosedOf = streamIsClosed . streamEngine
  wasResetOf = streamWasReset . streamEngine

  -- The streams of a client that has left are closed.
  isLeftOf _ = return False
  awaitCloseOf = awaitClose . streamEngine
  unreadOf = streamUnread . streamEngine
  receivedOf = streamReceived . streamEngine
  sentOf = streamSent . streamEngine
  progressOf = streamProgress . streamEngine

  -- What was read opens the client's window.
  readOf stream target size = do
    result <- readStream (streamEngine stream) target size
    flushIfNeeded (streamEndpoint stream)
    return result
  endReadingOf = endReading . streamEngine
  trailersOf = readTrailers . streamEngine
  answerOf = answerStream . streamEngine
  takeBackOf = takeBackStream . streamEngine
  informOf = informStream . streamEngine
  writeOf = writeStream . streamEngine
  writePieceOf = writePiece . streamEngine
  outputLowOf _ = outputLow
  awaitOutputOf = awaitOutput . streamEngine
  awaitWindowOf = awaitWindow . streamEngine
  finishOf = finishStream . streamEngine
  cancelOf stream = resetStreamWith (streamEngine stream) (errorCode 8)
  failOf = failStream . streamEngine
  resetOf stream code = True <$ resetStreamWith (streamEngine stream) (errorCode code)
  markFlushedOf = markFlushed . streamEngine

agreed :: Negotiated
agreed =
  Negotiated
    { negotiatedProtocol = Just (C8.pack "h3"),
      negotiatedVersion = C8.pack "TLSv1.3",
      negotiatedCipher = B.empty,
      negotiatedServerName = Nothing,
      negotiatedIsResumed = False,
      negotiatedPeerCertificate = Nothing
    }

operations :: Operations (Request Stream)
operations = operationsOf

-- | Serves a request by the application. Throws only asynchronous exceptions. The caller releases the stream.
serveStreamHere :: Application -> Stream -> IO ()
serveStreamHere application = serveRequest (Serving operations (HttpVersion 3 0) Protected application)
