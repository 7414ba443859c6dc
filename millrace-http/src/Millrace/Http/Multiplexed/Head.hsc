{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The head of a request of HTTP\/2 or HTTP\/3, as the C code has it.
module Millrace.Http.Multiplexed.Head
  ( Head,
    headFlags,
    headError,
    headMethod,
    headMethodSlice,
    headPathSlice,
    headQuerySlice,
    headProtocolSlice,
    headFieldCount,
    headTextLength,
    headHost,
    headRange,
    headReferer,
    headUserAgent,
    headContentLength,
    Security (..),
  )
where

#include "http_request_head.h"

import Data.Int (Int32, Int64)
import Data.Word (Word16, Word32, Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)

-- | A head.
data Head

-- | Flags as of HTTP\/1's heads.
headFlags :: Ptr Head -> IO Word32
headFlags = #{peek http_request_head, flags}

-- | Why the request is refused, as an error number of HTTP\/1's parser. 0: it is not.
headError :: Ptr Head -> IO Int
headError at = (fromIntegral :: Int32 -> Int) <$> #{peek http_request_head, error} at

-- | The method's number.
headMethod :: Ptr Head -> IO Word8
headMethod = #{peek http_request_head, method}

-- | Offset in the text, and length.
headMethodSlice, headPathSlice, headQuerySlice, headProtocolSlice :: Ptr Head -> IO (Int, Int)
headMethodSlice at = sliceOf (#{peek http_request_head, method_offset} at) (#{peek http_request_head, method_length} at)
headPathSlice at = sliceOf (#{peek http_request_head, path_offset} at) (#{peek http_request_head, path_length} at)
headQuerySlice at = sliceOf (#{peek http_request_head, query_offset} at) (#{peek http_request_head, query_length} at)
headProtocolSlice at =
  sliceOf (#{peek http_request_head, protocol_offset} at) (#{peek http_request_head, protocol_length} at)

sliceOf :: IO Word32 -> IO Word32 -> IO (Int, Int)
sliceOf offset size = (\at count -> (fromIntegral at, fromIntegral count)) <$> offset <*> size
{-# INLINE sliceOf #-}

-- | The number of fields, and the bytes of the text behind them.
headFieldCount, headTextLength :: Ptr Head -> IO Int
headFieldCount at = (fromIntegral :: Word32 -> Int) <$> #{peek http_request_head, field_count} at
headTextLength at = (fromIntegral :: Word32 -> Int) <$> #{peek http_request_head, text_length} at

-- | The index plus 1 of a field; 0: there is none.
headHost, headRange, headReferer, headUserAgent :: Ptr Head -> IO Int
headHost at = (fromIntegral :: Word16 -> Int) <$> #{peek http_request_head, host} at
headRange at = (fromIntegral :: Word16 -> Int) <$> #{peek http_request_head, range} at
headReferer at = (fromIntegral :: Word16 -> Int) <$> #{peek http_request_head, referer} at
headUserAgent at = (fromIntegral :: Word16 -> Int) <$> #{peek http_request_head, user_agent} at

-- | The length of the request's body, if the client gives it.
headContentLength :: Ptr Head -> IO (Maybe Int64)
headContentLength at = given <$> #{peek http_request_head, content_length} at
  where
    given size = if size < 0 then Nothing else Just size

-- | Whether others can read the connection's bytes.
data Security = Protected | ClearText
  deriving (Eq)
