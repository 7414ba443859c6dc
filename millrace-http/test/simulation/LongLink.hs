{-# LANGUAGE OverloadedStrings #-}

-- | Uploads and a download of HTTP\/2 over a long link, on a simulated machine: the windows must grow until the link is
-- what limits them. A body that nobody reads must not hold up another one, however large they are then.
module LongLink (Direction (..), application, transfer) where

import Control.Concurrent (forkIO, killThread, myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, catch)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import qualified Data.Map.Strict as Map
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Http2Frame
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer (threadDelay)
import Network.HTTP.Types (status200)
import Network.Wai

data Direction
  = Upload
  | Download
  | -- | An upload, and then another one beside a body that nobody reads and whose stream's window is used up.
    TwoUploads
  deriving (Eq, Show)

-- | Accepts a body of any size, except for one path, and answers a GET with this many bytes.
application :: Int -> Application
application size request respond
  | rawPathInfo request == lazyPath = threadDelay 600000000 >> respond (responseLBS status200 [] "late")
  | requestMethod request == "POST" = discard >> respond (responseLBS status200 [] "taken")
  | otherwise =
    respond (responseLBS status200 [] (L.take (fromIntegral size) (L.fromChunks (repeat (B.replicate 65536 97)))))
  where
    discard = getRequestBodyChunk request >>= \piece -> unless (B.null piece) discard

lazyPath :: ByteString
lazyPath = "/lazy"

-- | Requests on a new connection, whose body or whose response's body has this many bytes. Returns how many
-- nanoseconds passed from the first request to the end of the last response.
transfer :: Direction -> Int -> SockAddr -> IO Word64
transfer direction size address = bracket (socket AF_INET Stream defaultProtocol) close $ \connection -> do
  connect connection address
  sendAll
    connection
    ( preface
        <> B.concat
          (map encodeFrame [settingsFrame [(InitialWindowSize, windowMax)], windowUpdate 0 (windowMax - 65535)])
    )
  sending <- newMVar ()
  windows <- newMVar (SendWindows 65535 65535 Map.empty)
  news <- newEmptyMVar
  answered <- newEmptyMVar
  let say frames = withMVar sending (\_ -> sendAll connection (B.concat (map encodeFrame frames)))
      change f = modifyMVar_ windows (return . f) >> void (tryPutMVar news ())
      ask stream method path =
        say
          [ headersFrame
              stream
              ([EndStream | method == "GET"] ++ [EndHeaders])
              (literals [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)])
          ]
      whole stream = ask stream "POST" "/" >> upload say windows news stream (Just size) >> takeMVar answered
      requests = case direction of
        Download -> ask 1 "GET" "/" >> takeMVar answered
        Upload -> whole 1
        TwoUploads -> whole 1 >> ask 3 "POST" lazyPath >> upload say windows news 3 Nothing >> whole 5
  begin <- monotonicNanoseconds
  self <- myThreadId
  let listening =
        listenTo connection say change (putMVar answered ()) `catch` \problem -> throwTo self (problem :: IOException)
  bracket (forkIO listening) killThread (const requests)
  end <- monotonicNanoseconds
  return (end - begin)
  where
    windowMax = 2147483647

-- The remaining windows for sending: the connection's, that of a new stream, and each stream's difference from that.
data SendWindows = SendWindows {sendConnection :: !Int, sendInitial :: !Int, sendStreams :: !(Map.Map StreamId Int)}

-- Receives until the connection ends. Runs the action when a response has ended.
listenTo :: Socket -> ([Frame] -> IO ()) -> ((SendWindows -> SendWindows) -> IO ()) -> IO () -> IO ()
listenTo connection say change ended = go B.empty
  where
    go held = case decodeFrame held of
      Just (frame, rest) -> react frame >> go rest
      Nothing -> do
        more <- recv connection 65536
        when (B.null more) (ioError (userError "the server has closed the connection"))
        go (held <> more)
    react frame = case frameType frame of
      Settings | not (hasFlag Ack frame) -> do
        forM_ [size | (InitialWindowSize, size) <- settingsOf frame] $ \size ->
          change (\windows -> windows {sendInitial = fromIntegral size})
        say [settingsAck]
      Ping | not (hasFlag Ack frame) -> say [pingAck (framePayload frame)]
      WindowUpdate -> change (widen (frameStream frame) (fromIntegral (word32At 0 (framePayload frame))))
      Data -> when (hasFlag EndStream frame) ended
      Reset -> ioError (userError ("the server has reset the stream: " ++ show frame))
      GoAway -> ioError (userError ("the server ends the connection: " ++ show frame))
      _ -> return ()
    widen 0 size windows = windows {sendConnection = sendConnection windows + size}
    widen stream size windows = windows {sendStreams = Map.insertWith (+) stream size (sendStreams windows)}

-- Sends a body as fast as the windows and the link allow. Nothing: until the stream's window is used up.
upload :: ([Frame] -> IO ()) -> MVar SendWindows -> MVar () -> StreamId -> Maybe Int -> IO ()
upload say windows news stream = go
  where
    go left = do
      SendWindows connection initial streams <- readMVar windows
      let own = initial + Map.findWithDefault 0 stream streams
          size = minimum ([16384, connection, own] ++ maybe [] return left)
      unless (isNothing left && own <= 0) $
        if size <= 0
          then takeMVar news >> go left
          else do
            modifyMVar_
              windows
              ( \now ->
                  return
                    now
                      { sendConnection =
                          sendConnection now - size,
                        sendStreams = Map.insertWith (+) stream (negate size) (sendStreams now)
                      }
              )
            say [dataFrame stream [EndStream | Just size == left] (if size == 16384 then full else B.take size full)]
            unless (Just size == left) (go (subtract size <$> left))
    full = B.replicate 16384 98 :: ByteString
