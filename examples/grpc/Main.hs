{-# LANGUAGE OverloadedStrings #-}

-- | A gRPC service with calls of all four kinds, over HTTP/2 in clear text. Usage: grpc PORT.
--
-- > service Numbers {
-- >   rpc Square (Number) returns (Number);                // one message each
-- >   rpc Count (Number) returns (stream Number);          // the server sends many
-- >   rpc Sum (stream Number) returns (Number);            // the client sends many
-- >   rpc Squares (stream Number) returns (stream Number); // both send many, at the same time
-- > }
-- > message Number { int64 value = 1; }
module Main (main) where

import Control.Exception (onException, throwIO)
import Control.Monad (forM_)
import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word64, Word8)
import Grpc
import Millrace.Timer (threadDelay)
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)

main :: IO ()
main = do
  [port] <- getArgs
  hSetBuffering stdout LineBuffering
  runSettings (setHost "127.0.0.1" (setPort (read port) (setHTTP1Disabled defaultSettings))) (grpc (`lookup` numbers))

numbers :: [(ByteString, Call -> IO ())]
numbers =
  [("/Numbers/Square", square), ("/Numbers/Count", count), ("/Numbers/Sum", total), ("/Numbers/Squares", squares)]

square, count, total, squares :: Call -> IO ()
square call =
  nextNumber call
    >>= maybe (throwIO (Status InvalidArgument "a number is missing")) (\value -> sendNumber call (value * value))
-- A deadline or a cancellation interrupts it.
count call = do
  most <- fromMaybe 0 <$> nextNumber call
  forM_ [1 .. most] (\value -> threadDelay 1000 >> sendNumber call value) `onException` putStrLn "Count was interrupted"
total call = add 0
  where
    add soFar = nextNumber call >>= maybe (sendNumber call soFar) (add . (soFar +))
squares call = nextNumber call >>= mapM_ (\value -> sendNumber call (value * value) >> squares call)

nextNumber :: Call -> IO (Maybe Int64)
nextNumber call = fmap decodeNumber <$> nextMessage call

sendNumber :: Call -> Int64 -> IO ()
sendNumber call = sendMessage call . encodeNumber

-- Protocol buffers: field 1 is a varint, seven bits in each byte, the lowest first. A field that is 0 is left out.

encodeNumber :: Int64 -> ByteString
encodeNumber value = if value == 0 then "" else B.pack (0x08 : varint (fromIntegral value))
  where
    varint :: Word64 -> [Word8]
    varint bits
      | bits < 0x80 = [fromIntegral bits]
      | otherwise = (fromIntegral bits .|. 0x80) : varint (bits `shiftR` 7)

decodeNumber :: ByteString -> Int64
decodeNumber message = case B.uncons message of
  Just (0x08, bytes) ->
    let (continued, rest) = B.span (`testBit` 7) bytes
     in B.foldr (\byte value -> value `shiftL` 7 .|. fromIntegral (byte .&. 0x7f)) 0 (continued <> B.take 1 rest)
  _ -> 0
