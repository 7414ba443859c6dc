{-# LANGUAGE OverloadedStrings #-}

-- | gRPC as a WAI application: messages in both directions, and the status of a call in the trailers.
module Grpc (Call (..), Messages, messagesOf, Status (..), Code (..), Cancelled (..), grpc, unary) where

import Control.Concurrent (myThreadId)
import Control.Exception
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, byteString)
import Data.ByteString.Builder.Prim (BoundedPrim, primFixed, primMapListBounded, word32BE, word8, (>*<))
import Data.ByteString.Builder.Prim.Internal (boundedPrim, runB, runF, sizeBound)
import qualified Data.ByteString.Char8 as C8
import Data.Char (isDigit)
import Data.IORef
import Data.Maybe (fromMaybe)
import Foreign.Ptr (minusPtr, plusPtr)
import Millrace.Timer (timeoutAfter)
import Network.HTTP.Types (RequestHeaders, hContentType, status200, status415, urlEncode)
import Network.Wai
import Network.Wai.Handler.Millrace

-- | A call, as its method sees it.
data Call = Call
  { -- | The client's next message; Nothing at the end.
    nextMessage :: IO (Maybe ByteString),
    sendMessage :: ByteString -> IO (),
    -- | Sends many: each piece of them is sent when it is full, and the last one at the end of the call.
    sendMessages :: Messages -> IO ()
  }

-- | Messages that are written straight into the connection's memory.
newtype Messages = Messages Builder

-- | How a call ends. A method that returns ends it with 'Ok'; to end it otherwise, it throws one of these.
data Status = Status Code ByteString
  deriving (Show)

instance Exception Status

-- | Their numbers begin at 0, in this order.
data Code
  = Ok
  | CancelledByClient
  | Unknown
  | InvalidArgument
  | DeadlineExceeded
  | NotFound
  | AlreadyExists
  | PermissionDenied
  | ResourceExhausted
  | FailedPrecondition
  | Aborted
  | OutOfRange
  | Unimplemented
  | Internal
  | Unavailable
  | DataLoss
  | Unauthenticated
  deriving (Enum, Show)

-- | Thrown to the thread of a call that the client has cancelled.
data Cancelled = Cancelled
  deriving (Show)

instance Exception Cancelled where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Serves these methods, by path.
grpc :: (ByteString -> Maybe (Call -> IO ())) -> Application
grpc methods request respond
  | isGrpc (requestHeaders request) = do
    status <- newIORef (Status Ok "")
    setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = statusBehind status})
    respond . responseStream status200 [(hContentType, "application/grpc")] $ \write flush -> do
      flush
      held <- newIORef ""
      let send message = write (frame message) >> flush
          call = Call (receiveMessage request held) send (\(Messages framed) -> write framed)
          unknown _ = throwIO (Status Unimplemented "there is no such method")
      outcome request (fromMaybe unknown (methods (rawPathInfo request)) call) >>= writeIORef status
  | otherwise = respond (responseLBS status415 [] "")

-- | Serves one method that answers one message with one message, which is 'messagesOf' a list of one. Its answer is in
-- one piece, which costs less than a stream.
unary :: (ByteString -> IO Messages) -> Application
unary method request respond = do
  held <- newIORef ""
  reply <- newIORef (Messages mempty)
  let answer = receiveMessage request held >>= maybe (throwIO (Status InvalidArgument "a message is missing")) method
  status <- outcome request (answer >>= writeIORef reply) >>= newIORef
  setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = statusBehind status})
  Messages framed <- readIORef reply
  respond (responseBuilder status200 [(hContentType, "application/grpc")] framed)

isGrpc :: RequestHeaders -> Bool
isGrpc fields = case lookup hContentType fields >>= B.stripPrefix "application/grpc" of
  Just rest -> B.null rest || C8.head rest `elem` ("+;" :: String)
  Nothing -> False

-- The server asks for the trailers after the whole body was written, so the status is known then.
statusBehind :: IORef Status -> TrailersMaker
statusBehind status (Just _) = return (NextTrailersMaker (statusBehind status))
statusBehind status Nothing = do
  Status code text <- readIORef status
  return (Trailers [("grpc-status", C8.pack (show (fromEnum code))), ("grpc-message", urlEncode False text)])

-- Runs a method for at most as long as the client waits.
outcome :: Request -> IO () -> IO Status
outcome request method = do
  thread <- myThreadId
  let cancellable = onDisconnect request (throwTo thread Cancelled) (Status Ok "" <$ method)
      limited = case timeLimit <$> lookup "grpc-timeout" (requestHeaders request) of
        Just (Just most) ->
          fromMaybe (Status DeadlineExceeded "the deadline has passed")
            <$> timeoutAfter most cancellable
        Just Nothing -> return (Status Internal "grpc-timeout is malformed")
        Nothing -> cancellable
  limited
    `catches` [ Handler return,
                Handler (\Cancelled -> return (Status CancelledByClient "")),
                -- Other exceptions that were thrown to this thread end the server, not the call.
                Handler (\failure -> throwIO (failure :: SomeAsyncException)),
                Handler (\failure -> return (Status Unknown (C8.pack (displayException (failure :: SomeException)))))
              ]

-- A number of at most eight digits and a unit, as in @100m@.
timeLimit :: ByteString -> Maybe Duration
timeLimit text = do
  let (digits, unit) = C8.span isDigit text
  ofUnit <- lookup unit units
  (amount, _) <- if B.length digits <= 8 then C8.readInt digits else Nothing
  return (ofUnit amount)
  where
    units =
      [("H", hours), ("M", minutes), ("S", seconds), ("m", milliseconds), ("u", microseconds), ("n", nanoseconds)]

------------------------------------------------------------------------------------------------------------------------
-- Messages: a byte that says whether it is compressed, four for its length, and the message itself

frame :: ByteString -> Builder
frame message = primFixed (word8 >*< word32BE) (0, fromIntegral (B.length message)) <> byteString message

-- | A message for each value of a list, which may be lazy. The loop is compiled for the encoding where this is called.
messagesOf :: BoundedPrim a -> [a] -> Messages
messagesOf encoding values = Messages (primMapListBounded framed values)
  where
    framed = boundedPrim (5 + sizeBound encoding) $ \value start -> do
      end <- runB encoding value (start `plusPtr` 5)
      runF (word8 >*< word32BE) (0, fromIntegral (end `minusPtr` start - 5)) start
      return end
{-# INLINE messagesOf #-}

-- | The next message. Keeps the bytes that follow it.
receiveMessage :: Request -> IORef ByteString -> IO (Maybe ByteString)
receiveMessage request held = do
  start <- receiveBytes request held 5
  case B.unpack start of
    [] -> return Nothing
    [0, a, b, c, d] -> do
      let size = foldl (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 [a, b, c, d]
      if size > messageMax then throwIO (Status ResourceExhausted "a message is too long") else Just <$> content size
    [_, _, _, _, _] -> throwIO (Status Unimplemented "messages must not be compressed")
    _ -> incomplete
  where
    content size = do
      message <- receiveBytes request held size
      if B.length message == size then return message else incomplete
    incomplete = throwIO (Status Internal "a message is incomplete")
    messageMax = 4194304

-- This many bytes, or fewer if the client has ended its side.
receiveBytes :: Request -> IORef ByteString -> Int -> IO ByteString
receiveBytes request held count = do
  first <- readIORef held
  gather [first] (B.length first)
  where
    gather chunks size
      | size >= count = keep chunks
      | otherwise = do
        chunk <- getRequestBodyChunk request
        if B.null chunk then keep chunks else gather (chunk : chunks) (size + B.length chunk)
    keep chunks = do
      let (wanted, rest) = B.splitAt count (B.concat (reverse chunks))
      wanted <$ writeIORef held rest
