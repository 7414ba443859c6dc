-- | Receiving and sending on sockets: bytes, deadlines and files.
module TransferSpec (spec) where

import Control.Monad (forM_, replicateM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.Word (Word64)
import Foreign.C.Error (eBADF)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr, plusPtr)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Deadline
import Millrace.Operation (bringIntoMemory)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.File
import SocketSupport
import Support
import System.IO.Error (ioeGetErrorType)
import System.Posix.Fcntl (Advice (AdviceDontNeed), fileAdvise)
import System.Posix.Types (Fd (..))
import System.Posix.Unistd (fileSynchronise)
import Test.Hspec

spec :: Spec
spec = do
  describe "Millrace.Socket.ByteString" $ do
    it "refuses to receive a number of bytes that is not positive" $
      withUnixPair $ \one _ ->
        forM_ [0, -1] $ \size -> do
          problem <- failsWith (void (recv one size))
          ioeGetErrorType problem `shouldBe` InvalidArgument
          bufferProblem <- failsWith (allocaBytes 1 (\buffer -> void (recvBuf one buffer size)))
          ioeGetErrorType bufferProblem `shouldBe` InvalidArgument
    it "refuses to send a negative number of bytes" $
      withUnixPair $ \one other -> do
        problem <- failsWith (allocaBytes 1 (\buffer -> void (sendBuf one buffer (-1))))
        ioeGetErrorType problem `shouldBe` InvalidArgument
        show problem `shouldContain` "Millrace.Socket.ByteString.sendBuf"
        shutdown one ShutdownSend
        recv other 10 `shouldReturn` ByteString.empty
    it "sends nothing without waiting" $
      withUnixPair $ \one other -> do
        sendAll one ByteString.empty
        sendMany one []
        sendMany one [ByteString.empty, ByteString.empty]
        sendMany one [ByteString.empty, bytesAt 0 5, ByteString.empty, bytesAt 5 5]
        receiveExactly other 0 10 `shouldReturn` 10
        close other
        sendAll one ByteString.empty
    it "sends several thousand strings at once" $
      withUnixPair $ \one other -> do
        sender <- start (sendMany one [bytesAt position 7 | position <- [0, 7 .. 70000 - 7]])
        receiveExactly other 0 70000 `shouldReturn` 70000
        finish sender
    it "receives into and sends from buffers" $
      withUnixPair $ \one other -> allocaBytes 300000 $ \buffer -> do
        sender <- start $
          ByteString.useAsCStringLen (bytesAt 0 300000) $ \(source, size) -> do
            sent <- sendBuf one (castPtr source) size
            sendAllBuf one (castPtr source `plusPtr` sent) (size - sent)
        let go position
              | position == 300000 = return ()
              | otherwise = do
                count <- recvBuf other (buffer `plusPtr` position) (300000 - position)
                go (position + count)
        go 0
        finish sender
        ByteString.packCStringLen (castPtr buffer, 300000) `shouldReturn` bytesAt 0 300000
    it "deadlines end receives and sends, and lose nothing" $
      withUnixPair $ \one other -> do
        soon <- deadlineAfter (milliseconds 20)
        received <- failsWith (void (recvBefore soon one 10))
        received `shouldSatisfy` isDeadlineError
        -- The same deadline, which has passed: what is there is still received.
        void (sendStream other 0 10)
        recvBefore soon one 10 `shouldReturn` bytesAt 0 10
        later <- deadlineAfter (milliseconds 50)
        sent <- failsWith (sendAllBefore later one (ByteString.replicate 10000000 0))
        sent `shouldSatisfy` isDeadlineError
        many <- failsWith (sendManyBefore later one [bytesAt 0 100])
        many `shouldSatisfy` isDeadlineError
        part <- failsWith (void (sendBefore later one (bytesAt 0 100)))
        part `shouldSatisfy` isDeadlineError
  describe "Millrace.Deadline" $ do
    it "orders deadlines" $ do
      soon <- deadlineAfter (milliseconds 1)
      later <- deadlineAfter (seconds 1)
      earlier soon later `shouldBe` soon
      earlier noDeadline soon `shouldBe` soon
      earlier soon noDeadline `shouldBe` soon
      maximum [soon, noDeadline, later] `shouldBe` noDeadline
      show noDeadline `shouldBe` "noDeadline"
    it "takes any number" $ do
      now <- deadlineAfter (seconds 0)
      past <- deadlineAfter (microseconds minBound)
      farthest <- deadlineAfter (nanoseconds maxBound <> nanoseconds maxBound)
      later <- deadlineAfter (seconds 1)
      (now < later && past < later && later < farthest && farthest < noDeadline) `shouldBe` True
      deadlineAfter (microseconds maxBound) `shouldReturn` noDeadline
    it "does not take other errors for its own" $ userError "other" `shouldNotSatisfy` isDeadlineError
  describe "setReadDeadline, setWriteDeadline" $ do
    it "end a receive without losing a byte" $
      withTcpPair $ \one other -> do
        deadlineAfter (milliseconds 10) >>= setReadDeadline one
        timesOut (recv one 10)
        sendAll other (bytesAt 0 4)
        setReadDeadline one noDeadline
        recv one 10 `shouldReturn` bytesAt 0 4
    it "are seen by a thread that waits, on any capability" $
      forM_ [0, 1] $ \capability ->
        withUnixPair $ \one _ -> do
          job <- startOn 0 (timesOut (recv one 10))
          pause 20000
          isOver job `shouldReturn` False
          startOn capability (deadlineAfter (milliseconds 5) >>= setReadDeadline one) >>= finish
          finish job
    it "pushed forward at every activity end a connection only when there is none" $
      withTcpPair $ \one other -> do
        job <- start $
          timesOut $
            forM_ [1 :: Int ..] $ \_ -> do
              deadlineAfter (milliseconds 200) >>= setReadDeadline one
              void (recv one 1)
        replicateM_ 20 (pause 20000 >> sendAll other (bytesAt 0 1))
        isOver job `shouldReturn` False
        finish job
    it "end a send, and leave the other direction alone" $
      withTcpPair $ \one other -> do
        deadlineAfter (milliseconds 10) >>= setWriteDeadline one
        timesOut (sendAll one (ByteString.replicate 100000000 0))
        sendAll other (bytesAt 0 4)
        recv one 10 `shouldReturn` bytesAt 0 4
    it "count together with a call's own: the earlier one" $
      withUnixPair $ \one _ -> do
        soon <- deadlineAfter (milliseconds 10)
        late <- deadlineAfter (hours 1)
        setReadDeadline one late
        timesOut (recvBefore soon one 10)
        setReadDeadline one soon
        timesOut (recvBefore late one 10)
    it "of a listener end an accept" $
      withListener $ \listener _ -> do
        deadlineAfter (milliseconds 10) >>= setReadDeadline listener
        timesOut (accept listener)
    it "of a closed socket cannot be set" $
      withUnixPair $ \one _ -> do
        close one
        problem <- failsWith (setReadDeadline one noDeadline)
        problem `shouldSatisfy` hasCode eBADF
  describe "Millrace.Socket.File" $ do
    it "sends a whole file through small buffers" $
      withFile' 3000000 $ \file -> withTcpPair $ \one other -> do
        setSocketOption one SendBuffer 4096
        sender <- start (sendFile one file 0 3000000)
        receiveExactly other 0 3000000 `shouldReturn` 3000000
        finish sender `shouldReturn` 3000000
    it "sends a part of a file" $
      withFile' 100000 $ \file -> withUnixPair $ \one other -> do
        sendFile one file 777 5000 `shouldReturn` 5000
        receiveExactly other 777 5000 `shouldReturn` 5777
    it "sends what is not in memory, which helpers read" $
      withFile' 3000000 $ \file -> withTcpPair $ \one other -> do
        chill file
        sender <- start (sendFile one file 0 3000000)
        receiveExactly other 0 3000000 `shouldReturn` 3000000
        finish sender `shouldReturn` 3000000
        chill file
        isCold <- (== 1) <$> c_file_cache_state file 1000000 1000000
        unless isCold $ pendingWith "the system keeps it in memory, or does not say so"
        bringIntoMemory file 1000000 1000000
        c_file_cache_state file 1000000 1000000 `shouldReturn` 0
        -- The capability of this thread has other work meanwhile. A thread that is interrupted leaves no helper behind.
        chill file
        forM_ [1 .. 20] $ \i -> do
          interrupted <- start (sendFile one file 0 3000000)
          pause (i * 50)
          stop interrupted
          chill file
    it "sends less when the file ends early" $
      withFile' 1000 $ \file -> withUnixPair $ \one other -> do
        sendFile one file 400 5000 `shouldReturn` 600
        sendFile one file 1000 10 `shouldReturn` 0
        sendFile one file 0 0 `shouldReturn` 0
        receiveExactly other 400 600 `shouldReturn` 1000
    it "gives up at its deadline" $
      withFile' 3000000 $ \file -> withUnixPair $ \one _ -> do
        deadline <- deadlineAfter (milliseconds 50)
        problem <- failsWith (void (sendFileBefore deadline one file 0 3000000))
        problem `shouldSatisfy` isDeadlineError
    it "is woken by close" $
      withFile' 3000000 $ \file -> withUnixPair $ \one _ -> do
        sender <- start (sendFile one file 0 3000000)
        pause 30000
        close one
        within 5 "the sender" (outcomeOf sender) >>= (`shouldSatisfy` isErrno eBADF)

-- | A file with the first bytes of the stream.
-- Takes the file out of the system's memory, as far as the system can be asked for that.
chill :: Fd -> IO ()
chill file = fileSynchronise file >> fileAdvise file 0 0 AdviceDontNeed

-- mr_file_cache_state: 0 in memory, 1 not in memory.
foreign import ccall unsafe "mr_file_cache_state" c_file_cache_state :: Fd -> Word64 -> Word64 -> IO CInt
