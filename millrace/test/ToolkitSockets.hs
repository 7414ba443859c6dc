{-# LANGUAGE OverloadedStrings #-}

-- | Stream sockets, splicing and waiting for descriptors: the functions of the toolkit that "ToolkitSpec" interrupts.
module ToolkitSockets (functions) where

import Control.Concurrent.STM (atomically)
import Control.Exception (bracket, mask_)
import Control.Monad (replicateM_, void)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Millrace.Deadline
import Millrace.File
import Millrace.File.Temporary
import Millrace.Name
import Millrace.Pipe
import Millrace.Socket
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString
import Millrace.Socket.Connect
import Millrace.Socket.File
import Millrace.Socket.Option (connectSending, connectSendingBefore)
import Millrace.Splice
import qualified Millrace.Stream as Stream
import qualified Millrace.Timer as Timer
import Millrace.Wait
import Support hiding (connectTo)
import System.IO (IOMode (WriteMode), openBinaryFile)
import System.Posix.Fcntl (Advice (AdviceDontNeed), fileAdvise)
import System.Posix.IO (handleToFd)

-- | Each gets a number that differs between calls.
functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  [ ( "splicing sockets",
      \i ->
        withUnixPair
          ( \far here ->
              withUnixPair
                ( \there _ ->
                    sendAll far (bytesAt i 50000) >> void (splice (FromSocket here) (ToSocket there) everything)
                )
          )
    ),
    ( "splicing to a device",
      \i ->
        withUnixPair
          ( \far here ->
              bracket
                (openBinaryFile "/dev/null" WriteMode >>= handleToFd >>= writeEndFromDescriptor)
                closeWriteEnd
                (\target -> sendAll far (bytesAt i 50000) >> void (splice (FromSocket here) (ToPipe target) everything))
          )
    ),
    ( "sending a file that is not in memory",
      \_ ->
        withUnixPair
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    fileAdvise (fileDescriptor file) 0 0 AdviceDontNeed
                      >> void (sendFile here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "splicing files",
      \_ ->
        withTemporaryFile
          root
          "s"
          ( \_ target ->
              withFile
                (root ++ "/file")
                ForReading
                (\file -> void (splice (FromFile file 0) (ToFile target 0) everything))
          )
    ),
    ( "connectSending",
      \i ->
        withListener
          ( \_ address ->
              bracket
                (socket AF_INET Stream defaultProtocol)
                close
                (\s -> connectSending s address (bytesAt i 5000) >> void (recv s 1))
          )
    ),
    ( "connectTo",
      \_ ->
        withListener
          ( \listener _ ->
              socketPort listener >>= \port ->
                bracket (connectTo (host "localhost" (show port))) close (\s -> void (recv s 1))
          )
    ),
    ( "servers",
      \i ->
        withRunningServer
          defaultServer
          (passive "0") {queryHost = Just "127.0.0.1"}
          (\s -> void (recv s 1))
          (Timer.threadDelay (i * 20))
    ),
    ( "connectToBefore",
      \i ->
        withListener
          ( \listener _ ->
              socketPort listener >>= \port ->
                deadlineAfter (microseconds (i * 50)) >>= \soon ->
                  bracket (connectToBefore soon (host "localhost" (show port))) close (\s -> void (recv s 1))
          )
    ),
    ("withServer", \_ -> withServer defaultServer (passive "0") {queryHost = Just "127.0.0.1"} (\s -> void (recv s 1))),
    ( "sockets",
      \i ->
        withUnixPair
          ( \here there ->
              memory
                ( \buffer ->
                    send here "x"
                      >> sendMany here ["x", bytesAt i 1000]
                      >> recv there 10
                      >> recvBuf there buffer 65536
                      >> sendBuf here buffer 100
                      >> replicateM_ 20 (sendAllBuf here buffer 65536)
                )
          )
    ),
    ( "sockets with deadlines",
      \i ->
        withUnixPair
          ( \here there ->
              memory
                ( \buffer ->
                    deadlineAfter (microseconds (i * 50)) >>= \soon ->
                      sendBefore soon here "x"
                        >> sendManyBefore soon here ["x", "y"]
                        >> sendAllBefore soon here (bytesAt i 1000)
                        >> sendBufBefore soon here buffer 100
                        >> recvBefore soon there 10
                        >> recvBufBefore soon there buffer 65536
                        >> replicateM_ 20 (sendAllBufBefore soon here buffer 65536)
                )
          )
    ),
    ( "sockets with limits",
      \i ->
        withUnixPair (\here _ -> memory (replicateM_ 20 . flip (sendAllBufWithin (microseconds (i * 50)) here) 65536))
    ),
    ( "accept",
      \_ ->
        withListener
          ( \listener address ->
              withStream
                ( \s ->
                    connect s address
                      >> bracket (fst <$> accept listener) close (\far -> sendAll far "x" >> void (accept listener))
                )
          )
    ),
    ( "acceptBefore",
      \i ->
        withListener
          ( \listener address ->
              deadlineAfter (microseconds (i * 100)) >>= \soon ->
                withStream
                  ( \s ->
                      connectBefore soon s address
                        >> bracket (fst <$> acceptBefore soon listener) close (\_ -> void (acceptBefore soon listener))
                  )
          )
    ),
    ("gracefulClose", \_ -> withUnixPair (\here _ -> gracefulClose here 3)),
    ("gracefulCloseWithin", \_ -> withUnixPair (\here _ -> gracefulCloseWithin (milliseconds 3) here)),
    ( "sendFile",
      \_ ->
        withUnixPair
          ( \here there ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    sendFile here (fileDescriptor file) 0 1000
                      >> recv there 1000
                      >> void (sendFile here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "sendFileBefore",
      \i ->
        withUnixPair
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    deadlineAfter (microseconds (i * 50)) >>= \soon ->
                      replicateM_ 3 (sendFileBefore soon here (fileDescriptor file) 0 300000)
                )
          )
    ),
    ( "borrowed buffers",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here "xy"
                >> recvBorrowed noDeadline there 1 gaveBack
                >> replicateM_ 2 (recvBorrowedWithin (microseconds (i * 50)) there 1 gaveBack)
          )
    ),
    ( "sendThenReceiveWithin",
      \_ ->
        withUnixPair
          ( \here _ ->
              mask_ (borrow >>= \buffer -> sendThenReceiveWithin unlimited here (Slice buffer 0 10) (answered buffer))
          )
    ),
    ( "connectSendingBefore",
      \i ->
        withListener
          ( \_ address ->
              withStream
                ( \s ->
                    deadlineAfter (microseconds (i * 50)) >>= \soon ->
                      connectSendingBefore soon s address (bytesAt i 5000) >> void (recv s 1)
                )
          )
    ),
    ( "waits for descriptors",
      \_ ->
        withPipe
          ( \out into ->
              threadWaitWrite (writeEndDescriptor into)
                >> transaction (threadWaitWriteSTM (writeEndDescriptor into))
                >> transaction (threadWaitReadSTM (readEndDescriptor out))
          )
    ),
    ("threadWaitRead", \_ -> withPipe (\out _ -> threadWaitRead (readEndDescriptor out))),
    ( "lines of sockets",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here (bytesAt i 300) >> Stream.linesOf 1000 (Stream.fromSocket there) >>= \line ->
                line >> void line
          )
    ),
    ( "spliceBefore",
      \_ ->
        withUnixPair
          ( \_ here ->
              withUnixPair
                ( \there _ ->
                    deadlineAfter (microseconds 400) >>= \soon ->
                      void (spliceBefore soon (FromSocket here) (ToSocket there) everything)
                )
          )
    )
  ]
  where
    withStream = bracket (socket AF_INET Stream defaultProtocol) close
    memory :: (Ptr Word8 -> IO a) -> IO a
    memory = allocaBytes 65536
    gaveBack (Received buffer _) = giveBack buffer
    gaveBack EndOfStream = return ()
    answered buffer (NotSent _) = giveBack buffer
    answered _ (Sent received) = gaveBack received
    transaction begin = bracket begin snd (atomically . fst)
