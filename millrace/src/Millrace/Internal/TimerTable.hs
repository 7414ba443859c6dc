-- Must not know: the clock.

-- | The actions of a loop's timers, for when they fire.
module Millrace.Internal.TimerTable
  ( TimerTable,
    Action (..),
    newTimerTable,
    setAction,
    takeAction,
  )
where

import Control.Concurrent.MVar (MVar)
import Control.Monad.Primitive (RealWorld)
import Data.Primitive.Array (MutableArray, newArray, readArray, writeArray)
import Millrace.Internal.ChunkedTable

-- | The action of a timer when it has fired.
data Action
  = -- | the timer is not in use
    Unused
  | -- | a thread waits at this variable
    Wake !(MVar ())
  | -- | runs in the manager thread; must neither block nor throw
    Perform (IO ())
  | -- | runs in another thread; may block and throw
    Callback (IO ())

newtype TimerTable = TimerTable (ChunkedTable (MutableArray RealWorld Action))

newTimerTable :: IO TimerTable
newTimerTable = TimerTable <$> newChunkedTable (newArray chunkSize Unused)

-- | Set it between reserving a timer and starting it.
setAction :: TimerTable -> Int -> Action -> IO ()
setAction (TimerTable chunks) timer action = do
  chunk <- chunkFor chunks timer
  writeArray chunk (within timer) action
{-# INLINE setAction #-}

-- | Removes the action from the table. Call it before the timer is released.
takeAction :: TimerTable -> Int -> IO Action
takeAction (TimerTable chunks) timer = do
  chunk <- chunkFor chunks timer
  action <- readArray chunk (within timer)
  writeArray chunk (within timer) Unused
  return action
{-# INLINE takeAction #-}
