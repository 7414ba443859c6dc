{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Sending in borrowed buffers, and the errors of "Millrace.Tls.Borrowed", with this package on both sides. What
-- receives is in "ReceiveSpec".
module BorrowedSpec (spec) where

import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.List (isInfixOf)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eBADF, ePIPE)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import GHC.IO.Exception (IOErrorType (..), ioe_type)
import Millrace.Deadline (isDeadlineError)
import Millrace.Socket.Borrowed (borrow, borrowedBytes, giveBack)
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls hiding (attemptSend, receiveBorrowed)
import Millrace.Tls.Borrowed
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  it "sends few and many bytes, and the end with the last ones" $ \credentials -> withPair credentials $
    \one other -> do
      job <- start $ do
        sendAllWith (attemptSend MoreFollows (Within 0) one) (bytesAt 0 100)
        sendAllWith (attemptSend NothingFollows (Within 0) one) (bytesAt 100 100000)
        sendAllWith (attemptSend EndFollows (Within 0) one) (bytesAt 100100 3000)
      received <- within 20 "all" (receiveAll other)
      finish job
      (received == bytesAt 0 103100) `shouldBe` True
      attempted (attemptSend MoreFollows (Within 0) one) `shouldReturn` by ePIPE
      attempted (attemptSend NothingFollows (Within 0) one) `shouldReturn` by ePIPE
  it "refuses to send on a closed connection" $ \credentials -> withPair credentials $ \one _ -> do
    close one
    attempted (attemptSend MoreFollows (Within 0) one) `shouldReturn` by eBADF
    attempted (attemptSend NothingFollows (Within 0) one) `shouldReturn` by eBADF
  it "reports TLS's failures as errors of the input and output" $ \credentials -> withPair credentials $
    \one other -> do
      Plain.sendAll (connectionSocket one) "this is not a record"
      forM_
        [ void (receiveBorrowed (Within 0) other (void . taken)),
          void (attempted (attemptSend MoreFollows (Within 0) other))
        ]
        $ \action ->
          within 20 "the error" action `shouldThrow` \problem ->
            ioe_type problem == ResourceVanished && show other `isInfixOf` show problem
  it "does not send and then receive if there is something to receive" $ \credentials ->
    withPair credentials $ \one other -> do
      sendAll one "early"
      -- That takes the bytes out of the socket.
      eventually "the early bytes" (not <$> isQuiet other)
      sendingThenReceiving 0 other "answer" `shouldReturn` Nothing
      sendAllWith (attemptSend NothingFollows (Within 0) other) "answer"
      recv one 100 `shouldReturn` "answer"
      sendAll one "question"
      receiveBorrowed (Within 0) other taken `shouldReturn` "early"
      sendingThenReceiving 0 other "answer" `shouldReturn` Just "question"
      recv one 100 `shouldReturn` "answer"
  it "sends the rest by other attempts if the socket is full" $ \credentials -> withPair credentials $ \one other -> do
    -- It receives nothing, so its time passes whenever it has sent a piece.
    let size = 16000
        fill position = do
          outcome <- try (sendingThenReceiving 1 one (bytesAt position size))
          case outcome of
            Left problem | isDeadlineError problem -> fill (position + size)
            Left problem -> throwIO problem
            Right received -> position <$ (received `shouldBe` Nothing)
    position <- within 20 "a full socket" (fill 0)
    sendingThenReceiving 1 one (bytesAt position size) `shouldReturn` Nothing
    job <- start (sendAllWith (attemptSend NothingFollows (Within 0) one) (bytesAt position size) >> endSending one)
    received <- within 20 "all" (receiveAll other)
    finish job
    (received == bytesAt 0 (position + size)) `shouldBe` True

-- Sends these bytes from a borrowed buffer and receives. Nothing if it did neither.
sendingThenReceiving :: Int -> Connection -> ByteString -> IO (Maybe ByteString)
sendingThenReceiving micros connection bytes = mask_ $ do
  buffer <- borrow
  unsafeUseAsCStringLen bytes $ \(memory, count) -> copyBytes (borrowedBytes buffer) (castPtr memory) count
  sendThenReceive micros connection (Slice buffer 0 (ByteString.length bytes)) $ \case
    NotSent _ -> Nothing <$ giveBack buffer
    Sent received -> Just <$> taken received

taken :: Received -> IO ByteString
taken EndOfStream = return ByteString.empty
taken (Received buffer count) = ByteString.packCStringLen (castPtr (borrowedBytes buffer), count) <* giveBack buffer

-- The error with which an attempt to send is refused.
attempted :: (Ptr Word8 -> Int -> IO Attempt) -> IO (Maybe CInt)
attempted attempt = unsafeUseAsCStringLen "more" $ \(memory, count) -> do
  outcome <- attempt (castPtr memory) count
  return $ case outcome of
    Refused (Errno code) -> Just code
    _ -> Nothing

by :: Errno -> Maybe CInt
by (Errno code) = Just code
