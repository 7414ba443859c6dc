{-# LANGUAGE OverloadedStrings #-}

-- | HTTP\/2 in frames, for targets and clients that send what a test wants. A peer is known by what takes the given
-- number of bytes from it, or fewer at the end.
module Frames
  ( -- * Frames
    frame,
    literal,
    plainAnswer,
    resetOf,

    -- * Targets
    speaking,
    opening,
    openingFrom,
    requestOn,
    requestFrom,
    awaitReset,
    oneFrame,
    oneFrameFrom,

    -- * Clients
    clientOpening,
    endOfStream,
    EndOfStream (..),
    isReset,
  )
where

import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Millrace.Proxy
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (sendAll)
import Support

-- | A frame: its type, flags, stream and content, which is short.
frame :: Int -> Int -> Int -> ByteString -> ByteString
frame kind flags stream content =
  ByteString.pack
    ( map
        fromIntegral
        [0, ByteString.length content `div` 256, ByteString.length content `mod` 256, kind, flags, 0, 0, 0, stream]
    )
    <> content

-- | A field without compression (RFC 7541, section 6.2.2).
literal :: (ByteString, ByteString) -> ByteString
literal (name, value) = ByteString.concat [ByteString.singleton 0, sized name, sized value]
  where
    sized text = ByteString.cons (fromIntegral (ByteString.length text)) text

-- | 200 with a body.
plainAnswer :: Int -> ByteString -> ByteString
plainAnswer stream body = frame 1 4 stream "\x88" <> frame 0 1 stream body

-- | RST_STREAM with this error code.
resetOf :: Int -> Int -> ByteString
resetOf stream code = frame 3 0 stream (ByteString.pack [0, 0, 0, fromIntegral code])

-- | A target that speaks HTTP\/2 without TLS.
speaking :: Target -> Target
speaking target = target {targetScheme = H2c}

-- | Takes the preface, sends settings and acknowledges the proxy's.
opening :: Socket -> IO ()
opening peer = openingFrom (receiveCount peer) (sendAll peer)

openingFrom :: (Int -> IO ByteString) -> (ByteString -> IO ()) -> IO ()
openingFrom take' send = take' 24 >> send (frame 4 0 0 "" <> frame 4 1 0 "")

-- | Reads frames until a request has come as a whole, and returns its stream.
requestOn :: Socket -> IO Int
requestOn = requestFrom . receiveCount

requestFrom :: (Int -> IO ByteString) -> IO Int
requestFrom take' = do
  (kind, flags, stream, _) <- oneFrameFrom take'
  if kind `elem` [0, 1] && odd flags then return stream else requestFrom take'

-- | Reads frames until the stream is cancelled.
awaitReset :: Int -> Socket -> IO ()
awaitReset stream peer = do
  (kind, _, number, code) <- oneFrame peer
  unless (kind == 3 && number == stream && code == "\0\0\0\8") (awaitReset stream peer)

-- | The type, the flags, the stream and the content of the next frame. Fails at the end of the connection.
oneFrame :: Socket -> IO (Int, Int, Int, ByteString)
oneFrame = oneFrameFrom . receiveCount

oneFrameFrom :: (Int -> IO ByteString) -> IO (Int, Int, Int, ByteString)
oneFrameFrom take' = do
  bytes <- take' 9
  when (ByteString.length bytes < 9) closed
  let at index = fromIntegral (ByteString.index bytes index)
      size = at 1 * 256 + at 2
  content <- take' size
  when (ByteString.length content < size) closed
  return (at 3, at 4, at 8, content)
  where
    closed = ioError (userError "the proxy has closed the connection")

-- | What a client says first.
clientOpening :: ByteString
clientOpening = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" <> frame 4 0 0 ""

-- | How a stream ended for a client, after these bytes of its body.
data EndOfStream
  = Finished !ByteString
  | -- | With the content of RST_STREAM.
    WasReset !ByteString !ByteString
  deriving (Eq, Show)

isReset :: EndOfStream -> Bool
isReset (WasReset _ _) = True
isReset (Finished _) = False

-- | Reads frames until the stream has ended.
endOfStream :: Socket -> Int -> IO EndOfStream
endOfStream client stream = within 20 "the end of the stream" (go "")
  where
    go before = do
      (kind, flags, number, content) <- oneFrame client
      let body = if kind == 0 then before <> content else before
      case kind of
        _ | number /= stream -> go before
        3 -> return (WasReset before content)
        _
          | kind `elem` [0, 1] && odd flags -> return (Finished body)
          | otherwise -> go body
