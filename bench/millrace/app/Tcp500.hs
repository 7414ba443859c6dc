-- | Answers 500 bytes to any read on Millrace: a green thread per connection, one listener per capability.
-- Usage: millrace-tcp500 PORT [deadline]. With @deadline@, each request must come within ten seconds.
module Main (main) where

import Control.Concurrent (forkOn, getNumCapabilities, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, evaluate, finally, handle, mask_)
import Control.Monad (forM_, forever, void, when)
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (mallocBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline (deadlineAfter, noDeadline)
import Millrace.Socket
import Millrace.Socket.ByteString (sendAllBuf)
import Millrace.Socket.Lent (giveBack, lentSize, recvLent)
import System.Environment (getArgs)

answerSize :: Int
answerSize = 500

-- | The answer, in memory that is never freed.
newAnswer :: IO (Ptr Word8)
newAnswer = do
  answer <- mallocBytes answerSize
  unsafeUseAsCStringLen text $ \(bytes, size) -> copyBytes answer (castPtr bytes) size
  pure answer
  where
    text = Char8.append headPart (Char8.replicate (answerSize - Char8.length headPart) 'x')
    headPart = Char8.pack "HTTP/1.1 200 OK\r\nContent-Length: 460\r\n\r\n"

-- A tail call: a frame per request would be walked each time the thread blocks. What it needs are arguments, not the
-- variables of a closure: a connection's closure would be in no cache when its turn comes.
serve :: Bool -> Ptr Word8 -> Socket -> IO ()
serve hasDeadline answer connection = do
  when hasDeadline (deadlineAfter 10000000 >>= setReadDeadline connection)
  received <- recvLent noDeadline connection lentSize discard
  when (received > 0) (sendAllBuf connection answer answerSize >> serve hasDeadline answer connection)
  where
    discard buffer count = count <$ when (count > 0) (giveBack buffer)

acceptAll :: Bool -> Ptr Word8 -> PortNumber -> Int -> IO ()
acceptAll hasDeadline answer port capability = do
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  setSocketOption listener ReusePort 1
  bind listener (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 4096
  forever . mask_ $ do
    (connection, _) <- accept listener
    setSocketOption connection NoDelay 1
    void . forkOn capability $ do
      handle ignore (serve hasDeadline answer connection)
      close connection
  where
    -- A client that resets its connection is no error worth reporting here.
    ignore :: SomeException -> IO ()
    ignore _ = pure ()

main :: IO ()
main = do
  port : options <- getArgs
  answer <- newAnswer
  capabilities <- getNumCapabilities
  stopped <- newEmptyMVar
  hasDeadline <- evaluate ("deadline" `elem` options) -- not once per request
  forM_ [0 .. capabilities - 1] $ \capability ->
    forkOn capability (acceptAll hasDeadline answer (read port) capability `finally` putMVar stopped ())
  takeMVar stopped
