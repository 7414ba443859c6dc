{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of HTTP/2 share: requests, applications, and waiting for several streams.
module Http2Support
  ( isReset,
    untilM,
    consume,
    get,
    post,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Http2Client hiding (get, post)
import qualified Http2Client
import Network.Wai

-- | Whether this stream was reset.
isReset :: StreamId -> Event -> Bool
isReset stream (GotReset at _) = at == stream
isReset _ _ = False

-- | Repeats a check until it succeeds.
untilM :: IO Bool -> IO ()
untilM condition = condition >>= \done -> unless done (threadDelay 1000 >> untilM condition)

-- | The whole body of a request.
consume :: Request -> IO ByteString
consume request = B.concat <$> go
  where
    go = getRequestBodyChunk request >>= \bytes -> if B.null bytes then return [] else (bytes :) <$> go

-- | The fields of a request for a path, with further ones.
get, post :: ByteString -> Fields -> Fields
get path others = Http2Client.get path ++ others
post path others = Http2Client.post path ++ others
