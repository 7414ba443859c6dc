{-# LANGUAGE OverloadedStrings #-}

-- | Requests and responses of HTTP\/1.1 as bytes.
module TestSupport.Message
  ( receiveHeadBy,
    answerOf,
    bodyOf,
    statusOf,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import TestSupport.ByteStream (receiveUntilBy)

-- | Receives the head of a request; nothing at the end of the stream. Bytes that arrive together with the end of the
-- head are returned, too.
receiveHeadBy :: IO ByteString -> IO (Maybe ByteString)
receiveHeadBy receive = complete <$> receiveUntilBy receive "\r\n\r\n"
  where
    complete received
      | "\r\n\r\n" `ByteString.isInfixOf` received = Just received
      | otherwise = Nothing

-- | A response with this body.
answerOf :: ByteString -> ByteString
answerOf body =
  "HTTP/1.1 200 OK\r\nContent-Length: " <> Char8.pack (show (ByteString.length body)) <> "\r\n\r\n" <> body

-- | The bytes after the head.
bodyOf :: ByteString -> ByteString
bodyOf = ByteString.drop 4 . snd . ByteString.breakSubstring "\r\n\r\n"

-- | The three digits of a response's status.
statusOf :: ByteString -> ByteString
statusOf = ByteString.take 3 . ByteString.drop 9
