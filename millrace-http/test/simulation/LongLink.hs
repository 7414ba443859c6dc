{-# LANGUAGE OverloadedStrings #-}

-- | An upload and a download of HTTP\/2 over a long link, on a simulated machine: the windows must grow until the link is what limits
-- them.
module LongLink (Direction (..), application, transfer) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception (bracket)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.Word (Word64)
import Http2Frame
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Socket
import Millrace.Socket.ByteString
import Network.HTTP.Types (status200)
import Network.Wai

data Direction = Upload | Download
  deriving (Eq, Show)

-- | Accepts a body of any size, and answers a GET with so many bytes.
application :: Int -> Application
application size request respond
  | requestMethod request == "POST" = discard >> respond (responseLBS status200 [] "taken")
  | otherwise = respond (responseLBS status200 [] (L.take (fromIntegral size) (L.fromChunks (repeat (B.replicate 65536 97)))))
  where
    discard = getRequestBodyChunk request >>= \piece -> unless (B.null piece) discard

-- | One request on a connection of its own, whose body or whose response's body has so many bytes. Returns how many nanoseconds passed from
-- the request to the end of the response.
transfer :: Direction -> Int -> SockAddr -> IO Word64
transfer direction size address = bracket (socket AF_INET Stream defaultProtocol) close $ \connection -> do
  connect connection address
  sendAll connection (preface <> B.concat (map encodeFrame [settingsFrame [(InitialWindowSize, windowMax)], windowUpdate 0 (windowMax - 65535)]))
  sending <- newMVar ()
  room <- newMVar (Room 65535 65535)
  news <- newEmptyMVar
  let say frames = withMVar sending (\_ -> sendAll connection (B.concat (map encodeFrame frames)))
      change f = modifyMVar_ room (return . f) >> void (tryPutMVar news ())
  begin <- monotonicNanoseconds
  case direction of
    Download -> say [headersFrame 1 [EndStream, EndHeaders] (literals (fields "GET"))] >> listen' connection say change
    Upload -> do
      say [headersFrame 1 [EndHeaders] (literals (fields "POST"))]
      bracket (forkIO (upload say room news size)) killThread (\_ -> listen' connection say change)
  end <- monotonicNanoseconds
  return (end - begin)
  where
    windowMax = 2147483647
    fields method = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/")]

-- The remaining windows for sending: the connection's and the stream's.
data Room = Room {roomConnection :: !Int, roomStream :: !Int}

-- Receives until the response has ended.
listen' :: Socket -> ([Frame] -> IO ()) -> ((Room -> Room) -> IO ()) -> IO ()
listen' connection say change = do
  initial <- newIORef 65535
  let go held = case decodeFrame held of
        Just (frame, rest) -> react frame >>= \over -> unless over (go rest)
        Nothing -> do
          more <- recv connection 65536
          when (B.null more) (ioError (userError "the server has closed the connection"))
          go (held <> more)
      react frame = case frameType frame of
        Settings | not (hasFlag Ack frame) -> do
          sequence_ [grow initial (fromIntegral size) | (InitialWindowSize, size) <- settingsOf frame]
          False <$ say [settingsAck]
        Ping | not (hasFlag Ack frame) -> False <$ say [pingAck (framePayload frame)]
        WindowUpdate -> False <$ change (widen (frameStream frame) (fromIntegral (word32At 0 (framePayload frame))))
        Data -> return (hasFlag EndStream frame)
        Reset -> ioError (userError ("the server has reset the stream: " ++ show frame))
        GoAway -> ioError (userError ("the server ends the connection: " ++ show frame))
        _ -> return False
      grow before size = do
        old <- readIORef before
        writeIORef before size
        change (\room -> room {roomStream = roomStream room + size - old})
  go B.empty
  where
    widen 0 size room = room {roomConnection = roomConnection room + size}
    widen _ size room = room {roomStream = roomStream room + size}

-- Sends as fast as the windows and the link allow.
upload :: ([Frame] -> IO ()) -> MVar Room -> MVar () -> Int -> IO ()
upload say room news = go
  where
    go left = do
      Room connection stream <- readMVar room
      let size = minimum [16384, left, connection, stream]
      if size <= 0
        then takeMVar news >> go left
        else do
          modifyMVar_ room (\now -> return (Room (roomConnection now - size) (roomStream now - size)))
          say [dataFrame 1 [EndStream | size == left] (if size == 16384 then whole else B.take size whole)]
          unless (size == left) (go (left - size))
    whole = B.replicate 16384 98 :: ByteString
