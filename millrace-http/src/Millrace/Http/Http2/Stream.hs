-- All that works on a stream is compiled for streams of this kind, here.
{-# OPTIONS_GHC -fspecialise-aggressively #-}

-- |
-- A request of an HTTP\/2 connection while it is served. Must not know: sockets, servers.
module Millrace.Http.Http2.Stream (Stream (..), serveStreamHere) where

import Foreign.Ptr (Ptr)
import Millrace.Http.Exchange (Operations)
import Millrace.Http.Http2.Connection
import Millrace.Http.Multiplexed.Engine hiding (Stream)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Exchange (Request, operationsOf)
import Millrace.Http.Multiplexed.Head (Security)
import Millrace.Http.Multiplexed.Serve (Serving (..), serveRequest)
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Transport (describeTransport, negotiated, transportPeer)
import Network.HTTP.Types (http20)
import Network.Wai (Application)

-- | A request that is served.
data Stream = Stream
  { streamConnection :: !Connection,
    streamEngine :: !(Ptr Engine.Stream),
    streamNumber :: !Int,
    streamCommon :: !Common
  }

instance Multiplexed Stream where
  commonOf = streamCommon
  serverOf = connectionServer . streamConnection
  clientOf = transportPeer . connectionTransport . streamConnection
  negotiatedOf = negotiated . connectionTransport . streamConnection
  headOf = streamHead . streamEngine
  copyHeadOf = copyStreamHead . streamEngine
  describeStream stream = describeTransport (connectionTransport (streamConnection stream)) ++ ", stream " ++ show (streamNumber stream)
  tellLossOf = tellLoss . streamConnection
  awaitEventOf stream prepare event = waitForWith (streamConnection stream) prepare (noticeKey (streamNumber stream) event)
  flushOf = flush . streamConnection
  flushIfNeededOf = flushIfNeeded . streamConnection
  wakeOf = wakeNow . streamConnection
  hasEndedOf = streamHasEnded . streamEngine
  isClosedOf = streamIsClosed . streamEngine
  wasResetOf = streamWasReset . streamEngine
  isLeftOf = streamIsLeft . streamEngine
  awaitCloseOf = awaitClose . streamEngine
  unreadOf = streamUnread . streamEngine
  receivedOf = streamReceived . streamEngine
  sentOf = streamSent . streamEngine
  progressOf = streamProgress . streamEngine
  readOf = readStream . streamEngine
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
  cancelOf stream = resetStreamWith (streamEngine stream) 8 -- CANCEL (RFC 9113, section 7)
  resetOf stream code = True <$ resetStreamWith (streamEngine stream) (fromIntegral code)
  failOf = failStream . streamEngine
  markFlushedOf = markFlushed . streamEngine
  {-# INLINE commonOf #-}
  {-# INLINE serverOf #-}
  {-# INLINE clientOf #-}
  {-# INLINE negotiatedOf #-}
  {-# INLINE headOf #-}
  {-# INLINE copyHeadOf #-}
  {-# INLINE describeStream #-}
  {-# INLINE awaitEventOf #-}
  {-# INLINE answerOf #-}

operations :: Operations (Request Stream)
operations = operationsOf

-- | Serves a request by the application. Throws only asynchronous exceptions. The caller releases the stream.
serveStreamHere :: Security -> Application -> Stream -> IO ()
serveStreamHere security application = serveRequest (Serving operations http20 security application)
