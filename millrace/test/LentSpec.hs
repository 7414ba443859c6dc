-- | Receiving into buffers that the loop lends.
module LentSpec (spec) where

import Control.Concurrent (yield)
import Control.Exception (evaluate, finally)
import Control.Monad (forM, forM_, replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Foreign.Ptr (castPtr)
import Test.Hspec

import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Lent
import Millrace.Timer (timeout)
import Support

spec :: Spec
spec = describe "lent buffers" $ do
  it "hold what has arrived, and are lent again" $ withTcpPair $ \from to -> replicateM_ 1000 $ do
    sendAll from (Char8.pack "hello")
    receive to lentSize `shouldReturn` Char8.pack "hello"
  it "are bounded by the size that was asked for" $ withTcpPair $ \from to -> do
    sendAll from (Char8.pack "abcdef")
    receive to 4 `shouldReturn` Char8.pack "abcd"
    receive to 4 `shouldReturn` Char8.pack "ef"
  it "are not lent at the end of the stream" $ withTcpPair $ \from to -> do
    shutdown from ShutdownSend
    recvLent noDeadline to lentSize (\_ count -> return count) `shouldReturn` 0
  it "give up at a deadline and after a time, and lose nothing" $ withTcpPair $ \from to -> do
    soon <- deadlineAfter 5000
    recvLent soon to lentSize (\_ _ -> return ()) `shouldThrow` isDeadlineError
    recvLentWithin 5000 to lentSize (\_ _ -> return ()) `shouldThrow` isDeadlineError
    sendAll from (Char8.pack "later")
    receive to lentSize `shouldReturn` Char8.pack "later"
  it "bring what was kept from an interrupted receive, in order" $ withTcpPair $ \from to -> do
    let total = 20000 :: Int
    sender <- start (forM_ [1 .. total] $ \number -> sendAll from (Char8.singleton (toEnum (number `mod` 256))) >> yield)
    bytes <- collect total to
    finish sender
    ByteString.unpack bytes `shouldBe` [fromIntegral (number `mod` 256) | number <- [1 .. total]]
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

receive :: Socket -> Int -> IO ByteString
receive from size = recvLent noDeadline from size $ \buffer count ->
  (ByteString.packCStringLen (castPtr (lentBytes buffer), count) >>= evaluate) `finally` giveBack buffer
