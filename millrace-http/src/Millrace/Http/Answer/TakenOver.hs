-- Must not know: connections.

-- |
-- A record of what an application has sent on a connection that it has taken over, for the observers.
module Millrace.Http.Answer.TakenOver (TakenOver, newTakenOver, watched, sentOn, readStatusLine, rawHeadMax) where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Millrace.Http.Exchange (RawBody)
import Network.HTTP.Types (Status (..), switchingProtocols101)

-- | What was sent so far, and the status that a 101 (Switching Protocols) has on this protocol.
data TakenOver = TakenOver !Status !(IORef Sent)

data Sent
  = -- | Part of a head, or nothing.
    InHead !ByteString
  | -- | The status, and the number of bytes behind the head.
    BehindHead !Status !Int

-- | Nothing was sent so far.
newTakenOver :: Status -> IO TakenOver
newTakenOver switching = TakenOver switching <$> newIORef (InHead B.empty)

-- | The application's protocol, which also records what it sends.
watched :: TakenOver -> RawBody -> RawBody
watched (TakenOver switching sent) body receive send = body receive $ \bytes -> do
  send bytes
  -- Any of the application's threads may send.
  atomicModifyIORef' sent (\before -> (after switching bytes before, ()))

after :: Status -> ByteString -> Sent -> Sent
after switching bytes before = case before of
  BehindHead status count -> BehindHead status (count + B.length bytes)
  InHead earlier
    | not (mayBeHead whole) || B.length whole > rawHeadMax -> BehindHead switching (B.length whole)
    | B.null rest -> InHead whole
    | otherwise -> BehindHead (statusOf switching headBytes) (B.length rest - 4)
    where
      whole = B.append earlier bytes
      (headBytes, rest) = B.breakSubstring (C8.pack "\r\n\r\n") whole
  where
    mayBeHead beginning = B.take (B.length versionPrefix) beginning `B.isPrefixOf` versionPrefix

-- | The largest head that an application may write on a connection that it has taken over, in bytes. What is longer is
-- taken for no head.
rawHeadMax :: Int
rawHeadMax = 65536

-- | The status of the head that was sent, and the number of bytes behind it. Without a head, the protocol was switched
-- nevertheless.
sentOn :: TakenOver -> IO (Status, Int)
sentOn (TakenOver switching sent) = result <$> readIORef sent
  where
    result now = case now of
      InHead beginning -> (statusOf switching beginning, 0)
      BehindHead status count -> (status, count)

statusOf :: Status -> ByteString -> Status
statusOf switching headBytes = case readStatusLine (fst (B.breakSubstring (C8.pack "\r\n") headBytes)) of
  Just status | status /= switchingProtocols101 || switching == switchingProtocols101 -> status
  _ -> switching

-- | Reads the first line of an HTTP\/1 response.
readStatusLine :: ByteString -> Maybe Status
readStatusLine line = do
  let (version, afterVersion) = C8.break (== ' ') line
  guard (versionPrefix `B.isPrefixOf` version)
  (code, reason) <- C8.readInt (C8.dropWhile (== ' ') afterVersion)
  guard (code >= 100 && code <= 999)
  -- The application's bytes are not to be kept for as long as its connection.
  return $! Status code $! B.copy (B.drop 1 reason)

versionPrefix :: ByteString
versionPrefix = C8.pack "HTTP/1."
