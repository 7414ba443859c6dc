-- Must not know: connections.

-- |
-- Applications that speak another protocol on a stream, such as WebSockets (RFC 8441, RFC 9220). They were written for
-- HTTP\/1: they expect a request to upgrade, and write the head of an HTTP\/1 response.
module Millrace.Http.Multiplexed.TakeOver
  ( asUpgrade,
    extendedConnect,
    withoutFalseTunnel,
    Opening (..),
    readOpening,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Maybe (fromMaybe)
import Millrace.Http.Answer.TakenOver (rawHeadMax, readStatusLine)
import Network.HTTP.Types (HeaderName, ResponseHeaders, Status (..), http20, methodGet, status501, statusIsSuccessful)
import Network.HTTP.Types.Header (hConnection, hUpgrade)
import Network.Wai (Middleware, Request, httpVersion, requestHeaders, requestMethod, responseLBS, responseStatus)
import Network.Wai.Internal (Response (..))

-- | The equivalent HTTP\/1 request, for a client that asks for this protocol by an extended CONNECT.
asUpgrade :: ByteString -> Request -> Request
asUpgrade protocol request =
  request
    { requestMethod = methodGet,
      requestHeaders =
        filter ((/= hKey) . fst) (requestHeaders request)
          ++ [(hUpgrade, protocol), (hConnection, C8.pack "Upgrade")]
          ++ keyOf
    }
  where
    -- The application expects a key (RFC 6455, section 4.1), and HTTP/2 has none: @:protocol@ stands for it, and a key
    -- that the client sends all the same means nothing (RFC 8441, section 5). A key is no secret. It shows an HTTP/1
    -- client that the answer was made for its request, by Sec-WebSocket-Accept, which 'readOpening' drops. So any key
    -- will do: this one is sixteen bytes of zero.
    keyOf = [(hKey, C8.pack "AAAAAAAAAAAAAAAAAAAAAA==") | protocol == C8.pack "websocket"]

-- | The protocol that a client asks for by an extended CONNECT (RFC 8441, RFC 9220), if it does. An application gets
-- such a request as a GET with the field Upgrade, which no other request of HTTP\/2 and HTTP\/3 has. One that does not
-- speak the protocol should answer with 501.
extendedConnect :: Request -> Maybe ByteString
extendedConnect request
  | httpVersion request >= http20 = lookup hUpgrade (requestHeaders request)
  | otherwise = Nothing

-- | For an extended CONNECT. An application that does not know the protocol answers as if it were a GET. Its success
-- would tell the client that there is a tunnel, so the answer says that there is none (RFC 8441, section 4).
withoutFalseTunnel :: Middleware
withoutFalseTunnel application request respond = application request $ \response -> respond $ case response of
  ResponseRaw _ _ -> response
  _ | statusIsSuccessful (responseStatus response) -> responseLBS status501 [] mempty
  _ -> response

hKey, hAccept :: HeaderName
hKey = CI.mk (C8.pack "Sec-WebSocket-Key")
hAccept = CI.mk (C8.pack "Sec-WebSocket-Accept")

-- | The first bytes that an application writes.
data Opening
  = -- | The status and fields of a head, and the bytes behind it.
    Opening !Int ResponseHeaders !ByteString
  | Incomplete
  | Malformed

-- | Reads the head of an HTTP\/1 response. A 101 (Switching Protocols) counts as accepting the CONNECT (RFC 8441,
-- section 5). Drops the fields that HTTP\/2 does not have.
readOpening :: ByteString -> Opening
readOpening bytes
  | B.null rest = if B.length bytes > rawHeadMax then Malformed else Incomplete
  | otherwise = fromMaybe Malformed $ do
    (line, fields) <- unconsLine (linesOf headBytes)
    Status code _ <- readStatusLine line
    return (Opening (if code == 101 then 200 else code) (filter isOwn (map field fields)) (B.drop 4 rest))
  where
    (headBytes, rest) = B.breakSubstring (C8.pack "\r\n\r\n") bytes
    unconsLine lines' = case lines' of
      first : others -> Just (first, others)
      [] -> Nothing
    field line = let (name, value) = C8.break (== ':') line in (CI.mk name, C8.dropWhile (== ' ') (B.drop 1 value))
    isOwn (name, _) = name `notElem` [hUpgrade, hConnection, hAccept]

linesOf :: ByteString -> [ByteString]
linesOf bytes
  | B.null bytes = []
  | otherwise = let (line, rest) = B.breakSubstring (C8.pack "\r\n") bytes in line : linesOf (B.drop 2 rest)
