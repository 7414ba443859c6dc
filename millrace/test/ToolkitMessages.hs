{-# LANGUAGE OverloadedStrings #-}

-- | Datagrams, their batches, and descriptors that are passed: the functions of the toolkit that "ToolkitSpec"
-- interrupts.
module ToolkitMessages (functions) where

import Control.Exception (mask_, onException)
import Control.Monad (replicateM_, void)
import Millrace.Deadline
import Millrace.Pipe
import Millrace.Socket
import Millrace.Socket.Batch
import Millrace.Socket.Datagram
import Millrace.Socket.Gso
import Millrace.Socket.Unix
import Support hiding (connectTo)
import System.Posix.IO (closeFd)
import System.Posix.Types (Fd (..))

-- | Each gets a number that differs between calls.
functions :: FilePath -> [(String, Int -> IO ())]
functions _ =
  [ ( "passing",
      \i ->
        withUnixPair
          ( \here there ->
              withPipe
                ( \out _ ->
                    sendPassing here nothingPassed {passedDescriptors = [readEndDescriptor out]} (bytesAt i 10)
                      >> receivePassed there
                      >> receivePassed there
                )
          )
    ),
    ( "batches",
      \i ->
        datagramSockets
          ( \here there address ->
              sendBatch there [(bytesAt i 10, address), ("x", address)]
                >> sendSegments there 100 (bytesAt i 1000) address
                >> receiveBatch here 64 1000
                >> void (receiveBatch here 64 1000)
          )
    ),
    ( "GSO batches",
      \i ->
        datagramSockets
          ( \here there address ->
              sendGsoBatches
                there
                [ GsoBatch (Path address Nothing) CapableZero 100 (bytesAt i 1000),
                  GsoBatch
                    (Path address Nothing)
                    NotCapable
                    1
                    "x"
                ]
                >> receiveGsoBatches here 64
                >> void (receiveGsoBatches here 64)
          )
    ),
    ( "descriptors",
      \_ ->
        withUnixPair
          ( \here there ->
              withPipe (\out _ -> sendFd here (numberOf (readEndDescriptor out)) >> receiveFd there >> receiveFd there)
          )
    ),
    ( "datagrams",
      \i ->
        datagramSockets
          ( \here there address ->
              sendTo there (bytesAt i 10) address >> sendAllTo there "x" address >> replicateM_ 3 (recvFrom here 10)
          )
    ),
    ( "datagrams with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (microseconds (i * 50)) >>= \soon ->
                sendToBefore soon there (bytesAt i 10) address
                  >> sendAllToBefore soon there "x" address
                  >> replicateM_ 3 (recvFromBefore soon here 10)
          )
    ),
    ( "passing with deadlines",
      \i ->
        withUnixPair
          ( \here there ->
              deadlineAfter (microseconds (i * 50)) >>= \soon ->
                sendPassingBefore soon here nothingPassed (bytesAt i 10)
                  >> receivePassingBefore soon there 10
                  >> void (receivePassingBefore soon there 10)
          )
    ),
    ( "batches with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (microseconds (i * 50)) >>= \soon ->
                sendBatchBefore soon there [("x", address)]
                  >> sendSegmentsBefore soon there 100 (bytesAt i 1000) address
                  >> replicateM_ 3 (receiveBatchBefore soon here 64 1000)
          )
    ),
    ( "GSO batches with deadlines",
      \i ->
        datagramSockets
          ( \here there address ->
              deadlineAfter (microseconds (i * 50)) >>= \soon ->
                sendGsoBatchesBefore soon there [GsoBatch (Path address Nothing) NotCapable 1 "xy"]
                  >> replicateM_ 3 (receiveGsoBatchesBefore soon here 64)
          )
    )
  ]
  where
    receivePassed s = mask_ (receivePassing s 10 >>= mapM_ closeFd . passedDescriptors . snd)
    datagramSockets use =
      withPairOf ((,) <$> datagramSocket <*> datagramSocket) (\here there -> getSocketName here >>= use here there)
    datagramSocket =
      mask_
        ( socket AF_INET Datagram defaultProtocol >>= \s ->
            s <$ (bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) `onException` close s)
        )
    numberOf (Fd number) = number
    receiveFd s = mask_ (recvFd s >>= closeFd . Fd)
