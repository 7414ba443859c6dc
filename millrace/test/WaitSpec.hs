{-# LANGUAGE CApiFFI #-}

-- | Waiting for descriptors that do not belong to Millrace.
module WaitSpec (spec) where

import Control.Concurrent.STM hiding (registerDelay)
import Control.Exception (bracket)
import Control.Monad (forM, forM_, replicateM, replicateM_, void)
import Data.Word (Word64)
import Foreign.C.Error (eBADF)
import Foreign.C.Types (CInt (..), CUInt (..))
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (castPtr)
import Millrace.Timer
import Millrace.Wait
import Support
import System.Posix.IO hiding (fdRead)
import System.Posix.IO.ByteString (fdRead)
import System.Posix.Types (Fd (..))
import Test.Hspec

foreign import capi unsafe "sys/eventfd.h eventfd" c_eventfd :: CUInt -> CInt -> IO CInt

spec :: Spec
spec = describe "Millrace.Wait" $ do
  it "threadWaitRead waits for data in a pipe" $
    withPipe $ \out into -> do
      waiter <- start (threadWaitRead out)
      pause 20000
      isOver waiter `shouldReturn` False
      void (fdWrite into "x")
      within 5 "the wait" (finish waiter)
      threadWaitRead out -- still there
  it "threadWaitRead wakes at the end of the stream" $
    bracket createPipe (closeFd . fst) $ \(out, into) -> do
      waiter <- start (threadWaitRead out)
      pause 20000
      closeFd into
      within 5 "the wait" (finish waiter)
  it "threadWaitWrite waits while a pipe is full" $
    withPipe $ \out into -> do
      threadWaitWrite into
      setFdOption into NonBlockingRead True
      fill into
      waiter <- start (threadWaitWrite into)
      pause 20000
      isOver waiter `shouldReturn` False
      void (fdRead out 65536)
      within 5 "the wait" (finish waiter)
  it "wakes every thread that waits for a descriptor, on all capabilities" $
    withPipe $ \out into -> do
      waiters <- forM [1 .. 50] $ \number -> startOn number (threadWaitRead out)
      pause 20000
      void (fdWrite into "x")
      within 5 "the waits" (mapM_ finish waiters)
  it "waits for both directions of one descriptor at once" $
    withEvent 0 $ \event -> do
      reader <- start (threadWaitRead event)
      within 5 "the wait to write" (threadWaitWrite event)
      isOver reader `shouldReturn` False
      signal event
      within 5 "the wait" (finish reader)
  it "waits again and again" $
    withPipe $ \out into -> within 20 "all turns" $ do
      reader <- start (replicateM_ 5000 (threadWaitRead out >> fdRead out 1))
      replicateM_ 5000 (fdWrite into "x")
      finish reader
  it "can be interrupted, and the descriptor is as before" $
    withoutLeaks $
      withPipe $ \out into -> do
        replicateM_ 500 (timeout 100 (threadWaitRead out) `shouldReturn` Nothing)
        waiters <- replicateM 20 (start (threadWaitRead out))
        mapM_ stop waiters
        void (fdWrite into "x")
        within 5 "the wait" (threadWaitRead out)
  it "throws for a descriptor that is not open" $ do
    forM_ [threadWaitRead, threadWaitWrite] $ \wait -> do
      problem <- failsWith (wait (Fd 9999))
      problem `shouldSatisfy` hasCode eBADF
      show problem `shouldContain` "descriptor 9999"
    (ready, _) <- threadWaitReadSTM (Fd 9999)
    problem <- failsWith (within 5 "the transaction" (atomically ready))
    problem `shouldSatisfy` hasCode eBADF
  it "finds a regular file ready" $
    bracket (openToRead "/proc/self/status") closeFd $ \file ->
      within 5 "the wait" (threadWaitRead file)
  it "does not mistake a new descriptor for an old one with its number" $
    within 30 "all turns" $
      forM_ [1 .. 300 :: Int] $ \_ -> do
        (out, into) <- createPipe
        void (fdWrite into "x")
        threadWaitRead out
        void (timeout 1 (threadWaitWrite out))
        closeFd into >> closeFd out
        withPipe $ \freshOut freshInto -> do
          waiter <- start (threadWaitRead freshOut)
          pause 100
          isOver waiter `shouldReturn` False
          void (fdWrite freshInto "x")
          within 5 "the wait" (finish waiter)
  describe "STM" $ do
    it "threadWaitReadSTM succeeds when there is data, in a choice with others" $
      withEvent 0 $ \event -> do
        (ready, giveUp) <- threadWaitReadSTM event
        delay <- registerDelay 20000
        let choice = (Left <$> ready) `orElse` (readTVar delay >>= check >> return (Right ()))
        atomically choice `shouldReturn` Right ()
        signal event
        within 5 "the transaction" (atomically (Left <$> ready)) `shouldReturn` (Left () :: Either () ())
        atomically ready -- once ready, it stays so
        giveUp
    it "threadWaitWriteSTM succeeds when something can be written" $
      withEvent 0 $ \event -> do
        (ready, giveUp) <- threadWaitWriteSTM event
        within 5 "the transaction" (atomically ready)
        giveUp
    it "giving up leaves nothing in flight, from any capability" $
      withoutLeaks $
        withEvent 0 $ \event ->
          forM_ [0 .. 199] $ \number -> do
            (_, giveUp) <- threadWaitReadSTM event
            startOn number giveUp >>= finish
    it "after giving up, the transaction fails instead of waiting for ever" $
      withEvent 0 $ \event -> do
        (ready, giveUp) <- threadWaitReadSTM event
        giveUp
        problem <- failsWith (within 5 "the transaction" (atomically ready))
        show (problem :: IOError) `shouldContain` "threadWaitReadSTM"

withPipe :: (Fd -> Fd -> IO a) -> IO a
withPipe = bracket createPipe (\(out, into) -> closeFd out >> closeFd into) . uncurry

withEvent :: CUInt -> (Fd -> IO a) -> IO a
withEvent initial = bracket (Fd <$> c_eventfd initial 0) closeFd

signal :: Fd -> IO ()
signal event = with (1 :: Word64) $ \one -> void (fdWriteBuf event (castPtr one) 8)

fill :: Fd -> IO ()
fill into = do
  writable <- timeout 20000 (threadWaitWrite into)
  case writable of
    Nothing -> return ()
    Just () -> fdWrite into (replicate 4096 'x') >> fill into
