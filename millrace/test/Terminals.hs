{-# LANGUAGE OverloadedStrings #-}

-- | Scenarios that run in a process whose terminal is the test's: it types, and reads what comes.
module Terminals (terminalOfTest, terminalFunctions, terminalAtSignal, withoutTerminal) where

import Control.Monad (forM_, void, when)
import qualified Data.ByteString as ByteString
import Data.List (isInfixOf)
import Foreign.C.Error (eBADF, eNXIO)
import GHC.IO.Exception (ioe_location)
import Millrace.Deadline
import Millrace.Pipe (closeWriteEnd, withPipe, writePipe)
import Millrace.Signal
import Millrace.Socket hiding (Raw)
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Splice
import Millrace.Terminal
import Support

-- | The other side is in ProcessSpec. It reads only when standard error, which is a pipe, tells it to.
terminalOfTest :: IO ()
terminalOfTest = do
  closed <- withTerminal return
  withTerminal $ \terminal -> do
    -- It probably has the number of the closed one.
    forM_ [("terminalSize", void (terminalSize closed)), ("withMode", withMode closed Raw (return ()))] $
      \(function, action) -> do
        problem <- failsWith action
        require (hasCode eBADF problem && isOf function (show closed) problem) (show problem)
    talkToTest terminal

talkToTest :: Terminal -> IO ()
talkToTest terminal = do
  size <- terminalSize terminal
  require ((sizeRows size, sizeColumns size) == (24, 80)) (show size)
  soon <- deadlineAfter (milliseconds 20)
  nothingIfLate (waitForNewSizeBefore soon terminal size) >>= \new -> require (null new) (show new)
  forM_
    [ ("readTerminal", show terminal, void (readTerminalBefore soon terminal 1)),
      ("readStandardInput", "<standard input>", void (readStandardInputBefore soon 1)),
      ("writeTerminal", show terminal, fill (writeTerminalBefore soon terminal)),
      ("writeStandardOutput", "<standard output>", fill (writeStandardOutputBefore soon))
    ]
    $ \(function, object, action) ->
      do
        problem <- failsWith action
        require (isDeadlineError problem && isOf function object problem) (show problem)
  writeStandardError "read!"
  writeTerminal terminal "\nsize?\n"
  waitForNewSize terminal size >>= \new -> require (new == Size 30 100) (show new)
  withMode terminal Unechoed $ do
    writeTerminal terminal "password?\n"
    readTerminal terminal 100 >>= \line -> require (line == "secret\n") (show line)
  writeStandardOutput "line?\n"
  readStandardInput 100 >>= \line -> require (line == "open\n") (show line)
  withMode terminal Keys $ do
    writeTerminal terminal "key?\n"
    readTerminal terminal 100 >>= \key -> require (key == "k") (show key)
  (here, there) <- socketPair AF_UNIX Stream defaultProtocol
  writeTerminal terminal "input?\n"
  moved <- splice FromStandardInput (ToSocket here) 5
  recv there 10 >>= \line -> require ((moved, line) == (5, "more\n")) (show (moved, line))
  writeTerminal terminal "terminal?\n"
  again <- splice (FromTerminal terminal) (ToSocket here) 6
  recv there 10 >>= \line -> require ((again, line) == (6, "again\n")) (show (again, line))
  sendAll there "out, error, terminal, end\n"
  forM_ [(ToStandardOutput, 5), (ToStandardError, 7), (ToTerminal terminal, 9), (ToStandardOutput, 5)] $ \(to, count) ->
    splice (FromSocket here) to count >>= \some -> require (some == count) (show some)
  close here >> close there
  where
    fill write = write (ByteString.replicate 1000000 120)

isOf :: String -> String -> IOError -> Bool
isOf function object problem =
  ioe_location problem == "Millrace.Terminal." ++ function && object `isInfixOf` show problem

-- | The process has none.
withoutTerminal :: IO ()
withoutTerminal = do
  missing <- failsWith (withTerminal (\_ -> return ()))
  require (hasCode eNXIO missing && isOf "withTerminal" "/dev/tty" missing) (show missing)

-- | The signal ends the program while the mode is changed. The other side looks at the mode.
terminalAtSignal :: Signal -> IO ()
terminalAtSignal signal = withTerminal $ \terminal -> withMode terminal Raw $ do
  withSignals [Terminate] (\_ -> return ())
  raiseSignal signal

-- | The other side reads.
terminalFunctions :: IO ()
terminalFunctions = withTerminal $ \terminal -> do
  killInEach (functions terminal)
  withoutLeaks (killInEach (functions terminal))
  -- The mode was restored: it can be changed.
  withMode terminal Raw (return ())

functions :: Terminal -> [(String, Int -> IO ())]
functions terminal =
  [ ("withTerminal", \_ -> withTerminal (void . (`readTerminal` 1))),
    ( "readTerminalBefore",
      \i ->
        deadlineAfter (microseconds (i * 100))
          >>= \soon -> void (readTerminalBefore soon terminal 1)
    ),
    ("writeTerminal", \_ -> writeTerminal terminal bytes),
    ( "writeTerminalBefore",
      \i ->
        deadlineAfter (microseconds (i * 100))
          >>= \soon -> writeTerminalBefore soon terminal bytes
    ),
    ("splicing from it", \_ -> void (splice (FromTerminal terminal) ToStandardError everything)),
    ("splicing from standard input", \_ -> void (splice FromStandardInput (ToTerminal terminal) everything)),
    ( "splicing to it",
      \_ ->
        withPipe
          ( \out into ->
              writePipe into bytes
                >> closeWriteEnd into
                >> void (splice (FromPipe out) (ToTerminal terminal) everything)
          )
    ),
    ("withMode", \i -> oneAtATime i (withMode terminal Unechoed (void (readTerminal terminal 1)))),
    ("waitForNewSize", \_ -> terminalSize terminal >>= void . waitForNewSize terminal),
    ( "waitForNewSizeBefore",
      \i ->
        deadlineAfter (microseconds (i * 100)) >>= \soon ->
          terminalSize terminal
            >>= void . waitForNewSizeBefore soon terminal
    ),
    ("readStandardInput", \_ -> void (readStandardInput 1)),
    ( "readStandardInputBefore",
      \i ->
        deadlineAfter (microseconds (i * 100))
          >>= \soon -> void (readStandardInputBefore soon 1)
    ),
    ("writeStandardOutput", \_ -> writeStandardOutput bytes),
    ( "writeStandardOutputBefore",
      \i ->
        deadlineAfter (microseconds (i * 100))
          >>= \soon -> writeStandardOutputBefore soon bytes
    ),
    ("writeStandardError", \_ -> writeStandardError bytes),
    ( "writeStandardErrorBefore",
      \i ->
        deadlineAfter (microseconds (i * 100))
          >>= \soon -> writeStandardErrorBefore soon bytes
    )
  ]
  where
    bytes = ByteString.replicate 20000 120
    -- The mode can be changed by one thread at a time.
    oneAtATime i = when (i == 1)
