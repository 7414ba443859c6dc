-- | Waiting for descriptors that do not belong to Millrace: those of C libraries, pipes, terminals, event descriptors.
--
-- The names and types are those of "Control.Concurrent". Sockets of "Millrace.Socket" do not need this. On Windows it
-- works only for sockets, given by the number of their handle.
--
-- >>> import System.Posix.IO (createPipe, fdWrite)
-- >>> (output, input) <- createPipe
-- >>> fdWrite input "x"
-- 1
-- >>> threadWaitRead output
module Millrace.Wait
  ( threadWaitRead,
    threadWaitWrite,
    threadWaitReadSTM,
    threadWaitWriteSTM,
  )
where

import Control.Concurrent.STM (STM, atomically, newTVarIO, readTVar, retry, throwSTM, writeTVar)
import Control.Exception (mask_)
import Foreign.C.Types (CInt)
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls (Ended (..), c_cancel, ended)
import Millrace.Internal.Park (startCallback)
import Millrace.Operation
import System.Posix.Types (Fd (..))

-- | Waits until reading from the descriptor would not block: there is data, the end, or an error. A regular file is
-- always ready. The descriptor must stay open meanwhile; otherwise the thread may wait for ever, although it can be
-- interrupted. If it belongs to a socket of "Millrace.Socket", 'Millrace.Socket.close' and the socket's deadlines end
-- the wait. Throws an 'IOError' if it is not open.
threadWaitRead :: Fd -> IO ()
threadWaitRead = waitFor "Millrace.Wait.threadWaitRead" waitReadableRequest

-- | Waits until writing to the descriptor would not block.
threadWaitWrite :: Fd -> IO ()
threadWaitWrite = waitFor "Millrace.Wait.threadWaitWrite" waitWritableRequest

waitFor :: String -> (Handle -> Request ()) -> Fd -> IO ()
waitFor attempted readiness fd =
  perform (readiness (foreignHandle fd)) >>= throwIfFailed attempted (describeFd fd)

describeFd :: Fd -> String
describeFd fd = "descriptor " ++ show fd

-- | Begins to wait until reading would not block, and returns at once. Call it masked, so that no exception can take
-- the result. It returns a transaction that succeeds when the descriptor is readable (and throws if the wait failed),
-- and an action that ends the wait. Run that action unless the transaction has succeeded.
--
-- > (ready, giveUp) <- threadWaitReadSTM fd
-- > atomically ((Left <$> ready) `orElse` (Right <$> readTQueue queue)) <* giveUp
threadWaitReadSTM :: Fd -> IO (STM (), IO ())
threadWaitReadSTM = waitForSTM "Millrace.Wait.threadWaitReadSTM" kindWaitReadable

-- | Begins to wait until writing would not block, and returns at once. It works like 'threadWaitReadSTM'.
threadWaitWriteSTM :: Fd -> IO (STM (), IO ())
threadWaitWriteSTM = waitForSTM "Millrace.Wait.threadWaitWriteSTM" kindWaitWritable

waitForSTM :: String -> CInt -> Fd -> IO (STM (), IO ())
waitForSTM attempted kind fd@(Fd number) = mask_ $ do
  outcome <- newTVarIO Nothing
  token <- startCallback kind (fromIntegral number) (atomically . writeTVar outcome . Just)
  return (readTVar outcome >>= maybe retry check, c_cancel token)
  where
    check value = case ended (const ()) value of
      Failed code -> throwSTM (failure attempted (describeFd fd) code)
      Retry -> return () -- a socket of ours keeps something to receive
      Ended () -> return ()
