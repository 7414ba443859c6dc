-- | Answers whatever it receives with 500 bytes, on Millrace: a green thread per connection, a listener per capability.
-- Usage: millrace-tcp500 PORT [deadline]. With @deadline@, each request must arrive within ten seconds.
module Main (main) where

import Control.Concurrent (forkOn, getNumCapabilities, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, evaluate, finally, handle, mask_)
import Control.Monad (forM_, forever, void, when)
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (mallocBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Millrace.Deadline (deadlineAfter, seconds, unlimited)
import Millrace.Socket
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString (sendAllBuf)
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

-- The loop is made of tail calls: GHC visits all frames of a stack each time its thread blocks, so there must not be a
-- frame per request. State is passed in arguments, because a closure per connection would have left the cache.
serve :: Bool -> Ptr Word8 -> Socket -> IO ()
serve hasDeadline answer connection = do
  pushDeadline hasDeadline connection
  recvBorrowedWithin unlimited connection borrowedSize taken >>= reply hasDeadline answer connection

-- The answer is written into the buffer of the question. Sending it and waiting for the next question is one operation.
reply :: Bool -> Ptr Word8 -> Socket -> Ptr Word8 -> IO ()
reply hasDeadline answer connection bytes = when (bytes /= nullPtr) $ do
  copyBytes bytes answer answerSize
  pushDeadline hasDeadline connection
  next <- sendThenReceiveWithin unlimited connection (Slice (borrowedAt bytes) 0 answerSize) $ \outcome ->
    case outcome of
      NotSent sent -> sendRest connection bytes sent
      Sent received -> taken received
  if next == nothingTaken then serve hasDeadline answer connection else reply hasDeadline answer connection next

pushDeadline :: Bool -> Socket -> IO ()
pushDeadline hasDeadline connection = when hasDeadline (deadlineAfter (seconds 10) >>= setReadDeadline connection)

-- Keeps the buffer and returns its bytes; null at the end of the stream.
taken :: Received -> IO (Ptr Word8)
taken (Received buffer _) = pure (borrowedBytes buffer)
taken EndOfStream = pure nullPtr

-- The socket did not take the whole answer at once.
sendRest :: Socket -> Ptr Word8 -> Int -> IO (Ptr Word8)
sendRest connection bytes sent = do
  sendAllBuf connection (bytes `plusPtr` sent) (answerSize - sent) `finally` giveBack (borrowedAt bytes)
  pure nothingTaken

-- Stands for "the rest was sent separately, and nothing was received".
nothingTaken :: Ptr Word8
nothingTaken = nullPtr `plusPtr` 1

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
    -- A client may reset its connection. That is not reported.
    ignore :: SomeException -> IO ()
    ignore _ = pure ()

main :: IO ()
main = do
  port : options <- getArgs
  answer <- newAnswer
  capabilities <- getNumCapabilities
  stopped <- newEmptyMVar
  hasDeadline <- evaluate ("deadline" `elem` options) -- here, and not once per request
  forM_ [0 .. capabilities - 1] $ \capability ->
    forkOn capability (acceptAll hasDeadline answer (read port) capability `finally` putMVar stopped ())
  takeMVar stopped
