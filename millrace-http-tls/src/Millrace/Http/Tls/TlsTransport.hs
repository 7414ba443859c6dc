-- Must not know: requests, responses.

-- | A TLS connection as the server's transport.
--
-- Not covered by the version policy.
module Millrace.Http.Tls.TlsTransport (tlsFunctions) where

import Control.Monad (void)
import qualified Data.ByteString.Char8 as Char8
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Millrace.Deadline (Deadline, deadlineAfter, microseconds)
import qualified Millrace.Http.Transport as Http
import qualified Millrace.Http.Transport.Plain as Plain
import Millrace.Socket (ShutdownCmd (..), setReadDeadline, shutdown)
import qualified Millrace.Tls as Tls
import qualified Millrace.Tls.Borrowed as Borrowed

-- | The transport functions of a connection whose handshake is done.
tlsFunctions :: Tls.Connection -> Http.Functions
tlsFunctions connection =
  Http.Functions
    { Http.functionsName = show connection,
      Http.functionsNegotiated = Just (agreed (Tls.negotiated connection)),
      Http.functionsReceiveFirst = \micros -> Borrowed.receiveBorrowed (Borrowed.Within micros) connection,
      Http.functionsReceiveInto = receiveUntil,
      Http.functionsSetReceiveDeadline = setReadDeadline socket,
      Http.functionsHasArrived = hasInput (Plain.hasArrived socket),
      -- A client that ends its sending side does so within TLS, and keeps the socket open. A client whose socket has
      -- ended has left.
      Http.functionsPresence = (\ended -> if ended then Http.Gone else Http.Present) <$> Plain.hasEnded socket,
      Http.functionsAwaitInput = void (hasInput (True <$ Plain.awaitInput socket)),
      Http.functionsQuietMillis = Plain.quietMillis socket,
      Http.functionsSend = \following limit (Http.Piece bytes count) ->
        outcome <$> Borrowed.attemptSend (followedBy following) (within limit) connection bytes count,
      Http.functionsSendFile = Just $ \limit (Http.FileSlice file offset count) ->
        outcome <$> Borrowed.attemptSendFile (within limit) connection file offset count,
      Http.functionsSendThenReceive = Just (Http.SendsThenReceives (`Borrowed.sendThenReceive` connection)),
      Http.functionsQueuedBytes = Plain.queuedBytes socket,
      Http.functionsEndSending = endSending connection,
      Http.functionsEndReceiving = Plain.ignoringErrors (shutdown socket ShutdownReceive),
      Http.functionsAbort = Plain.ignoringErrors (shutdown socket ShutdownBoth),
      Http.functionsClose = Tls.close connection
    }
  where
    socket = Tls.connectionSocket connection
    receiveUntil :: Deadline -> Ptr Word8 -> Int -> IO Int
    receiveUntil deadline = Borrowed.receiveBuf (Borrowed.Before deadline) connection
    -- If there are decrypted bytes already, do not ask the socket.
    hasInput otherwise' = Borrowed.hasInput connection >>= \isHere -> if isHere then return True else otherwise'

-- If the client takes no bytes, it gets no close_notify. In any case nothing more is sent.
endSending :: Tls.Connection -> IO ()
endSending connection = do
  deadline <- deadlineAfter (microseconds patienceMicros)
  Plain.ignoringErrors (Tls.endSendingBefore deadline connection)
  shutdown (Tls.connectionSocket connection) ShutdownSend
  where
    patienceMicros = 1000000

within :: Http.TimeLimit -> Borrowed.Limit
within (Http.Within micros) = Borrowed.Within micros
within (Http.Before deadline) = Borrowed.Before deadline

followedBy :: Http.Following -> Borrowed.Following
followedBy Http.NothingFollows = Borrowed.NothingFollows
followedBy Http.MoreFollows = Borrowed.MoreFollows
followedBy Http.EndFollows = Borrowed.EndFollows

outcome :: Borrowed.Attempt -> Http.Attempt
outcome attempt = case attempt of
  Borrowed.Moved count -> Http.Moved count
  Borrowed.TimedOut -> Http.TimedOut
  Borrowed.Refused errno -> Http.Failed errno

agreed :: Tls.Negotiated -> Http.Negotiated
agreed found =
  Http.Negotiated
    { Http.negotiatedProtocol = Tls.negotiatedProtocol found,
      Http.negotiatedVersion = Char8.pack (if Tls.negotiatedVersion found == Tls.Tls13 then "TLSv1.3" else "TLSv1.2"),
      Http.negotiatedCipher = Tls.negotiatedCipher found,
      Http.negotiatedServerName = Tls.negotiatedServerName found,
      Http.negotiatedIsResumed = Tls.negotiatedIsResumed found,
      Http.negotiatedPeerCertificate = Tls.certificateDer <$> Tls.negotiatedPeerCertificate found
    }
