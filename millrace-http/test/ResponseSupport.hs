{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of responses share.
module ResponseSupport
  ( get,
    get11,
    get10,
    oneReply,
    oneReplyWith,
  )
where

import Data.ByteString (ByteString)
import Network.Wai
import Network.Wai.Handler.Millrace
import Support

get :: ByteString
get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

get11, get10 :: Response -> IO Reply
get11 response = oneReply (const response) get
get10 response = oneReply (const response) "GET / HTTP/1.0\r\n\r\n"

oneReply :: (Request -> Response) -> ByteString -> IO Reply
oneReply = oneReplyWith id

oneReplyWith :: (Settings -> Settings) -> (Request -> Response) -> ByteString -> IO Reply
oneReplyWith change response request =
  withServer change (\incoming respond -> respond (response incoming)) $ \port -> do
    bytes <- exchange port request
    case parseReplies bytes of
      [reply] -> return reply
      replies -> fail ("expected one response, got " ++ show (map replyStatus replies))
