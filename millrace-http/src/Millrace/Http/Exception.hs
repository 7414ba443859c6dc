{-# LANGUAGE ScopedTypeVariables #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- Exceptions for faulty requests and responses, and the statuses that answer them.
module Millrace.Http.Exception
  ( InvalidRequest (..),
    invalidRequestFromError,
    InvalidResponse (..),
    FailedWithAnswer (..),
    ConnectionsCutOff (..),
    HandshakeFailed (..),
    ConnectionLimit (..),
    ConnectionLimitExceeded (..),
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,
    isAsynchronous,
    isTimeExpired,
    acceptingConnection,
    sendingResponse,
    usingFile,
  )
where

import Control.Exception (AsyncException (..), Exception (..), SomeAsyncException (..), SomeException (..), throw)
import Control.Monad (when)
import Data.ByteString.Builder (stringUtf8)
import qualified Data.ByteString.Char8 as C8
import Data.Char (ord)
import Data.Maybe (isJust)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Http.Http1.Wire (errorRequestLine, errorStatus, errorTarget, errorText)
import Millrace.Internal.StandardStream (oneLine, printSeldom)
import Network.HTTP.Types
import Network.Socket (SockAddr)
import Network.Wai (Request, Response, rawPathInfo, remoteHost, requestMethod, responseBuilder)
import Numeric (showHex)
import System.Environment (getProgName)

-- | A request that cannot be served. The first nine constructors are Warp's; 'NotEnoughLines', 'NonHttp' and
-- 'OverLargeHeader' are not raised by this version.
data InvalidRequest
  = NotEnoughLines [String]
  | -- | Malformed request line or request target: 400.
    BadFirstLine String
  | NonHttp
  | -- | The connection ended within a request head: 400.
    IncompleteHeaders
  | -- | The connection ended too early. Reading a request body throws it when the body is incomplete.
    ConnectionClosedByPeer
  | OverLargeHeader
  | -- | A required PROXY header is missing or malformed: 400.
    BadProxyHeader String
  | -- | 413.
    PayloadTooLarge
  | -- | The head is too long or has too many fields: 431.
    RequestHeaderFieldsTooLarge
  | -- | Malformed fields or framing, and what was wrong: 400.
    BadRequest String
  | -- | 414.
    RequestTargetTooLong
  | -- | A transfer coding or method that no server could guess: 501.
    UnsupportedRequest String
  | -- | Neither HTTP\/1.0 nor HTTP\/1.1: 505.
    UnsupportedVersion
  | -- | An expectation other than @100-continue@: 417.
    UnsupportedExpectation
  | -- | A request for an @https@ URI on a connection that is not protected: 421.
    MisdirectedRequest
  | -- | The client took longer than 'Network.Wai.Handler.Millrace.setTimeout' allows: 408.
    RequestTimedOut
  deriving (Eq, Show)

instance Exception InvalidRequest

-- | The status of the response to it.
invalidRequestStatus :: InvalidRequest -> Status
invalidRequestStatus reason = case reason of
  PayloadTooLarge -> status413
  RequestHeaderFieldsTooLarge -> status431
  RequestTargetTooLong -> status414
  MisdirectedRequest -> mkStatus 421 (C8.pack "Misdirected Request")
  UnsupportedRequest _ -> status501
  UnsupportedVersion -> status505
  UnsupportedExpectation -> status417
  RequestTimedOut -> status408
  _ -> status400

-- | The exception for an error of the parsers.
invalidRequestFromError :: Int -> InvalidRequest
invalidRequestFromError number
  | number == errorRequestLine || number == errorTarget = BadFirstLine text
  | otherwise = case errorStatus number of
    414 -> RequestTargetTooLong
    431 -> RequestHeaderFieldsTooLarge
    501 -> UnsupportedRequest text
    505 -> UnsupportedVersion
    _ -> BadRequest text
  where
    text = errorText number

-- | A response that cannot be sent. The action with which an application responds throws it; if nothing was sent yet,
-- the client gets a 500.
data InvalidResponse
  = -- | A field name that is not a token (RFC 9110, section 5.1).
    InvalidFieldName C8.ByteString
  | -- | A Transfer-Encoding other than @chunked@: framing is the server's.
    InvalidTransferEncoding C8.ByteString
  | -- | A Content-Length that is not a number, or two that differ.
    InvalidContentLength C8.ByteString
  | -- | A status code that is not between 200 and 999: those below are for interim responses.
    InvalidStatusCode Int
  | -- | A part of a file with a negative or an impossible offset or length (in this order).
    InvalidFilePart FilePath Integer Integer
  | -- | Content-Length as given, and the length that the body has or has reached.
    ContentLengthMismatch Int Int
  | -- | The head does not fit into this many bytes.
    ResponseHeadTooLarge Int
  | -- | The application responded a second time, when the first response had begun to be sent, or was still being made.
    RespondedTwice
  | -- | The application returned without having responded.
    NotResponded
  | -- | The application took longer than 'Network.Wai.Handler.Millrace.setTotalTimeout' allows: 503.
    ApplicationTimedOut
  | -- | A file became shorter while it was sent.
    FileTruncated FilePath
  | -- | The body writer or the request body was used after its request was over.
    UsedTooLate
  deriving (Eq, Show)

instance Exception InvalidResponse

-- | An exception, and the answer to it. An application that knows a better answer than
-- 'Network.Wai.Handler.Millrace.setOnExceptionResponse' throws this, for example a page of its site. All else is as if
-- the exception itself had been thrown: it is reported without the answer, and the answer is only sent if nothing of
-- another one was.
--
-- > withPages application request respond = application request respond `catch` \failure ->
-- >   throwIO (FailedWithAnswer (pageFor failure) failure)
data FailedWithAnswer = FailedWithAnswer Response SomeException

instance Show FailedWithAnswer where
  showsPrec depth (FailedWithAnswer _ failure) = showsPrec depth failure

instance Exception FailedWithAnswer where
  displayException (FailedWithAnswer _ failure) = displayed failure

-- | This many connections were still busy when the time for a shutdown was over
-- ('Network.Wai.Handler.Millrace.setGracefulShutdownTimeout'). Reported; not thrown.
newtype ConnectionsCutOff = ConnectionsCutOff Int
  deriving (Eq, Show)

instance Exception ConnectionsCutOff where
  displayException (ConnectionsCutOff count) =
    show count
      ++ (if count == 1 then " connection" else " connections")
      ++ " cut off: the time for the shutdown is over"

-- | A limit for which a connection of HTTP\/2 or HTTP\/3 ends. The server calls the action of
-- 'Network.Wai.Handler.Millrace.setOnLimit' each time.
data ConnectionLimit
  = -- | 'Network.Wai.Handler.Millrace.setHTTP2MaximumFrames'
    FramesWithoutUse
  | -- | 'Network.Wai.Handler.Millrace.setHTTP2MaximumResets'
    CancelledRequests
  | -- | A head far beyond 'Network.Wai.Handler.Millrace.setMaximumHeaderCount' or
    -- 'Network.Wai.Handler.Millrace.setMaxTotalHeaderLength', or in too many frames.
    LargeHeads
  | -- | Over HTTP\/3 alone: packets in the wrong order wait for the missing ones, and may take a hundred times as much
    -- memory as they have bytes. A connection may take 4 MiB beyond its window.
    ConnectionMemory
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | A client has gone beyond a limit, and its connection ends. Reported at most once a second; not thrown.
data ConnectionLimitExceeded = ConnectionLimitExceeded ConnectionLimit SockAddr
  deriving (Eq, Show)

instance Exception ConnectionLimitExceeded where
  displayException (ConnectionLimitExceeded limit client) = "the connection of " ++ show client ++ " ends: " ++ told
    where
      told = case limit of
        FramesWithoutUse -> "too many frames without use (setHTTP2MaximumFrames, the limit useless-frames)"
        CancelledRequests -> "too many cancelled requests (setHTTP2MaximumResets, the limit resets)"
        LargeHeads -> "too many fields in a head (setMaxTotalHeaderLength, the limit head-bytes)"
        ConnectionMemory -> "too much memory for one connection"

-- | A client and the server could not agree on how to protect their connection. The client causes it, unless the
-- server's certificates are wrong. Reported; not thrown.
newtype HandshakeFailed = HandshakeFailed SomeException
  deriving (Show)

instance Exception HandshakeFailed where
  displayException (HandshakeFailed (SomeException reason)) =
    "the handshake with a client failed: " ++ displayException reason

-- | Prints exceptions for which 'defaultShouldDisplayException' is True on standard error, each in one line: with the
-- program's name and, if there is a request, its method, its path and the client. Of the lines that a program prints in
-- this way, and by @printing@ of "Millrace.Socket.Connect", at most ten in a second are printed, and then how many were
-- left out.
--
-- > guest-book: GET /entries from 127.0.0.1:39212: Prelude.head: empty list
defaultOnException :: Maybe Request -> SomeException -> IO ()
defaultOnException request exception = when (defaultShouldDisplayException exception) $ do
  name <- getProgName
  printSeldom (name ++ ": " ++ maybe "" described request ++ oneLine (displayed exception))
  where
    described found =
      concat
        [ visible 20 (requestMethod found),
          " ",
          visible 200 (rawPathInfo found),
          " from ",
          show (remoteHost found),
          ": "
        ]
    visible most bytes =
      concatMap escaped (C8.unpack (C8.take most bytes)) ++ (if C8.length bytes > most then "..." else "")
    escaped character
      | character > ' ' && character < '\DEL' && character /= '\\' = [character]
      | otherwise = "\\x" ++ drop 1 (showHex (256 + ord character) "")

-- | True for all exceptions except 'ThreadKilled' and those that clients cause: 'InvalidRequest', 'HandshakeFailed',
-- reset connections, and the server's own time limits. Errors of opening or reading a file are shown, also while it is
-- sent.
defaultShouldDisplayException :: SomeException -> Bool
defaultShouldDisplayException exception
  | Just ThreadKilled <- fromException exception = False
  | Just (_ :: InvalidRequest) <- fromException exception = False
  | Just (_ :: HandshakeFailed) <- fromException exception = False
  | Just failure <- fromException exception =
    ioe_location failure == usingFile || not (isLostClient failure || isSlowClient failure)
  | otherwise = True
  where
    -- ESTALE, an error of network file systems, has the same IOErrorType as a reset connection.
    isLostClient failure = ioe_type failure `elem` [ResourceVanished, InvalidArgument]
    -- Errors of connections that the application has opened itself are not the client's.
    isSlowClient failure = ioe_type failure == TimeExpired && ioe_location failure == sendingResponse

-- | The location in an @IOError@ that reports that connections wait for descriptors.
acceptingConnection :: String
acceptingConnection = "Network.Wai.Handler.Millrace: accepting a connection"

-- | The location in an @IOError@ of sending to a client.
sendingResponse :: String
sendingResponse = "Network.Wai.Handler.Millrace: sending a response"

-- | The location in an @IOError@ of opening or reading a file.
usingFile :: String
usingFile = "Network.Wai.Handler.Millrace"

-- | The status of an 'InvalidRequest' with a plain text; 503 if the time of the application is over, or if the deadline
-- of something that it waited for has passed; and 500 \"Something went wrong\" for everything else.
-- Asynchronous exceptions are thrown again.
defaultOnExceptionResponse :: SomeException -> Response
defaultOnExceptionResponse exception
  | isAsynchronous exception = throw exception
  | Just reason <- fromException exception =
    let status = invalidRequestStatus reason in plain status (C8.unpack (statusMessage status))
  | Just ApplicationTimedOut <- fromException exception = unavailable
  | isTimeExpired exception = unavailable
  | otherwise = plain internalServerError500 "Something went wrong"
  where
    unavailable = plain serviceUnavailable503 "Service Unavailable"

-- | Shows the exception to the client. For debugging only: it reveals internals.
exceptionResponseForDebug :: SomeException -> Response
exceptionResponseForDebug exception = plain internalServerError500 ("Exception: " ++ displayed exception)

-- The text of an exception. Not 'displayException' of the 'SomeException': since base 4.20 it adds a backtrace, and a
-- client must not learn that much about the program.
displayed :: SomeException -> String
displayed (SomeException exception) = displayException exception

plain :: Status -> String -> Response
plain status text = responseBuilder status [(hContentType, C8.pack "text/plain; charset=utf-8")] (stringUtf8 text)

-- | Was it thrown from outside?
isAsynchronous :: SomeException -> Bool
isAsynchronous exception = isJust (fromException exception :: Maybe SomeAsyncException)

-- | Did an operation's deadline pass?
isTimeExpired :: SomeException -> Bool
isTimeExpired exception = case fromException exception of
  Just failure -> ioe_type failure == TimeExpired
  Nothing -> False
