-- | The terminal of this program.
--
-- > main = withTerminal $ \terminal -> withMode terminal Keys $ do
-- >   writeTerminal terminal "Press a key: "
-- >   readTerminal terminal 1 >>= print
--
-- 1. The terminal is opened again, non-blocking, which does not affect other programs. The standard streams, which
--    other programs
--    share, are never made non-blocking.
-- 2. A changed mode is restored when the action has ended, when the program ends, and when a signal without a handler
--    ends it
--    (except @SIGKILL@ and real-time signals). It stays changed while the program is stopped, for example by @SIGTSTP@.
-- 3. Waiting occupies no operating system thread, and is interruptible.
--
-- All functions throw an 'IOError' that names the function. A program without a terminal gets @ENXIO@ from
-- 'withTerminal'.
--
-- >>> import Millrace.Process
-- >>> isTerminal 0
-- False
-- >>> exit <- withProcess (command "sh" ["-c", "stty size"]) {commandInput = NewTerminal} waitProcess
-- ...
-- >>> exit
-- Exited 0
module Millrace.Terminal
  ( Terminal,
    withTerminal,
    readTerminal,
    readTerminalBefore,
    writeTerminal,
    writeTerminalBefore,

    -- * Modes
    TerminalMode (..),
    withMode,

    -- * Sizes
    Size (..),
    terminalSize,
    waitForNewSize,
    waitForNewSizeBefore,

    -- * Standard streams
    isTerminal,
    readStandardInput,
    readStandardInputBefore,
    writeStandardOutput,
    writeStandardOutputBefore,
    writeStandardError,
    writeStandardErrorBefore,
  )
where

import Control.Exception (bracket, bracket_, mask_, throwIO)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Foreign.C.Error (Errno (..))
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.DescriptorTypes
import Millrace.Internal.Errors (failure)
import Millrace.Internal.HelperJob (refuseSimulation)
import Millrace.Internal.StreamDescriptor
import Millrace.Signal (Signal (WindowChange), nextSignalBefore, withSignals)
import System.Posix.Types (Fd (..))

foreign import ccall unsafe "mrh_open_terminal" c_open_terminal :: IO CInt

foreign import ccall unsafe "mrh_is_terminal" c_is_terminal :: CInt -> IO CInt

foreign import ccall unsafe "mrh_terminal_change" c_change :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_terminal_restore" c_restore :: IO ()

foreign import ccall unsafe "mrh_terminal_size" c_size :: CInt -> Ptr CInt -> Ptr CInt -> IO CInt

-- | Opens the terminal, wherever the standard streams lead, and closes it when the action has ended.
withTerminal :: (Terminal -> IO a) -> IO a
withTerminal = bracket open (\(Terminal stream) -> closeStream stream)
  where
    open = mask_ $ do
      refuseSimulation
      descriptor <- c_open_terminal
      when (descriptor < 0) $ throwIO (failure "Millrace.Terminal.withTerminal" "/dev/tty" (Errno (negate descriptor)))
      Terminal <$> newStreamDescriptor "terminal" descriptor

-- | Waits for input, and reads at most the given number of bytes: a line, or what keys sent ('withMode'). None at the
-- end.
readTerminal :: Terminal -> Int -> IO ByteString
readTerminal = readTerminalBefore noDeadline

-- | 'readTerminal' with a deadline.
readTerminalBefore :: Deadline -> Terminal -> Int -> IO ByteString
readTerminalBefore deadline (Terminal stream) = readStream "Millrace.Terminal.readTerminal" stream deadline

-- | Writes all bytes.
writeTerminal :: Terminal -> ByteString -> IO ()
writeTerminal = writeTerminalBefore noDeadline

-- | 'writeTerminal' with a deadline. When it has passed, a part of unknown size has been written.
writeTerminalBefore :: Deadline -> Terminal -> ByteString -> IO ()
writeTerminalBefore deadline (Terminal stream) = writeStream "Millrace.Terminal.writeTerminal" stream deadline

-- | How the terminal treats keys before the program gets them.
data TerminalMode
  = -- | every key at once; nothing is echoed, and no key has a meaning, not even the interrupt key
    Raw
  | -- | whole lines, which are not echoed: for passwords
    Unechoed
  | -- | every key at once; nothing is echoed, and the interrupt key interrupts
    Keys
  deriving (Eq, Show, Read, Enum, Bounded)

-- | Changes the mode during an action. Only one terminal at a time can have a changed mode, and calls cannot be nested
-- (@EBUSY@).
withMode :: Terminal -> TerminalMode -> IO a -> IO a
withMode terminal@(Terminal stream) mode = bracket_ change c_restore
  where
    change =
      callStream stream (`c_change` fromIntegral (fromEnum mode)) >>= orFail "Millrace.Terminal.withMode" terminal

orFail :: String -> Terminal -> CInt -> IO ()
orFail function terminal result = when (result < 0) $ throwIO (failure function (show terminal) (Errno (negate result)))

-- | The size of a terminal, in characters.
data Size = Size {sizeRows :: !Int, sizeColumns :: !Int}
  deriving (Eq, Ord, Show, Read)

-- | The size of a terminal now. Does not wait.
terminalSize :: Terminal -> IO Size
terminalSize terminal@(Terminal stream) = alloca $ \rows -> alloca $ \columns -> do
  callStream stream (\descriptor -> c_size descriptor rows columns) >>= orFail "Millrace.Terminal.terminalSize" terminal
  Size <$> (fromIntegral <$> peek rows) <*> (fromIntegral <$> peek columns)

-- | Waits until the size differs from the given one, and returns the new one.
waitForNewSize :: Terminal -> Size -> IO Size
waitForNewSize = waitForNewSizeBefore noDeadline

-- | 'waitForNewSize' with a deadline ('Millrace.Deadline.isDeadlineError').
waitForNewSizeBefore :: Deadline -> Terminal -> Size -> IO Size
waitForNewSizeBefore deadline terminal old = withSignals [WindowChange] go
  where
    go signals = do
      now <- terminalSize terminal
      if now /= old
        then return now
        else nextSignalBefore deadline signals >> go signals

-- | Whether a descriptor is a terminal.
isTerminal :: Fd -> IO Bool
isTerminal (Fd number) = (== 1) <$> c_is_terminal number

-- | Waits for input on standard input, and reads at most the given number of bytes; none at the end. If another program
-- reads the same pipe at the same moment and is faster, the capability waits for more input. So it does with a terminal
-- that belongs to another user, which cannot be opened again.
readStandardInput :: Int -> IO ByteString
readStandardInput = readStandardInputBefore noDeadline

-- | 'readStandardInput' with a deadline.
readStandardInputBefore :: Deadline -> Int -> IO ByteString
readStandardInputBefore deadline size =
  refuseSimulation >> readStream "Millrace.Terminal.readStandardInput" standardInput deadline size

-- | Writes all bytes to standard output, past GHC's handle ('System.IO.stdout'), which has its own buffer.
writeStandardOutput :: ByteString -> IO ()
writeStandardOutput = writeStandardOutputBefore noDeadline

-- | 'writeStandardOutput' with a deadline. When it has passed, a part of unknown size has been written.
writeStandardOutputBefore :: Deadline -> ByteString -> IO ()
writeStandardOutputBefore deadline bytes =
  refuseSimulation >> writeStream "Millrace.Terminal.writeStandardOutput" standardOutput deadline bytes

-- | Writes all bytes to standard error, past GHC's handle ('System.IO.stderr').
writeStandardError :: ByteString -> IO ()
writeStandardError = writeStandardErrorBefore noDeadline

-- | 'writeStandardError' with a deadline. When it has passed, a part of unknown size has been written.
writeStandardErrorBefore :: Deadline -> ByteString -> IO ()
writeStandardErrorBefore deadline bytes =
  refuseSimulation >> writeStream "Millrace.Terminal.writeStandardError" standardError deadline bytes
