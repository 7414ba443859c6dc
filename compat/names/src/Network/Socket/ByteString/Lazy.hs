-- | "Network.Socket.ByteString.Lazy" with Millrace's sockets.
module Network.Socket.ByteString.Lazy
  ( send,
    sendAll,
    getContents,
    recv,
  )
where

import Control.Exception (IOException, handle)
import qualified Data.ByteString as B
import Data.ByteString.Lazy (ByteString)
import qualified Data.ByteString.Lazy as L
import Data.ByteString.Lazy.Internal (ByteString (Chunk, Empty))
import Data.Int (Int64)
import Millrace.Socket (ShutdownCmd (..), Socket, shutdown)
import qualified Millrace.Socket.ByteString as Strict
import System.IO.Unsafe (unsafeInterleaveIO)
import Prelude hiding (getContents)

-- | Sends some bytes from the beginning, and returns their number.
send :: Socket -> ByteString -> IO Int64
send s bytes = fromIntegral <$> Strict.send s (L.toStrict (L.take mostBytes bytes))
  where
    mostBytes = 65536

-- | Sends all bytes.
sendAll :: Socket -> ByteString -> IO ()
sendAll s = Strict.sendMany s . L.toChunks

-- | What will be received until the end of the stream, lazily. Then the socket is shut down for receiving.
getContents :: Socket -> IO ByteString
getContents s = go
  where
    go = unsafeInterleaveIO $ do
      piece <- Strict.recv s 16384
      if B.null piece then Empty <$ shutDown else Chunk piece <$> go
    -- The connection may be over by now.
    shutDown = handle ignore (shutdown s ShutdownReceive)

ignore :: IOException -> IO ()
ignore _ = return ()

-- | Waits for bytes, and returns at most this many; none at the end of the stream.
recv :: Socket -> Int64 -> IO ByteString
recv s size = L.fromStrict <$> Strict.recv s (fromIntegral size)
