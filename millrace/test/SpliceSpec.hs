{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Splice": between sockets, pipes, files, terminals and devices.
module SpliceSpec (spec) where

import Control.Exception (bracket, onException)
import Control.Monad (forM_, void)
import qualified Data.ByteString as ByteString
import Foreign.C.Error (eBADF, eINVAL, eNOSPC)
import Millrace.Deadline
import Millrace.File
import Millrace.File.Access (Access (..), Option (..), withFileWith)
import Millrace.File.Temporary
import Millrace.Pipe
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Splice
import Support
import System.IO (IOMode (ReadMode, WriteMode))
import qualified System.IO as IO
import System.Posix.IO (closeFd, handleToFd)
import System.Posix.Terminal
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
  it "moves no more than the given number of bytes" $
    withUnixPair $ \client here -> withUnixPair $ \there server -> do
      sendAll client (bytesAt 0 1000)
      splice (FromSocket here) (ToSocket there) 300 `shouldReturn` 300
      receiveExactly server 0 300 `shouldReturn` 300
      splice (FromSocket here) (ToSocket there) 0 `shouldReturn` 0
      receiveExactly here 300 700 `shouldReturn` 1000
  it "has deadlines, and says which side is closed" $
    withUnixPair $ \_ here -> withUnixPair $ \there _ -> do
      soon <- deadlineAfter (milliseconds 5)
      failsWith (spliceBefore soon (FromSocket here) (ToSocket there) everything) >>= (`shouldSatisfy` isDeadlineError)
      close here
      problem <- failsWith (splice (FromSocket here) (ToSocket there) everything)
      problem `shouldSatisfy` hasCode eBADF
      show problem `shouldContain` show here
  it "has deadlines also where nothing waits" $
    withTemporaryFile "." "splice" $ \_ source -> withTemporaryFile "." "splice" $ \_ target -> do
      writeAt source 0 content
      past <- deadlineAfter (seconds 0)
      failsWith (spliceBefore past (FromFile source 0) (ToFile target 0) everything)
        >>= (`shouldSatisfy` isDeadlineError)
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
  forM_ (take 3 sources) $ \(name, withFrom) -> do
    it ("moves nothing from a " ++ name ++ " to a file after it was interrupted") $
      withoutLeaks $
        withFrom $ \from -> withTemporaryFile "." "splice" $ \_ file -> do
          forM_ [1 .. 100] $ \seed -> do
            size <- fileSize file
            interruptedIn seed (splice from (ToFile file size) everything)
            before <- fileSize file
            pause 200
            fileSize file `shouldReturn` before
          size <- fileSize file
          void (splice from (ToFile file size) everything)
          checkWhole file
    it ("appends no byte of a " ++ name ++ " twice when it is interrupted") $
      withoutLeaks $
        withFrom $ \from -> withAppended $ \file -> do
          forM_ [1 .. 100] $ \seed -> interruptedIn seed (splice from (ToFile file 0) everything)
          void (splice from (ToFile file 0) everything)
          checkFile file
  it "takes nothing out of a pipe when the file is closed" $
    withTemporaryDirectory "." "splice" $ \root -> withPipe $ \out into -> do
      file <- openFile (root ++ "/file") ForWriting
      closeFile file
      writePipe into "x"
      failsWith (splice (FromPipe out) (ToFile file 0) everything) >>= (`shouldSatisfy` hasCode eBADF)
      readPipe out 10 `shouldReturn` "x"
  describe "what the kernel refuses" $ do
    forM_ targets $ \(toName, withTo) ->
      it ("moves all bytes from a terminal to a " ++ toName) $
        withoutLeaks . withTerminalPair $ \far near -> withTo $ \to check -> do
          checker <- start check
          feeding (writePipe far content) $
            within 30 "moving" (splice (FromPipe near) to (fromIntegral total)) `shouldReturn` fromIntegral total
          within 30 "the target" (finish checker)
    forM_ sources $ \(fromName, withFrom) -> do
      it ("moves all bytes from a " ++ fromName ++ " to a terminal") $
        withoutLeaks $
          withFrom $ \from -> withTerminalPair $ \near far -> do
            checker <- start (readWhole far 0)
            within 30 "moving" (splice from (ToPipe near) everything) `shouldReturn` fromIntegral total
            within 30 "the target" (finish checker)
      it ("appends all bytes of a " ++ fromName ++ " to a file") $
        withoutLeaks $
          withFrom $ \from -> withAppended $ \file -> do
            within 30 "moving" (splice from (ToFile file 0) everything) `shouldReturn` fromIntegral total
            checkFile file
      it ("moves all bytes from a " ++ fromName ++ " to a device that keeps none") $
        withoutLeaks $
          withFrom $ \from -> withDevice "/dev/null" WriteMode writeEndFromDescriptor closeWriteEnd $ \null' ->
            within 30 "moving" (splice from (ToPipe null') everything) `shouldReturn` fromIntegral total
      it ("gives back what it took from a " ++ fromName ++ " when a device is full") $
        withoutLeaks $
          withFrom $ \from -> withDevice "/dev/full" WriteMode writeEndFromDescriptor closeWriteEnd $ \full -> do
            failsWith (within 30 "moving" (splice from (ToPipe full) everything)) >>= (`shouldSatisfy` hasCode eNOSPC)
            withTemporaryFile "." "splice" $ \_ file -> do
              splice from (ToFile file 5) everything `shouldReturn` fromIntegral total
              checkFile file
    it "moves from a device without an end" $
      withoutLeaks . withDevice "/dev/zero" ReadMode readEndFromDescriptor closeReadEnd $ \zero -> do
        withUnixPair $ \near far -> do
          reader <- start (atLeast far 300000)
          splice (FromPipe zero) (ToSocket near) 300000 `shouldReturn` 300000
          finish reader `shouldReturn` ByteString.replicate 300000 0
        withTemporaryFile "." "splice" $ \_ file -> do
          splice (FromPipe zero) (ToFile file 0) 300000 `shouldReturn` 300000
          fileSize file `shouldReturn` 300000
        withDevice "/dev/null" WriteMode writeEndFromDescriptor closeWriteEnd $ \null' -> do
          splice (FromPipe zero) (ToPipe null') 3000000 `shouldReturn` 3000000
          soon <- deadlineAfter (milliseconds 50)
          failsWith (within 30 "moving" (spliceBefore soon (FromPipe zero) (ToPipe null') everything))
            >>= (`shouldSatisfy` isDeadlineError)
    it "finds the end of a device without bytes" $
      withDevice "/dev/null" ReadMode readEndFromDescriptor closeReadEnd $ \null' -> withUnixPair $ \near _ ->
        splice (FromPipe null') (ToSocket near) everything `shouldReturn` 0
    it "has deadlines" $
      withoutLeaks . withTerminalPair $ \far near -> withUnixPair $ \here _ -> do
        soon <- deadlineAfter (milliseconds 5)
        failsWith (spliceBefore soon (FromPipe near) (ToSocket here) everything) >>= (`shouldSatisfy` isDeadlineError)
        writePipe far "later"
        splice (FromPipe near) (ToSocket here) 5 `shouldReturn` 5
    it "loses no byte of a terminal when it is interrupted" $
      withoutLeaks . withTerminalPair $ \far near -> withUnixPair $ \here there -> do
        feeder <- start (writePipe far content)
        receiver <- start (receiveExactly there 0 total)
        forM_ [1 .. 100] $ \seed -> do
          random <- newRandom seed
          delay <- below random 500
          mover <- start (splice (FromPipe near) (ToSocket here) everything)
          pause delay
          stop mover
        mover <- start (splice (FromPipe near) (ToSocket here) everything)
        within 30 "the rest" (finish receiver) `shouldReturn` total
        stop mover
        finish feeder
    it "still says what is wrong" $
      withTemporaryFile "." "splice" $ \_ file -> withUnixPair $ \here _ -> do
        failsWith (splice (FromFile file (-1)) (ToSocket here) 10) >>= (`shouldSatisfy` hasCode eINVAL)
        failsWith (splice (FromSocket here) (ToFile file (-1)) 10) >>= (`shouldSatisfy` hasCode eINVAL)
  where
    -- A terminal that passes bytes on as they are.
    withTerminalPair use =
      bracket rawTerminal (\(master, slave) -> closeWriteEnd master >> closeReadEnd slave) (uncurry use)
    rawTerminal = do
      (master, slave) <- openPseudoTerminal
      (`onException` (closeFd master >> closeFd slave)) $ do
        attributes <- getTerminalAttributes slave
        setTerminalAttributes slave (foldl withoutMode attributes cookedModes `withMinInput` 1 `withTime` 0) Immediately
      into <- writeEndFromDescriptor master
      (,) into <$> readEndFromDescriptor slave
    cookedModes =
      [ ProcessInput,
        EnableEcho,
        EchoLF,
        KeyboardInterrupts,
        ExtendedFunctions,
        ProcessOutput,
        MapCRtoLF,
        MapLFtoCR,
        IgnoreCR
      ]
        ++ [StartStopInput, StartStopOutput, StripHighBit, InterruptOnBreak, CheckParity]
    withDevice path mode adopted = bracket (IO.openBinaryFile path mode >>= handleToFd >>= adopted)
    withAppended use = withTemporaryDirectory "." "splice" $ \root -> do
      write (root ++ "/file") "12345"
      withFileWith (root ++ "/file") ReadWrite [Append] use
    write path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes)
    atLeast s count
      | count <= 0 = return ByteString.empty
      | otherwise = do
        part <- recv s count
        (part <>) <$> atLeast s (count - ByteString.length part)
    total = 1000000
    content = bytesAt 0 total
    sources =
      [ ( "socket",
          \use ->
            withUnixPair $ \far near ->
              feeding (sendAll far content >> shutdown far ShutdownSend) (use (FromSocket near))
        ),
        ( "TCP connection",
          \use ->
            withTcpPair $ \far near ->
              feeding (sendAll far content >> shutdown far ShutdownSend) (use (FromSocket near))
        ),
        ( "pipe",
          \use ->
            withPipe $ \out into -> feeding (writePipe into content >> closeWriteEnd into) (use (FromPipe out))
        ),
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
    checkFile = checkAfter 5
    checkWhole = checkAfter 0
    checkAfter begin file = do
      size <- fileSize file
      size `shouldBe` fromIntegral total + begin
      let go offset
            | offset >= total = return ()
            | otherwise = readAt file (fromIntegral offset + begin) 100000 >>= checkFrom offset >>= go
      go 0
    interruptedIn seed moving = do
      random <- newRandom seed
      delay <- below random 300
      mover <- start moving
      pause delay
      stop mover
