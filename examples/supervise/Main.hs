-- | Runs a program, and starts it again when it fails: after a tenth of a second, then after twice as long each time,
-- up to a minute. It ends with the program's success, or when it is asked to end; then the program has five seconds.
module Main (main) where

import Control.Concurrent.Async (race)
import Control.Exception (onException)
import Control.Monad (unless)
import Millrace.Duration
import Millrace.Process
import Millrace.Signal
import Millrace.Timer (sleep)
import System.Environment (getArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  program : arguments <- getArgs
  withSignals [Terminate, Interrupt] $ \signals -> do
    ending <- race (superviseFrom (milliseconds 100) (command program arguments)) (nextSignal signals)
    putStrLn ("ending: " ++ either (\() -> "succeeded") show ending)

superviseFrom :: Duration -> Command -> IO ()
superviseFrom pause what = do
  exit <- withProcess what (\process -> waitProcess process `onException` terminateProcess (seconds 5) process)
  unless (exit == Exited 0) $ do
    putStrLn ("it ended: " ++ show exit ++ "; again in " ++ describeDuration pause)
    sleep pause
    superviseFrom (min (minutes 1) (pause <> pause)) what
