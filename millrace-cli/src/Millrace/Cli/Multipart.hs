{-# LANGUAGE OverloadedStrings #-}

-- | Several ranges of a file as one body, multipart/byteranges (RFC 9110 section 14.6).
module Millrace.Cli.Multipart
  ( Multipart (..)
  , Boundary
  , newBoundary
  , multipart
  ) where

import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString, toLazyByteString, word8HexFixed)
import qualified Data.ByteString.Lazy as Lazy
import Millrace.Cli.ByteRange (ByteRange (..), contentRange, rangeLength)
import Network.Wai (StreamingBody)
import System.IO (BufferMode (NoBuffering), Handle, IOMode (ReadMode), SeekMode (AbsoluteSeek), hSeek, hSetBuffering, withBinaryFile)

-- | What to send.
--
-- @since 0.1.0
data Multipart = Multipart
  { multipartType :: ByteString
  -- ^ Content-Type
  , multipartLength :: Integer
  -- ^ Content-Length, in bytes
  , multipartBody :: StreamingBody
  -- ^ Reads the file while it sends. Throws 'IOError' if the file has become shorter.
  }

-- | What separates the parts. It must not occur in them.
--
-- @since 0.1.0
type Boundary = ByteString

-- | 128 random bits: nobody can have put them into a file beforehand.
--
-- @since 0.1.0
newBoundary :: IO Boundary
newBoundary = withBinaryFile "/dev/urandom" ReadMode $ \source -> do
  hSetBuffering source NoBuffering -- or a whole buffer is drawn
  hexadecimal <$> ByteString.hGet source 16
  where
    hexadecimal = Lazy.toStrict . toLazyByteString . foldMap word8HexFixed . ByteString.unpack

-- | Ranges of the file at a path, which has this Content-Type and this size in bytes.
--
-- @since 0.1.0
multipart :: Boundary -> FilePath -> ByteString -> Integer -> [ByteRange] -> Multipart
multipart boundary path contentType size ranges =
  Multipart
    { multipartType = "multipart/byteranges; boundary=" <> boundary
    , multipartLength = sum (map partLength ranges) + lengthOf closing
    , multipartBody = \send _flush -> withBinaryFile path ReadMode $ \file -> do
        mapM_ (sendPart (send . byteString) file) ranges
        send (byteString closing)
    }
  where
    partLength range = lengthOf (opening range) + rangeLength range + lengthOf "\r\n"
    lengthOf = toInteger . ByteString.length
    closing = "--" <> boundary <> "--\r\n"
    opening range =
      ByteString.concat
        ["--", boundary, "\r\nContent-Type: ", contentType, "\r\nContent-Range: ", contentRange size range, "\r\n\r\n"]
    sendPart send file range = do
      send (opening range)
      hSeek file AbsoluteSeek (firstByte range)
      sendBytes send file (rangeLength range)
      send "\r\n"

sendBytes :: (ByteString -> IO ()) -> Handle -> Integer -> IO ()
sendBytes send file count = when (count > 0) $ do
  bytes <- ByteString.hGetSome file (fromInteger (min count chunkBytes))
  -- The length has been announced: only a broken connection can tell the client that it is wrong.
  when (ByteString.null bytes) $ ioError (userError "the file became shorter while it was being sent")
  send bytes
  sendBytes send file (count - toInteger (ByteString.length bytes))
  where
    chunkBytes = 65536
