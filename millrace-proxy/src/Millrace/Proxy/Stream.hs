{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | One request on a stream of an HTTP\/2 connection to a target.
module Millrace.Proxy.Stream
  ( passOnStream,
    connectShared,
  )
where

import Control.Exception
import Control.Monad (void)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Base64 as Base64
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Maybe (isJust)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CSize (..))
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline
import qualified Millrace.HttpClient.Http2 as Http2
import Millrace.Proxy.Exchange
import Millrace.Proxy.ForwardedRequest
import Millrace.Proxy.Link
import Millrace.Proxy.Member
import Millrace.Proxy.Pool
import Millrace.Proxy.Problem
import Millrace.Proxy.RequestHead
import Millrace.Proxy.ResponseHead
import Millrace.Proxy.Settings
import Millrace.Proxy.SharedConnections
import Millrace.Proxy.Target
import Millrace.Proxy.Tunnel
import Network.HTTP.Types
import Network.Wai

-- | Passes a request to a target over HTTP\/2. 'Nothing': it must go over HTTP\/1.1.
passOnStream :: Settings -> Secured -> ForwardedRequest -> Member -> IO (Maybe ForwardOutcome)
passOnStream settings secured forwarded member = case composeFields scheme outgoing request of
  Left reason -> return (Just (Failed (Problem Nothing (BadRequest reason)) GiveUp))
  Right fields -> attempt (2 :: Int) (map sensible fields)
  where
    request = forwardedRequest forwarded
    target = memberTarget member
    scheme = if isProtected (targetScheme target) then "https" else "http"
    outgoing = (forwardedOutgoing forwarded) {outgoingAuthority = memberAuthority member}
    trouble = Problem (Just target)
    part = case (forwardedBody forwarded, forwardedUpgrade forwarded) of
      (Absent, Nothing) -> Http2.NothingFollows
      _ -> Http2.BodyFollows
    attempt left fields = mask $ \restore -> do
      deadline <- earlier (forwardedDeadline forwarded) <$> deadlineAfter (connectLimit (limits settings))
      got <-
        synchronously
          (beginShared (memberShared member) deadline (connectShared settings secured member) fits fields part)
      case got of
        Left failure -> do
          let reason = trouble (unconnected failure)
          noteProblem settings member reason
          return (Just (Failed reason TryOthers))
        Right SpeaksVersion1 -> return Nothing
        Right NotFit
          | targetScheme target == Https -> return Nothing
          | otherwise -> return (Just (Failed (trouble CannotUpgrade) GiveUp))
        Right NotValid ->
          return
            (Just (Failed (Problem Nothing (BadRequest "the target's connection does not take its fields")) GiveUp))
        Right (Got stream _) -> do
          outcome <- restore (onStream settings forwarded member stream) `finally` Http2.endExchange stream
          case outcome of
            Right received -> return (Just (Delivered received))
            Left (reason, mayRepeat)
              | mayRepeat && isWantingVersion1 reason && targetScheme target == Https -> return Nothing
              | mayRepeat && left > 0 && not (isWantingVersion1 reason) -> restore (attempt (left - 1) fields)
              | otherwise -> do
                noteProblem settings member reason
                return
                  (Just (Failed reason (if mayRepeat && not (isWantingVersion1 reason) then TryOthers else GiveUp)))
    fits connection = if isJust (forwardedUpgrade forwarded) then Http2.takesConnect connection else return True

-- The target wants this request over HTTP/1.1.
isWantingVersion1 :: Problem -> Bool
isWantingVersion1 reason = problemCause reason == ResetByTarget http11Required

-- HTTP_1_1_REQUIRED (RFC 9113, section 7).
http11Required :: Word32
http11Required = 13

-- Values that differ from request to request would only drive others out of the table for compression; secrets should
-- not be in one that clients share.
sensible :: (ByteString, ByteString) -> (ByteString, ByteString, Http2.Secrecy)
sensible (name, value) =
  ( name,
    value,
    if name `elem` ["authorization", "cookie", "x-request-id", "traceparent", "x-forwarded-for", "forwarded", ":path"]
      then Http2.Secret
      else Http2.Kept
  )

-- | Opens a connection to a target. 'Nothing': the target has chosen HTTP\/1.1; then the connection is in its pool.
connectShared :: Settings -> Secured -> Member -> IO (Maybe Http2.Connection)
connectShared settings secured member = mask $ \restore -> do
  deadline <- deadlineAfter (connectLimit (limits settings))
  (link, version) <- restore (connectLink deadline secured (memberTarget member))
  case version of
    Version1 -> Nothing <$ keepLink (memberPool member) link
    Version2 -> Just <$> Http2.openConnection deadline streams (transportOf link)
  where
    streams =
      Http2.defaultSettings
        { Http2.headBytesMax = headBytesMax (limits settings),
          Http2.sendLimit = sendLimit (limits settings),
          Http2.pingAfter = max (milliseconds 1) (silenceLimit (limits settings))
        }

-- A 'Problem' from before the response is returned, and whether the request may be sent again.
type Trouble = (Problem, Bool)

onStream :: Settings -> ForwardedRequest -> Member -> Http2.Exchange -> IO (Either Trouble ResponseReceived)
onStream settings forwarded member stream = do
  exchange <- newExchange (limits settings) target request (forwardedDeadline forwarded) link (ByConnection endBody)
  begun <- try (sendHeld exchange)
  case begun of
    Left reason -> Left <$> judged exchange reason
    Right () -> withSender exchange (forwardedBody forwarded) $ do
      outcome <- try (takeHeads exchange (oneHead exchange) >>= deliver settings forwarded member exchange stream)
      case outcome of
        Left reason -> Left <$> judged exchange reason
        Right respond -> noteSuccess member >> Right <$> respond
  where
    request = forwardedRequest forwarded
    target = memberTarget member
    link = linkOf stream
    endBody trailers = Http2.endBody stream [(CI.foldedCase name, value) | (name, value) <- trailers]
    -- The head is on its way.
    sendHeld exchange = case forwardedBody forwarded of
      Held bytes -> sendPiece exchange bytes >> endBody [] >> noteSent exchange
      Absent -> noteSent exchange
      Streamed _ _ -> return ()
    oneHead exchange = do
      found <- awaitFrom exchange ForFirstByte (`Http2.receiveHead` stream)
      writeIORef (exchangeHeard exchange) True
      return (responseHeadOf found)
    judged exchange reason = do
      heard <- readIORef (exchangeHeard exchange)
      return (reason, not heard && mayRepeat (problemCause reason))
    mayRepeat cause = case cause of
      -- A body that is streamed may have been read in part.
      RefusedByTarget -> isWhole
      ConnectionLost _ -> isRepeatable forwarded
      ResetByTarget code -> code == http11Required && isWhole
      _ -> False
    isWhole = case forwardedBody forwarded of
      Streamed _ _ -> False
      _ -> True

-- libnghttp2 has checked the fields: names, values, and that none concerns the connection. What a proxy must not pass
-- on is left out as from HTTP/1.1.
responseHeadOf :: Http2.Head -> ResponseHead
responseHeadOf found =
  ResponseHead
    { headStatus = toEnum (Http2.headStatus found),
      headFields =
        [ (CI.mk name, value)
          | (name, value) <-
              Http2.headFields found,
            name `notElem` ["proxy-authenticate", "proxy-authentication-info", "te", "trailer"]
        ],
      headFraming = if Http2.headPart found == Http2.NothingFollows then Counted 0 else UntilEnd,
      headKeeping = MayStay,
      headOptions = [],
      headUpgrade = []
    }

-- A stream as a connection: what 'Link' offers for one that belongs to a single exchange.
linkOf :: Http2.Exchange -> Link
linkOf stream =
  Link
    { linkReceive = (`Http2.receiveBody` stream),
      linkSend = \deadline -> mapM_ (Http2.sendBody deadline stream),
      linkAsk = \_ _ -> return (AskedInPart 0),
      linkEndSending = Http2.endBody stream [],
      linkClose = return (),
      linkIsQuiet = return False,
      linkHasEnded = return True,
      -- CANCEL
      linkInterrupt = Http2.resetExchange stream 8
    }

-- Looks at what has arrived, and returns the action that responds. Throws 'Problem' as long as there is no response.
deliver ::
  Settings ->
  ForwardedRequest ->
  Member ->
  Exchange ->
  Http2.Exchange ->
  ResponseHead ->
  IO (IO ResponseReceived)
deliver settings forwarded member exchange stream found
  | Just protocol <- forwardedUpgrade forwarded,
    statusIsSuccessful status = do
    accept <- acceptField protocol request
    return . respond $
      responseRaw
        ( \receive send ->
            send (switchingHead protocol found {headFields = accept ++ fields})
              >> passBothWays
                (tunnelLimit (limits settings))
                (memberTarget member)
                (exchangeLink exchange)
                ByteString.empty
                receive
                send
        )
        ( problemResponse
            (Problem (Just (memberTarget member)) (BadResponse "this connection cannot change its protocol"))
        )
  | isHeadAlone = return (fst <$> respondStreaming forwarded status fields (\_ _ -> return []))
  | hasNoBody =
    return . respond $
      responseBuilder
        status
        (if statusCode status == 204 then filter ((/= hContentLength) . fst) fields else fields)
        mempty
  | otherwise = begin
  where
    request = forwardedRequest forwarded
    respond = forwardedRespond forwarded
    status = headStatus found
    fields = headFields found
    hasNoBody =
      requestMethod request == methodHead || statusCode status `elem` [204, 304] || headFraming found == Counted 0
    -- Such as an answer of gRPC that has only trailers. It is passed on without a length, if the target has said
    -- none.
    isHeadAlone =
      headFraming found == Counted 0
        && httpVersion request > http11
        && requestMethod request /= methodHead
        && statusCode status `notElem` [204, 205, 304]
        && hContentLength `notElem` map fst fields
    trailers = map (first CI.mk) <$> Http2.receivedTrailers stream
    arrived = either (throwIO . problem exchange . causeOf) return =<< synchronously (Http2.arrivedBody stream pieceMax)
    pieceMax = 65536
    -- A short response has often arrived as a whole.
    begin = do
      now <- arrived
      case now of
        Http2.Piece bytes -> do
          next <- arrived
          behind <- trailers
          case next of
            Http2.Ended | null behind -> return . respond $ responseBuilder status fields (byteString bytes)
            Http2.Ended -> return . streamed $ (\write _ -> write bytes >> return behind)
            Http2.Piece more -> return . streamed $ (\write flush -> write bytes >> write more >> rest write flush)
            Http2.NothingYet -> return . streamed $ (\write flush -> write bytes >> rest write flush)
        _ -> return (streamed rest)
    streamed write = noteClient exchange >> fst <$> respondStreaming forwarded status fields write
    rest write flush = do
      next <- arrived
      case next of
        Http2.Piece bytes -> write bytes >> rest write flush
        Http2.Ended -> trailers
        Http2.NothingYet -> do
          () <- flush
          bytes <- receiveFrom exchange ForMoreBytes pieceMax
          if ByteString.null bytes then trailers else write bytes >> rest write flush

------------------------------------------------------------------------------------------------------------------------
-- Sec-WebSocket-Accept, which a client of HTTP/1.1 expects, and a target that speaks HTTP/2 does not send

-- In OpenSSL's libcrypto.
foreign import ccall unsafe "SHA1" c_sha1 :: Ptr Word8 -> CSize -> Ptr Word8 -> IO (Ptr Word8)

-- The field for the request's key (RFC 6455, section 4.2.2), if it asks for a WebSocket. Otherwise no field.
acceptField :: ByteString -> Request -> IO ResponseHeaders
acceptField protocol request = case [value | ("sec-websocket-key", value) <- requestHeaders request] of
  key : _
    | protocol == "websocket" ->
      (\digest -> [("Sec-WebSocket-Accept", Base64.encode digest)])
        <$> sha1 (key <> "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
  _ -> return []

sha1 :: ByteString -> IO ByteString
sha1 bytes =
  Internal.create 20 $ \buffer ->
    Unsafe.unsafeUseAsCStringLen bytes $ \(start, size) -> void (c_sha1 (castPtr start) (fromIntegral size) buffer)
