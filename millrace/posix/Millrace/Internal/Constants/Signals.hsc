{-# LANGUAGE PatternSynonyms #-}

-- | The type of signals, with their numbers on this system, as the C compiler sees them.
module Millrace.Internal.Constants.Signals
  ( Signal
      ( Numbered,
        Hangup,
        Interrupt,
        Quit,
        IllegalInstruction,
        Trap,
        Abort,
        BusError,
        FloatingPointException,
        Kill,
        User1,
        SegmentationViolation,
        User2,
        BrokenPipe,
        Alarm,
        Terminate,
        Child,
        Continue,
        Stop,
        TerminalStop,
        ProcessorTimeExceeded,
        FileSizeExceeded,
        WindowChange
      ),
    signalNumber,
  )
where

#include <signal.h>

-- | A signal, by its number. The usual ones have names: @Numbered 15 == Terminate@.
newtype Signal = Numbered Int
  deriving (Eq, Ord)

-- | The system's number.
signalNumber :: Signal -> Int
signalNumber (Numbered number) = number

-- | The terminal is gone; servers read their configuration again.
pattern Hangup :: Signal
pattern Hangup = Numbered #{const SIGHUP}

-- | The interrupt key.
pattern Interrupt :: Signal
pattern Interrupt = Numbered #{const SIGINT}

-- | The quit key.
pattern Quit :: Signal
pattern Quit = Numbered #{const SIGQUIT}

-- | The process executed something that is not an instruction.
pattern IllegalInstruction :: Signal
pattern IllegalInstruction = Numbered #{const SIGILL}

-- | A breakpoint.
pattern Trap :: Signal
pattern Trap = Numbered #{const SIGTRAP}

-- | C's @abort@, for instance after a failed assertion.
pattern Abort :: Signal
pattern Abort = Numbered #{const SIGABRT}

-- | The process used memory that it cannot have, such as a page beyond the end of a mapped file.
pattern BusError :: Signal
pattern BusError = Numbered #{const SIGBUS}

-- | A division of integers by zero, for instance.
pattern FloatingPointException :: Signal
pattern FloatingPointException = Numbered #{const SIGFPE}

-- | The end. It cannot be received or ignored.
pattern Kill :: Signal
pattern Kill = Numbered #{const SIGKILL}

-- | Left to programs.
pattern User1 :: Signal
pattern User1 = Numbered #{const SIGUSR1}

-- | The process used memory that is not its own.
pattern SegmentationViolation :: Signal
pattern SegmentationViolation = Numbered #{const SIGSEGV}

-- | Left to programs.
pattern User2 :: Signal
pattern User2 = Numbered #{const SIGUSR2}

-- | The process wrote to a pipe or a socket that nobody reads.
pattern BrokenPipe :: Signal
pattern BrokenPipe = Numbered #{const SIGPIPE}

-- | The timer of C's @alarm@.
pattern Alarm :: Signal
pattern Alarm = Numbered #{const SIGALRM}

-- | The request to end.
pattern Terminate :: Signal
pattern Terminate = Numbered #{const SIGTERM}

-- | A child has ended or stopped.
pattern Child :: Signal
pattern Child = Numbered #{const SIGCHLD}

-- | The process continues after it was stopped.
pattern Continue :: Signal
pattern Continue = Numbered #{const SIGCONT}

-- | The process stops until 'Continue'. It cannot be received or ignored.
pattern Stop :: Signal
pattern Stop = Numbered #{const SIGSTOP}

-- | The suspend key.
pattern TerminalStop :: Signal
pattern TerminalStop = Numbered #{const SIGTSTP}

-- | The process has used up the processor time that it may have ('Millrace.Process.ProcessorSeconds').
pattern ProcessorTimeExceeded :: Signal
pattern ProcessorTimeExceeded = Numbered #{const SIGXCPU}

-- | The process wrote more to a file than it may ('Millrace.Process.FileBytes').
pattern FileSizeExceeded :: Signal
pattern FileSizeExceeded = Numbered #{const SIGXFSZ}

-- | The size of the terminal has changed.
pattern WindowChange :: Signal
pattern WindowChange = Numbered #{const SIGWINCH}

instance Show Signal where
  showsPrec d signal@(Numbered number) = case lookup signal names of
    Just name -> showString name
    Nothing -> showParen (d > 10) (showString "Numbered " . showsPrec 11 number)

names :: [(Signal, String)]
names =
  [ (Hangup, "Hangup"),
    (Interrupt, "Interrupt"),
    (Quit, "Quit"),
    (IllegalInstruction, "IllegalInstruction"),
    (Trap, "Trap"),
    (Abort, "Abort"),
    (BusError, "BusError"),
    (FloatingPointException, "FloatingPointException"),
    (Kill, "Kill"),
    (User1, "User1"),
    (SegmentationViolation, "SegmentationViolation"),
    (User2, "User2"),
    (BrokenPipe, "BrokenPipe"),
    (Alarm, "Alarm"),
    (Terminate, "Terminate"),
    (Child, "Child"),
    (Continue, "Continue"),
    (Stop, "Stop"),
    (TerminalStop, "TerminalStop"),
    (ProcessorTimeExceeded, "ProcessorTimeExceeded"),
    (FileSizeExceeded, "FileSizeExceeded"),
    (WindowChange, "WindowChange")
  ]
