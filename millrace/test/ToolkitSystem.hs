{-# LANGUAGE OverloadedStrings #-}

-- | Processes, pipes, names, signals, watches, timers, pools and streams: the functions of the toolkit that
-- "ToolkitSpec" interrupts.
module ToolkitSystem (functions) where

import Control.Exception (bracket)
import Control.Monad (forM_, replicateM_, void)
import Millrace.Deadline
import Millrace.Directory
import Millrace.File
import Millrace.File.Temporary
import Millrace.Name
import Millrace.Pipe
import Millrace.Pool
import Millrace.Process
import Millrace.Signal
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Millrace.Stream as Stream
import qualified Millrace.Timer as Timer
import Millrace.Watch
import Support hiding (connectTo)

-- | Each gets a number that differs between calls.
functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  [ ( "names",
      \i ->
        void
          ( lookUp (host ("127.0.0." ++ show i) "80")
              >> lookUpName (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) []
          )
    ),
    ( "pipes",
      \i ->
        withPipe (\out into -> writePipe into (bytesAt i 5000) >> void (readPipe out 5000) >> void (readPipe out 1))
    ),
    ("runProcess", \_ -> void (runProcess (command "true" []))),
    ("readProcess", \i -> void (readProcess (command "cat" []) (bytesAt i 100000))),
    ("adoptingOrphans", \_ -> adoptingOrphans (void (runProcess (command "true" [])))),
    ("withProcess", \_ -> withProcess (command "sh" ["-c", "sleep 60 & sleep 60"]) (void . waitProcess)),
    ("terminateProcess", \_ -> withProcess (command "sleep" ["60"]) (void . terminateProcess (milliseconds 1))),
    ( "pseudo-terminals",
      \_ ->
        withProcess
          (command "cat" []) {commandInput = NewTerminal, commandOutput = NewTerminal}
          (\p -> forM_ (processTerminal p) (\t -> writePseudoTerminal t "x\n" >> void (readPseudoTerminal t 10)))
    ),
    ( "pseudo-terminals with deadlines",
      \i ->
        withProcess
          (command "cat" []) {commandInput = NewTerminal, commandOutput = NewTerminal}
          ( \p ->
              deadlineAfter (microseconds (i * 100)) >>= \soon ->
                forM_
                  (processTerminal p)
                  (\t -> writePseudoTerminalBefore soon t "x\n" >> replicateM_ 3 (readPseudoTerminalBefore soon t 10))
          )
    ),
    ( "startProcess",
      \_ ->
        bracket
          (startProcess (command "sleep" ["60"]))
          (\process -> signalProcess Kill process >> waitProcess process)
          (void . waitProcess)
    ),
    ( "signals",
      \_ ->
        withSignals
          [User2]
          ( \signals ->
              deadlineAfter (milliseconds 1)
                >>= \soon -> void (nextSignalBefore soon signals)
          )
    ),
    ("watches", \_ -> withWatch [root ++ "/tree"] Recursive (void . nextEvents)),
    ("timers", \_ -> void (Timer.timeout 1000 (readNothing root))),
    ( "names with deadlines",
      \i ->
        deadlineAfter (microseconds (i * 20)) >>= \soon ->
          void
            ( lookUpBefore soon (host "localhost" "80")
                >> lookUpNameBefore soon (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) []
            )
    ),
    ( "caches of names",
      \i ->
        newCache 10 (milliseconds 1) >>= \cache ->
          void
            ( lookUpIn cache (host ("127.0.1." ++ show i) "80")
                >> lookUpInBefore noDeadline cache (host "localhost" "80")
            )
    ),
    ( "pipes with deadlines",
      \i ->
        withPipe
          ( \out into ->
              deadlineAfter (microseconds 300) >>= \soon ->
                writePipeBefore soon into (bytesAt i 100000) >> void (readPipeBefore soon out 10)
          )
    ),
    ( "FIFOs",
      \i ->
        withTemporaryDirectory
          root
          "f"
          ( \d ->
              createFifo (d ++ "/f") ownerOnly
                >> bracket
                  (openFifoForReading (d ++ "/f"))
                  closeReadEnd
                  ( \out ->
                      bracket
                        (openFifoForWriting (d ++ "/f"))
                        closeWriteEnd
                        (\into -> writePipe into (bytesAt i 10) >> void (readPipe out 10))
                  )
          )
    ),
    ( "openFifoForWritingBefore",
      \i ->
        withTemporaryDirectory
          root
          "o"
          ( \d ->
              createFifo (d ++ "/f") ownerOnly >> deadlineAfter (microseconds (i * 100)) >>= \soon ->
                bracket (openFifoForWritingBefore soon (d ++ "/f")) closeWriteEnd (\_ -> return ())
          )
    ),
    ( "processes with deadlines",
      \i ->
        deadlineAfter (microseconds (i * 100)) >>= \soon ->
          nothingIfLate (runProcessBefore soon (command "sleep" ["60"]))
            >> void (readProcessBefore soon (command "cat" []) (bytesAt i 1000))
    ),
    ( "waitProcessBefore",
      \_ ->
        withProcess
          (command "sleep" ["60"])
          ( \process ->
              deadlineAfter (microseconds 500) >>= \soon ->
                nothingIfLate (waitProcessBefore soon process)
                  >> signalGroup Terminate process
          )
    ),
    ( "nextEventsBefore",
      \i ->
        withWatch
          [root ++ "/tree"]
          Flat
          (\watch -> deadlineAfter (microseconds (i * 50)) >>= \soon -> void (nextEventsBefore soon watch))
    ),
    ( "nextSignal",
      \_ ->
        withSignals [User2] (\signals -> raiseSignal User2 >> nextSignal signals >> void (nextSignal signals))
    ),
    ( "pools",
      \_ ->
        withPool
          pipes
          ( \pool ->
              withResource pool (\(out, into) -> writePipe into "x" >> readPipe out 1)
                >> void (withResource pool (\(out, _) -> readPipe out 1))
          )
    ),
    ( "turns in pools",
      \_ ->
        bracket
          (newPool pipes)
          closePool
          ( \pool ->
              deadlineAfter (minutes 1) >>= \late ->
                withResource pool (\_ -> withResourceBefore late pool (\_ -> return ()))
          )
    ),
    ("timeoutAfter", \_ -> void (Timer.timeoutAfter (milliseconds 1) (Timer.sleep (milliseconds 2)))),
    ("liftableTimeout", \_ -> void (Timer.liftableTimeout (milliseconds 1) (\lift -> lift >> Timer.threadDelay 2000))),
    ( "streams",
      \_ ->
        withUnixPair
          ( \here _ ->
              withFile
                (root ++ "/file")
                ForReading
                ( \file ->
                    withTemporaryFile
                      root
                      "x"
                      ( \_ copied ->
                          Stream.fromFile file 0 >>= Stream.atMost 290000 >>= Stream.counting >>= \(source, _) ->
                            Stream.toFile copied 0 >>= \sink ->
                              void
                                (Stream.copyReporting source (Stream.tee sink (Stream.toSocket here)) (\_ -> return ()))
                      )
                )
          )
    ),
    ( "frames",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here (Stream.frame Stream.Length16 (bytesAt i 300))
                >> Stream.framesOf Stream.Length16 1000 (Stream.fromSocket there)
                >>= \next ->
                  next >> void next
          )
    ),
    ( "exactly",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here (bytesAt i 10) >> Stream.exactly (Stream.fromSocket there) >>= \(takeBytes, isAtEnd) ->
                takeBytes 10 >> void isAtEnd
          )
    ),
    ( "takingFrom",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here (bytesAt i 10) >> Stream.takingFrom (Stream.fromSocket there) >>= \(takeBytes, rest) ->
                takeBytes 7 >> void rest
          )
    ),
    ( "linesAndBytes",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here ("7\n" <> bytesAt i 10)
                >> Stream.linesAndBytes 100 (Stream.fromSocket there)
                >>= \(nextLine, takeBytes, rest) -> nextLine >> takeBytes 7 >> void rest
          )
    ),
    ( "collect",
      \i ->
        withUnixPair
          ( \here there ->
              sendAll here (bytesAt i 300) >> Stream.linesOf 1000 (Stream.fromSocket there) >>= void . Stream.collect
          )
    ),
    ( "whole",
      \i ->
        withUnixPair (\here there -> sendAll here (bytesAt i 300) >> void (Stream.whole 1000 (Stream.fromSocket there)))
    ),
    ( "concurrently",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              Stream.fromFile file 0 >>= \source ->
                void (Stream.concurrently 2 source (\ahead -> Stream.copy ahead (\_ -> return ())))
          )
    )
  ]
  where
    pipes = (poolSettings (const newPipe) (\(out, into) -> closeReadEnd out >> closeWriteEnd into)) {poolLimit = 1}
    readNothing directory = withPipe (\out _ -> list directory >> readPipe out 1)
