-- | The examples of the documentation: that they compile is half of the test.
module ExampleSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.STM hiding (registerDelay)
import Control.Exception (finally)
import Control.Monad (forever, unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Millrace hiding (connectTo)
import Millrace.Operation (foreignHandle, perform, throwIfFailed, waitReadableRequest)
import Support (bytesAt, connectTo, pause, receiveExactly, start, stop, within)
import System.Posix.Types (Fd)
import Test.Hspec

spec :: Spec
spec = describe "examples" $ do
  it "an echo server" $ do
    listener <- socket AF_INET Stream defaultProtocol
    bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
    listen listener 1024
    server <- start (echoServer listener)
    address <- getSocketName listener
    client <- connectTo address
    sendAll client (bytesAt 0 1000)
    within 5 "the echo" (receiveExactly client 0 1000) `shouldReturn` 1000
    close client
    stop server
    close listener
  it "one deadline for two operations" $ do
    (one, other) <- socketPair AF_UNIX Stream defaultProtocol
    sendAll other (bytesAt 0 10)
    answerGreeting one (bytesAt 10 10) `shouldReturn` bytesAt 0 10
    recv other 10 `shouldReturn` bytesAt 10 10
    close one >> close other
  it "waiting for a descriptor or a queue" $ do
    (one, other) <- socketPair AF_UNIX Stream defaultProtocol
    queue <- newTQueueIO
    atomically (writeTQueue queue 'q')
    withFdSocket one $ \number -> do
      next (fromIntegral number) queue `shouldReturn` Right 'q'
      sendAll other (bytesAt 0 1)
      pause 1000
      next (fromIntegral number) queue `shouldReturn` Left ()
      perform (waitReadableRequest (foreignHandle (fromIntegral number))) >>= throwIfFailed "waiting" "the socket"
    close one >> close other

-- Of "Millrace.Socket".
echoServer :: Socket -> IO ()
echoServer listener = forever $ do
  (peer, _) <- accept listener
  forkIO (echo peer `finally` close peer)

echo :: Socket -> IO ()
echo peer = do
  bytes <- recv peer 4096
  unless (ByteString.null bytes) $ sendAll peer bytes >> echo peer

-- Of "Millrace.Deadline".
answerGreeting :: Socket -> ByteString -> IO ByteString
answerGreeting s answer = do
  deadline <- deadlineAfter (seconds 5)
  greeting <- recvBefore deadline s 4096
  sendAllBefore deadline s answer
  return greeting

-- Of "Millrace.Wait".
next :: Fd -> TQueue a -> IO (Either () a)
next fd queue = do
  (ready, giveUp) <- threadWaitReadSTM fd
  atomically ((Left <$> ready) `orElse` (Right <$> readTQueue queue)) <* giveUp
