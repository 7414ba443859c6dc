{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: files.

-- | Several ranges of a representation as one body, multipart/byteranges (RFC 9110 section 14.6).
module Millrace.Http.Multipart
  ( Multipart (..),
    Boundary,
    newBoundary,
    multipart,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (Builder, byteString, toLazyByteString, word8HexFixed)
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Lazy as Lazy
import Foreign.C.Error (Errno (..), errnoToIOError)
import Millrace.Http.ByteRange (ByteRange (..), contentRange, rangeLength)
import Millrace.Http.SystemCalls (fillRandom)
import Network.Wai (StreamingBody)

-- | A multipart body.
data Multipart = Multipart
  { -- | Content-Type.
    multipartType :: ByteString,
    -- | Content-Length, in bytes.
    multipartLength :: Integer,
    -- | Sends the body. The argument reads up to this many bytes at an offset, and returns none only at the end. Throws
    -- @IOError@ if the end comes too early.
    multipartBody :: (Integer -> Int -> IO ByteString) -> StreamingBody
  }

-- | The separator of the parts. It must not occur in them.
type Boundary = ByteString

-- | 128 random bits, so nobody can have put them into a file beforehand. Needs no descriptor.
newBoundary :: IO Boundary
newBoundary = hexadecimal <$> Internal.create count fill
  where
    count = 16
    fill at =
      fillRandom at count >>= \code ->
        when (code < 0) (ioError (errnoToIOError "newBoundary" (Errno (negate code)) Nothing Nothing))
    hexadecimal = Lazy.toStrict . toLazyByteString . foldMap word8HexFixed . ByteString.unpack

-- | @multipart boundary contentType size ranges@: ranges of a representation that has this Content-Type and this size
-- in bytes.
multipart :: Boundary -> ByteString -> Integer -> [ByteRange] -> Multipart
multipart boundary contentType size ranges =
  Multipart
    { multipartType = "multipart/byteranges; boundary=" <> boundary,
      multipartLength = sum (map partLength ranges) + lengthOf closing,
      multipartBody = \readAt send _flush -> do
        mapM_ (sendPart readAt send) ranges
        send (byteString closing)
    }
  where
    partLength range = lengthOf (opening range) + rangeLength range + lengthOf "\r\n"
    lengthOf = toInteger . ByteString.length
    closing = "--" <> boundary <> "--\r\n"
    opening range =
      ByteString.concat
        ["--", boundary, "\r\nContent-Type: ", contentType, "\r\nContent-Range: ", contentRange size range, "\r\n\r\n"]
    sendPart readAt send range = do
      sendBytes readAt send (byteString (opening range)) (firstByte range) (rangeLength range)
      send "\r\n"

-- The bytes before them are sent together with the first ones, and so not at all if nothing can be read.
sendBytes :: (Integer -> Int -> IO ByteString) -> (Builder -> IO ()) -> Builder -> Integer -> Integer -> IO ()
sendBytes readAt send = go
  where
    go _ _ 0 = return ()
    go before offset count = do
      bytes <- readAt offset (fromInteger (min count pieceMax))
      -- The length was announced already, so only a broken connection can tell the client that the body is incomplete.
      if ByteString.null bytes
        then ioError (userError "the file became shorter while it was being sent")
        else send (before <> byteString bytes) >> go mempty (offset + lengthOf bytes) (count - lengthOf bytes)
    lengthOf = toInteger . ByteString.length
    pieceMax = 65536
