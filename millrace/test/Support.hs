-- | Helpers of these tests: the modules for the tests of all packages, and functions that only these tests need.
module Support
  ( module TestSupport.ByteStream,
    module TestSupport.Failure,
    module TestSupport.Job,
    module TestSupport.Leaks,
    module TestSupport.Machine,
    module TestSupport.Process,
    module TestSupport.Random,
    module TestSupport.Sockets,
    module TestSupport.Time,

    -- * Interruption
    killInEach,
    killOneIn,

    -- * Sockets with names
    withAbstractSockets,

    -- * Tests that need a known run-time system
    needingKnownLayout,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (AsyncException (..), fromException)
import Control.Monad (forM, forM_, void, when)
import Millrace.Deadline (isDeadlineError)
import qualified Millrace.Manager as Manager
import Millrace.Socket
import System.Posix.Process (getProcessID)
import Test.Hspec (SpecWith, beforeWith, pendingWith)
import TestSupport.ByteStream
import TestSupport.Failure
import TestSupport.Job
import TestSupport.Leaks
import TestSupport.Machine
import TestSupport.Process
import TestSupport.Random
import TestSupport.Sockets
import TestSupport.Time hiding (limited)

-- | Runs each of these actions in 24 threads, and kills the threads at random moments. An action gets the number of its
-- thread. It may also end at a deadline, but must not fail otherwise.
killInEach :: [(String, Int -> IO ())] -> IO ()
killInEach actions =
  forM_ actions $ \(name, action) -> do
    jobs <- forM [1 .. 24] $ \seed -> start $ do
      random <- newRandom seed
      delay <- below random 6000
      victim <- start (action seed)
      threadDelay delay
      killVictim name victim
    mapM_ finish jobs

-- | Runs an action in one thread, which is killed after a tenth of a second.
killOneIn :: (String, Int -> IO ()) -> IO ()
killOneIn (name, action) = do
  victim <- start (action 1)
  void (becomesTrue 100 (isOver victim))
  killVictim name victim

killVictim :: String -> Job () -> IO ()
killVictim name victim =
  within 20 name (stop victim >> outcomeOf victim) >>= either unlessEnded return
  where
    unlessEnded problem
      | Just ThreadKilled <- fromException problem = return ()
      | Just late <- fromException problem, isDeadlineError late = return ()
      | otherwise = ioError (userError (name ++ ": " ++ show problem))

-- | Makes two Unix sockets, each with an abstract name (Linux), for the time of an action.
withAbstractSockets :: SocketType -> (Socket -> SockAddr -> Socket -> SockAddr -> IO a) -> IO a
withAbstractSockets kind use = do
  process <- getProcessID
  let named word = SockAddrUnix ("\0millrace-test-" ++ show process ++ word)
      create = (,) <$> socket AF_UNIX kind defaultProtocol <*> socket AF_UNIX kind defaultProtocol
  withPairOf create $ \one other -> do
    bind one (named "one")
    bind other (named "other")
    use one (named "one") other (named "other")

-- | Marks tests as pending where Millrace does not know the layout of the run-time system.
needingKnownLayout :: SpecWith a -> SpecWith a
needingKnownLayout = beforeWith $ \argument -> do
  layout <- Manager.runTimeSystem
  when (layout == Manager.UnknownLayout) $ pendingWith "the layout of this run-time system is not known"
  return argument
