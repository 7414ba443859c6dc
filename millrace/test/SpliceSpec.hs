{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Splice": between any two of sockets, pipes and files.
module SpliceSpec (spec) where

import Control.Monad (forM_, void)
import Foreign.C.Error (eBADF)
import Millrace.Deadline
import Millrace.File
import Millrace.File.Temporary
import Millrace.Pipe
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Splice
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Splice" $ do
  forM_ [(from, to) | from <- sources, to <- targets] $ \((fromName, withFrom), (toName, withTo)) ->
    it ("moves all bytes from a " ++ fromName ++ " to a " ++ toName) $
      withoutLeaks $
        withFrom $ \from -> withTo $ \to check -> do
          checker <- start check
          within 30 "moving" (splice from to everything) `shouldReturn` fromIntegral total
          within 30 "the target" (finish checker)
  it "moves no more than it is told to" $
    withUnixPair $ \client here -> withUnixPair $ \there server -> do
      sendAll client (bytesAt 0 1000)
      splice (FromSocket here) (ToSocket there) 300 `shouldReturn` 300
      receiveExactly server 0 300 `shouldReturn` 300
      splice (FromSocket here) (ToSocket there) 0 `shouldReturn` 0
      receiveExactly here 300 700 `shouldReturn` 1000
  it "has deadlines, and says which side is closed" $
    withUnixPair $ \_ here -> withUnixPair $ \there _ -> do
      soon <- deadlineAfter 5000
      failsWith (spliceBefore soon (FromSocket here) (ToSocket there) everything) >>= (`shouldSatisfy` isDeadlineError)
      close here
      problem <- failsWith (splice (FromSocket here) (ToSocket there) everything)
      problem `shouldSatisfy` hasCode eBADF
      show problem `shouldContain` show here
  it "has deadlines also where nothing waits" $
    withTemporaryFile "." "splice" $ \_ source -> withTemporaryFile "." "splice" $ \_ target -> do
      writeAt source 0 content
      past <- deadlineAfter 0
      failsWith (spliceBefore past (FromFile source 0) (ToFile target 0) everything) >>= (`shouldSatisfy` isDeadlineError)
  it "loses no byte when it is interrupted" $
    withoutLeaks $
      withUnixPair $ \client here -> withUnixPair $ \there server -> do
        feeder <- start (void (sendStream client 0 3000000) >> shutdown client ShutdownSend)
        forM_ [1 .. 100] $ \seed -> do
          random <- newRandom seed
          delay <- below random 500
          mover <- start (splice (FromSocket here) (ToSocket there) everything)
          pause delay
          stop mover
        receiver <- start (receiveStream server 65536 0)
        void (splice (FromSocket here) (ToSocket there) everything)
        shutdown there ShutdownSend
        within 30 "the rest" (finish receiver) `shouldReturn` 3000000
        finish feeder
  it "takes nothing out of a pipe when the file is closed" $
    withTemporaryDirectory "." "splice" $ \root -> withPipe $ \out into -> do
      file <- openFile (root ++ "/file") ForWriting
      closeFile file
      writePipe into "x"
      failsWith (splice (FromPipe out) (ToFile file 0) everything) >>= (`shouldSatisfy` hasCode eBADF)
      readPipe out 10 `shouldReturn` "x"
  where
    total = 1000000
    content = bytesAt 0 total
    sources =
      [ ("socket", \use -> withUnixPair $ \far near -> feeding (sendAll far content >> shutdown far ShutdownSend) (use (FromSocket near))),
        ("TCP connection", \use -> withTcpPair $ \far near -> feeding (sendAll far content >> shutdown far ShutdownSend) (use (FromSocket near))),
        ("pipe", \use -> withPipe $ \out into -> feeding (writePipe into content >> closeWriteEnd into) (use (FromPipe out))),
        ("file", \use -> withTemporaryFile "." "splice" $ \_ file -> writeAt file 3 content >> use (FromFile file 3))
      ]
    targets =
      [ ("socket", \use -> withUnixPair $ \near far -> use (ToSocket near) (void (receiveExactly far 0 total))),
        ("TCP connection", \use -> withTcpPair $ \near far -> use (ToSocket near) (void (receiveExactly far 0 total))),
        ("pipe", \use -> withPipe $ \out into -> use (ToPipe into) (readWhole out 0)),
        ("file", \use -> withTemporaryFile "." "splice" $ \_ file -> use (ToFile file 5) (return ()) >> checkFile file)
      ]
    feeding feed use = do
      feeder <- start feed
      use >> finish feeder
    readWhole out position
      | position >= total = return ()
      | otherwise = readPipe out 65536 >>= checkFrom position >>= readWhole out
    checkFile file = do
      size <- fileSize file
      size `shouldBe` fromIntegral total + 5
      let go offset
            | offset >= total = return ()
            | otherwise = readAt file (fromIntegral offset + 5) 100000 >>= checkFrom offset >>= go
      go 0
