{-# LANGUAGE OverloadedStrings #-}

-- | A gRPC service with calls of all four kinds, on HTTP/2 in clear text. Usage: grpc PORT.
--
-- > service Numbers {
-- >   rpc Square (Number) returns (Number);                // an answer for a question
-- >   rpc Count (Number) returns (stream Number);          // many answers
-- >   rpc Sum (stream Number) returns (Number);            // many questions
-- >   rpc Squares (stream Number) returns (stream Number); // both, at the same time
-- > }
-- > message Number { int64 value = 1; }
module Main (main) where

import Control.Exception (Exception, throwIO, try)
import Control.Monad (forM_)
import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C8
import Data.Either (fromLeft)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Millrace.Timer (threadDelay, timeout)
import Network.HTTP.Types (hContentType, status200, status415)
import Network.Wai
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)
import System.IO (hFlush, stdout)

main :: IO ()
main = do
  [port] <- getArgs
  runSettings (setHost "127.0.0.1" (setPort (read port) (setHTTP1Disabled defaultSettings))) (grpc numbers)

------------------------------------------------------------------------------------------------------------------------
-- The service

-- | A call: where the next message of the client comes from, and how one is sent.
data Call = Call
  { nextMessage :: IO (Maybe ByteString),
    sendMessage :: ByteString -> IO ()
  }

-- | Ends a call with another status than OK.
data Status = Status Int ByteString
  deriving (Show)

instance Exception Status

numbers :: ByteString -> Maybe (Call -> IO ())
numbers path = lookup path [("/Numbers/Square", square), ("/Numbers/Count", count), ("/Numbers/Sum", total), ("/Numbers/Squares", squares)]
  where
    square call = number call >>= maybe (throwIO (Status 3 "a number is missing")) (\value -> reply call (value * value))
    count call = number call >>= \most -> forM_ [1 .. fromMaybe 0 most] $ \value -> threadDelay 1000 >> reply call value
    total call = sumUp 0 >>= reply call
      where
        sumUp so = number call >>= maybe (return so) (sumUp . (so +))
    squares call = number call >>= maybe (return ()) (\value -> reply call (value * value) >> squares call)
    number call = fmap decodeNumber <$> nextMessage call
    reply call = sendMessage call . encodeNumber

-- Protocol buffers: field 1 as a varint.

encodeNumber :: Int64 -> ByteString
encodeNumber value = B.cons 0x08 (B.unfoldr digit (Just (fromIntegral value :: Word)))
  where
    digit = fmap (\bits -> (fromIntegral (bits .&. 0x7f) .|. (if bits > 0x7f then 0x80 else 0), next bits))
    next bits = if bits > 0x7f then Just (bits `shiftR` 7) else Nothing

-- | 0 if there is no field 1: that is how a 0 is sent.
decodeNumber :: ByteString -> Int64
decodeNumber message = case B.uncons message of
  Just (0x08, digits) ->
    let (more, rest) = B.span (`testBit` 7) digits
     in B.foldr (\byte value -> value `shiftL` 7 .|. fromIntegral (byte .&. 0x7f)) 0 (more <> B.take 1 rest)
  _ -> 0

------------------------------------------------------------------------------------------------------------------------
-- gRPC over HTTP/2

-- | The response's body is the messages, and its trailers are the status. A call that lasts longer than the client's
-- @grpc-timeout@ is interrupted. So is one whose client has gone or has cancelled.
grpc :: (ByteString -> Maybe (Call -> IO ())) -> Application
grpc service request respond
  | not (maybe False ("application/grpc" `B.isPrefixOf`) (lookup hContentType (requestHeaders request))) =
    respond (responseLBS status415 [] "")
  | otherwise = do
    status <- newIORef (Status 0 "")
    setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = trailers status})
    respond . responseStream status200 [(hContentType, "application/grpc")] $ \write flush -> do
      held <- newIORef ""
      flush
      outcome <- case service (rawPathInfo request) of
        Nothing -> return (Left (Status 12 "no such method"))
        Just method -> limited (try (method (Call (receive held) (\message -> write (framed message) >> flush))))
      writeIORef status (fromLeft (Status 0 "") outcome)
  where
    trailers status piece = case piece of
      Just _ -> return (NextTrailersMaker (trailers status))
      Nothing -> (\(Status code text) -> Trailers [("grpc-status", C8.pack (show code)), ("grpc-message", text)]) <$> readIORef status
    framed message = Builder.word8 0 <> Builder.word32BE (fromIntegral (B.length message)) <> Builder.byteString message
    limited action = case lookup "grpc-timeout" (requestHeaders request) >>= microseconds of
      Nothing -> cancellable action
      Just micros -> fromMaybe (Left (Status 4 "the deadline has passed")) <$> timeout micros (cancellable action)
    cancellable = onDisconnect request (putStrLn "cancelled" >> hFlush stdout)
    receive held = do
      bytes <- readIORef held
      let size = B.foldl' (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 (B.take 4 (B.drop 1 bytes))
      if B.length bytes >= 5 && B.length bytes >= 5 + size
        then Just (B.take size (B.drop 5 bytes)) <$ writeIORef held (B.drop (5 + size) bytes)
        else do
          more <- getRequestBodyChunk request
          if B.null more
            then if B.null bytes then return Nothing else throwIO (Status 13 "a message is incomplete")
            else writeIORef held (bytes <> more) >> receive held

-- | A number and a unit, as in @100m@.
microseconds :: ByteString -> Maybe Int
microseconds text = do
  (amount, unit) <- C8.readInt text
  factor <- lookup unit [("H", 3600000000), ("M", 60000000), ("S", 1000000), ("m", 1000), ("u", 1)]
  return (amount * factor)
