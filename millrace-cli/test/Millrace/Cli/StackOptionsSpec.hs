-- | The stack options (@+RTS -kc@, @-kb@) that the program is built with let every thread go on.
--
-- A thread that takes up an interrupted computation needs eight kilobytes of free stack at once (@AP_STACK_SPLIM@ in
-- GHC's rts/Constants.h). Two threads that evaluate the same value at the same time interrupt one another. With @-kc2k@
-- alone GHC gave such a thread one piece of two kilobytes after the other, until there was no memory left.
module Millrace.Cli.StackOptionsSpec (spec, interruptedValues, takeUpInterrupted) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Exception (evaluate)
import Control.Monad (forM_, replicateM, void)
import Data.List (isPrefixOf)
import Program
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Process (readProcessWithExitCode)
import Test.Hspec

spec :: Spec
spec = it "its stack options let a thread take up what was interrupted" $ do
  info <- runMillrace [] ["+RTS", "--info"]
  let options = maybe [] words (lookup "Flag -with-rtsopts" (read (outcomeOutput info)))
      ofStacks = filter ("-k" `isPrefixOf`) options
  own <- getExecutablePath
  within 90 "the interrupted values" (readProcessWithExitCode own (interruptedValues : "+RTS" : "-M200m" : ofStacks) "")
    `shouldReturn` (ExitSuccess, "", "")

-- | The argument with which this test program runs 'takeUpInterrupted' and nothing else.
interruptedValues :: String
interruptedValues = "--interrupted-values"

-- | Interrupts the evaluation of values, and evaluates them again in threads that use 0 to 300 frames of stack already.
takeUpInterrupted :: IO ()
takeUpInterrupted = forM_ [0 .. 300] $ \frames -> do
  [begun, open, done] <- replicateM 3 newEmptyMVar
  let value = deep frames (unsafePerformIO (putMVar begun 0 >> readMVar open))
  interrupted <- forkIO (void (evaluate value))
  _ <- takeMVar begun
  killThread interrupted
  putMVar open 0
  _ <- forkIO (evaluate (deep frames value) >>= putMVar done)
  takeMVar done

-- Evaluates the value below this many frames of stack.
deep :: Int -> Int -> Int
deep 0 value = value
deep count value = deep (count - 1) value + count
{-# NOINLINE deep #-}
