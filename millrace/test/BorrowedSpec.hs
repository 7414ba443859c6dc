-- | Receiving into borrowed buffers.
module BorrowedSpec (spec) where

import Control.Concurrent (yield)
import Control.Exception (catch, evaluate, finally, throwIO)
import Control.Monad (forM, forM_, replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString
import Millrace.Timer (timeout)
import Scenario (scenarioPasses)
import Support
import Test.Hspec

spec :: Spec
spec = describe "borrowed buffers" $ do
  it "hold what has arrived, and are used again" $
    withTcpPair $ \from to -> replicateM_ 1000 $ do
      sendAll from (Char8.pack "hello")
      receive to borrowedSize `shouldReturn` Char8.pack "hello"
  it "are bounded by the size that was asked for" $
    withTcpPair $ \from to -> do
      sendAll from (Char8.pack "abcdef")
      receive to 4 `shouldReturn` Char8.pack "abcd"
      receive to 4 `shouldReturn` Char8.pack "ef"
  it "are not there at the end of the stream" $
    withTcpPair $ \from to -> do
      shutdown from ShutdownSend
      recvBorrowed noDeadline to borrowedSize isEnd `shouldReturn` True
      recvBorrowed noDeadline to borrowedSize isEnd `shouldReturn` True
  it "give up at a deadline and after a time, and lose nothing" $
    withTcpPair $ \from to -> do
      soon <- deadlineAfter (milliseconds 5)
      recvBorrowed soon to borrowedSize isEnd `shouldThrow` isDeadlineError
      recvBorrowedWithin (milliseconds 5) to borrowedSize isEnd `shouldThrow` isDeadlineError
      recvBorrowedWithin (seconds 0) to borrowedSize isEnd `shouldThrow` isDeadlineError
      recvBorrowedWithin (microseconds minBound) to borrowedSize isEnd `shouldThrow` isDeadlineError
      sendAll from (Char8.pack "later")
      receive to borrowedSize `shouldReturn` Char8.pack "later"
  it "bring what was kept from an interrupted receive, in order" $
    withTcpPair $ \from to -> do
      let total = 20000 :: Int
      sender <-
        start (forM_ [1 .. total] $ \number -> sendAll from (Char8.singleton (toEnum (number `mod` 256))) >> yield)
      bytes <- collect total to
      finish sender
      ByteString.unpack bytes `shouldBe` [fromIntegral (number `mod` 256) | number <- [1 .. total]]
  it "are sent, given back, and filled with the answer" $
    withTcpPair $ \peer here -> replicateM_ 1000 $ do
      job <- start (askOnce here (seconds 10) (Char8.pack "question"))
      receive peer borrowedSize `shouldReturn` Char8.pack "question"
      sendAll peer (Char8.pack "answer")
      finish job `shouldReturn` Right (Char8.pack "answer")
  it "stay the caller's when the socket does not take them all at once" $
    withTcpPair $ \peer here -> do
      sent <- fillUp here 0
      sendAll peer (Char8.pack "waits")
      drained <- start (ByteString.length <$> recvExactly peer (sent + 4))
      receive here borrowedSize `shouldReturn` Char8.pack "waits"
      sendAll here (Char8.pack "rest")
      finish drained `shouldReturn` sent + 4
  it "send and then receive under a deadline, and interrupted, and nothing is lost" $
    withTcpPair $ \peer here -> do
      askOnce here (milliseconds 5) (Char8.pack "a") `shouldThrow` isDeadlineError
      timeout 5000 (askOnce here unlimited (Char8.pack "b")) `shouldReturn` Nothing
      recvExactly peer 2 `shouldReturn` Char8.pack "ab"
      sendAll peer (Char8.pack "later")
      receive here borrowedSize `shouldReturn` Char8.pack "later"
  it "lose and repeat nothing when it is interrupted at any moment" $
    withTcpPair $ \peer here -> do
      echo <- start (echoAll peer)
      answers <- forM [1 .. 5000 :: Int] $ \number ->
        let question = Char8.singleton (toEnum (number `mod` 128))
            ask = do
              outcome <- timeout (1 + number * 7919 `mod` 60) (askOnce here unlimited question)
              case outcome of
                Just (Right answer) -> return [answer]
                -- Bytes that came before the interruption are kept.
                Just (Left sent) -> require (sent == 0) "a byte fits" >> (:) <$> receive here borrowedSize <*> ask
                Nothing -> return []
         in ByteString.concat <$> ask
      shutdown here ShutdownSend
      rest <- untilEnd here
      echoed <- finish echo
      ByteString.concat (answers ++ [rest]) `shouldBe` echoed
  it "are refused where they do not have the bytes, and given back" $
    withTcpPair $ \peer here ->
      forM_ [(0, 0), (-1, 1), (0, borrowedSize + 1), (borrowedSize, 1), (1, maxBound)] $ \(offset, count) -> do
        buffer <- borrow
        let slice = Slice {sliceBuffer = buffer, sliceOffset = offset, sliceCount = count}
        problem <- failsWith (sendThenReceiveWithin (seconds 1) here slice (const (return ()))) :: IO IOError
        show problem
          `shouldContain` ( "does not have " ++ show (sliceCount slice) ++ " bytes from " ++ show (sliceOffset slice)
                              ++ " on"
                          )
        -- It is the buffer that is lent next.
        again <- borrow
        giveBack again
        (borrowedBytes again == borrowedBytes buffer) `shouldBe` True
        sendAll peer (Char8.pack "x")
        receive here 1 `shouldReturn` Char8.pack "x"
  it "are those of their bytes" $ do
    buffer <- borrow
    borrowedAt (borrowedBytes buffer) == buffer `shouldBe` True
    giveBack buffer
  it "are given back when there is no loop to send them" $ scenarioPasses "send-then-receive-without-loop"
  it "are borrowed and given back in any thread" $ do
    buffers <- forM [1 .. 600 :: Int] (const borrow)
    jobs <- forM buffers (start . giveBack)
    forM_ jobs finish

-- Interrupts itself at random moments.
collect :: Int -> Socket -> IO ByteString
collect total from = ByteString.concat . reverse <$> go (0 :: Int) 0 []
  where
    go attempt count pieces
      | count >= total = return pieces
      | otherwise = do
        result <- timeout (1 + attempt * 7919 `mod` 60) (recv from 100)
        case result of
          Nothing -> do
            bytes <- receive from 100
            go (attempt + 1) (count + ByteString.length bytes) (bytes : pieces)
          Just bytes -> go (attempt + 1) (count + ByteString.length bytes) (bytes : pieces)

-- Sends bytes from a borrowed buffer and receives an answer. If the socket does not take all bytes at once, returns how
-- many it took.
askOnce :: Socket -> Duration -> ByteString -> IO (Either Int ByteString)
askOnce s limit bytes = do
  buffer <- borrow
  ByteString.useAsCStringLen bytes $ \(source, count) ->
    copyBytes (borrowedBytes buffer `plusPtr` 7) (castPtr source) count
  sendThenReceiveWithin limit s (Slice buffer 7 (ByteString.length bytes)) (answerOf buffer)
  where
    answerOf buffer (NotSent sent) = Left sent <$ giveBack buffer
    answerOf _ (Sent received) = Right <$> bytesOf received

recvExactly :: Socket -> Int -> IO ByteString
recvExactly from count
  | count <= 0 = return ByteString.empty
  | otherwise = do
    bytes <- recv from count
    if ByteString.null bytes
      then return bytes
      else ByteString.append bytes <$> recvExactly from (count - ByteString.length bytes)

-- Sends received bytes back until the end of the stream. Returns them.
echoAll :: Socket -> IO ByteString
echoAll s = do
  bytes <- recv s 4096
  if ByteString.null bytes
    then bytes <$ shutdown s ShutdownSend
    else sendAll s bytes >> ByteString.append bytes <$> echoAll s

untilEnd :: Socket -> IO ByteString
untilEnd s = do
  bytes <- receive s borrowedSize
  if ByteString.null bytes then return bytes else ByteString.append bytes <$> untilEnd s

-- Sends until the socket takes no more. Returns how many bytes it took.
fillUp :: Socket -> Int -> IO Int
fillUp s sent = do
  buffer <- borrow
  outcome <-
    sendThenReceiveWithin (milliseconds 20) s (Slice buffer 0 borrowedSize) (partOrAll buffer)
      `catch` \failure -> if isDeadlineError failure then return (Right ()) else throwIO failure
  case outcome of
    Left part -> require (part < borrowedSize) "a part" >> return (sent + part)
    Right () -> fillUp s (sent + borrowedSize)
  where
    partOrAll buffer outcome = case outcome of
      NotSent part -> Left part <$ giveBack buffer
      Sent _ -> return (Right ())

receive :: Socket -> Int -> IO ByteString
receive from size = recvBorrowed noDeadline from size bytesOf

bytesOf :: Received -> IO ByteString
bytesOf EndOfStream = return ByteString.empty
bytesOf (Received buffer count) =
  (ByteString.packCStringLen (castPtr (borrowedBytes buffer), count) >>= evaluate) `finally` giveBack buffer

isEnd :: Received -> IO Bool
isEnd EndOfStream = return True
isEnd (Received buffer _) = False <$ giveBack buffer
