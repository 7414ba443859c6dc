-- |
-- Threads that wait for events, which have numbers. Whoever notices an event wakes them. Must not know: connections.
module Millrace.Http.Threads.Waiters (Waiters, newWaiters, waitFor, wake, Waited (..), takeWithin) where

import Control.Concurrent.MVar
import Control.Exception (bracket, bracket_)
import Control.Monad (void)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Millrace.Timer (getSystemTimerManager, registerTimeout, unregisterTimeout)

-- | The waiting threads, by the number of their event. Several may wait for the same one, such as those of nested
-- @onDisconnect@s.
newtype Waiters = Waiters (IORef (IntMap [MVar ()]))

-- | No threads.
newWaiters :: IO Waiters
newWaiters = Waiters <$> newIORef IntMap.empty

-- | What came of waiting.
data Waited a = Came a | TookTooLong

-- | @waitFor waiters prepare number micros attempt@ repeats an attempt until it has a result. An attempt without a
-- result must have the effect that somebody calls 'wake' with this number later. @prepare@ runs before the thread
-- parks. 'Nothing': no limit.
waitFor :: Waiters -> IO () -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitFor (Waiters waiters) prepare number micros attempt = do
  place <- newEmptyMVar
  bracket_ (register place) (unregister place) (go place)
  where
    register place = atomicModifyIORef' waiters (\all' -> (IntMap.insertWith (++) number [place] all', ()))
    unregister place = atomicModifyIORef' waiters (\all' -> (IntMap.update (without place) number all', ()))
    without place places = case filter (/= place) places of
      [] -> Nothing
      others -> Just others
    go place = attempt >>= maybe (prepare >> park place) (return . Came)
    park place = do
      woken <- takeWithin micros place
      if woken then go place else attempt >>= maybe (return TookTooLong) (return . Came)

-- | Waits for the variable to be filled, at most this many microseconds. False if the time was over. Something else may
-- fill it: then the caller must look again.
takeWithin :: Maybe Int -> MVar () -> IO Bool
takeWithin Nothing place = True <$ takeMVar place
takeWithin (Just micros) place = do
  late <- newIORef False
  timers <- getSystemTimerManager
  bracket
    (registerTimeout timers micros (writeIORef late True >> void (tryPutMVar place ())))
    (unregisterTimeout timers)
    (const (takeMVar place))
  not <$> readIORef late

-- | Wakes the threads that wait for this event.
wake :: Waiters -> Int -> IO ()
wake (Waiters waiters) number = readIORef waiters >>= mapM_ (`tryPutMVar` ()) . IntMap.findWithDefault [] number
