{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | Responses as the clients of the simulation check them: by tag and to the byte.
module Replies (expectReply, wrong, wrongOf) where

import Control.Exception (Exception, SomeException, fromException, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Numeric (readHex)

-- | A mistake of the server, as opposed to a broken connection.
newtype Wrong = Wrong String
  deriving (Show)

instance Exception Wrong

wrong :: String -> IO a
wrong = throwIO . Wrong

wrongOf :: SomeException -> Maybe String
wrongOf problem = (\(Wrong what) -> what) <$> fromException problem

-- | Reads one response from a stream, given an action for more bytes, and the bytes that are left. Fails unless the
-- response has this tag and this body.
expectReply :: IO ByteString -> IORef ByteString -> ByteString -> ByteString -> IO ()
expectReply more held tag body = do
  head' <- takeThrough "\r\n\r\n"
  let fields = drop 1 (C8.lines head')
      field name = [C8.strip (B.drop (B.length name + 1) line) | line <- fields, (name <> ":") `B.isPrefixOf` line]
  -- A request that was stalled may get a 408, and one whose stream ended too early a 400.
  when (any (`B.isPrefixOf` head') ["HTTP/1.1 408 ", "HTTP/1.1 400 "]) $ ioError (userError "the request was cut short")
  unless ("HTTP/1.1 200 " `B.isPrefixOf` head') $
    wrong ("instead of the response for " ++ show tag ++ ": " ++ show head')
  unless (field "X-Tag" == [tag]) $ wrong ("tag " ++ show (field "X-Tag") ++ " instead of " ++ show tag)
  content <- case (field "Content-Length", field "Transfer-Encoding") of
    ([size], []) -> maybe (wrong ("length " ++ show size)) (takeBytes . fst) (C8.readInt size)
    ([], ["chunked"]) -> B.concat <$> chunks
    _ -> wrong ("no framing in " ++ show head')
  unless (content == body) $ wrong ("another body for " ++ show tag ++ ", of " ++ show (B.length content) ++ " bytes")
  where
    chunks = do
      line <- takeThrough "\r\n"
      case readHex (C8.unpack line) of
        [(0, "\r\n")] -> [] <$ takeThrough "\r\n"
        [(size, "\r\n")] -> do
          chunk <- takeBytes size
          end <- takeBytes 2
          unless (end == "\r\n") $ wrong ("a chunk ends with " ++ show end)
          (chunk :) <$> chunks
        _ -> wrong ("a chunk begins with " ++ show line)
    takeThrough mark = do
      bytes <- readIORef held
      case B.breakSubstring mark bytes of
        (_, "") -> refill >> takeThrough mark
        (before, rest) -> do
          writeIORef held (B.drop (B.length mark) rest)
          return (before <> mark)
    takeBytes size = do
      bytes <- readIORef held
      if B.length bytes < size
        then refill >> takeBytes size
        else do
          writeIORef held (B.drop size bytes)
          return (B.take size bytes)
    refill = do
      bytes <- more
      if B.null bytes then ioError (userError "the connection ended") else modifyIORef' held (<> bytes)
