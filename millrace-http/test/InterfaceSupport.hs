{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of the interface share.
module InterfaceSupport
  ( get,
    request',
    withField,
    withListeners,
    background,
    eventually,
  )
where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (IOException, bracket, try)
import qualified Data.ByteString as B
import qualified Millrace.Socket as Millrace
import Network.Socket hiding (close)
import Network.Wai.Handler.Millrace
import Support

-- | A request for @\/@, after which the server closes the connection.
get :: B.ByteString
get = request' "/" `withField` "Connection: close"

-- | A request for a path.
request' :: B.ByteString -> B.ByteString
request' path = B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"]

-- | Adds a field to a request.
withField :: B.ByteString -> B.ByteString -> B.ByteString
withField given field = B.concat [B.take (B.length given - 2) given, field, "\r\n\r\n"]

-- | Opens listeners on a free port, which the action gets with them.
withListeners :: (Settings -> Settings) -> (Int -> [Listener] -> IO a) -> IO a
withListeners change use =
  bracket (openListeners (change (setHost "127.0.0.1" (setPort 0 defaultSettings)))) (mapM_ closeListener) $
    \listeners ->
      do
        names <- mapM (Millrace.getSocketName . listenerSocket) listeners
        case names of
          SockAddrInet port _ : _ -> use (fromIntegral port :: Int) listeners
          _ -> fail ("the first is not an address of IPv4: " ++ show names)

-- | Runs a server beside an action.
background :: IO b -> IO a -> IO a
background server action = withAsync server (const action)

-- | Repeats an action that fails because the server has not begun yet.
eventually :: IO B.ByteString -> IO B.ByteString
eventually action = within "the server" go
  where
    go = try action >>= either again return
    again :: IOException -> IO B.ByteString
    again _ = threadDelay 20000 >> eventually action
