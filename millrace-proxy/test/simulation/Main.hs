{-# LANGUAGE OverloadedStrings #-}

-- | The proxy on simulated machines: random requests in random pieces from clients of both versions of HTTP, a target
-- of either version that answers, breaks off, or breaks the rules, and machines on which connections fail. What a
-- client gets must be what the target sent, byte by byte, or visibly broken off.
--
-- A seed that fails is named in the message; MILLRACE_SEED=n runs it alone and leaves its trace in simulation.trace.
-- MILLRACE_FIRST_SEED=n: from which on; MILLRACE_SEEDS=n: how many, however long that takes. Otherwise each test begins
-- no further seed after four seconds of processor time.
module Main (main) where

import Control.Exception (SomeException, throwIO, try)
import Control.Monad (unless, when)
import qualified Data.ByteString as B
import Data.IORef
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word64)
import Millrace.Simulation
import System.CPUTime (getCPUTime)
import System.Environment (lookupEnv)
import System.Exit (exitFailure)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Text.Read (readMaybe)
import World

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  alone <- (>>= readMaybe) <$> lookupEnv "MILLRACE_SEED"
  first <- maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MILLRACE_FIRST_SEED"
  wanted <- (>>= readMaybe) <$> lookupEnv "MILLRACE_SEEDS"
  let seeds = maybe (take (fromMaybe 200 wanted) [first ..]) (: []) alone
  putStrLn ("seeds from " ++ show (fromMaybe first alone) ++ " on (another first one: MILLRACE_FIRST_SEED)")
  failures <- newIORef (0 :: Int)
  let check name nature plan = do
        begin <- getCPUTime
        let isTimeLeft =
              maybe (\used -> used - begin < 4000000000000) (\_ _ -> True) (wanted :: Maybe Int) <$> getCPUTime
            inTurn [] = return []
            inTurn (seed : others) = do
              one <- worldOn nature (plan seed)
              left <- isTimeLeft
              if left then (one :) <$> inTurn others else return [one]
        outcome <- try (inTurn seeds)
        case outcome of
          Right tallies -> putStrLn ("ok   " ++ name ++ ": " ++ describe tallies)
          Left problem -> do
            modifyIORef failures (+ 1)
            putStrLn ("FAIL " ++ name ++ ": " ++ show (problem :: SomeException))
  check "a calm machine and a target without faults: all is exact" Faultless unhindered
  check "a calm machine and a target with faults" Faulty unhindered
  check "troubled machines" Faulty troubled
  failed <- readIORef failures
  putStrLn (show (3 - failed) ++ " passed, " ++ show failed ++ " failed")
  when (failed > 0) exitFailure

-- | Its links are slow or small, but nothing fails.
unhindered :: Word64 -> Plan
unhindered seed = (troubled seed) {planFaultRates = []}

describe :: [Tally] -> String
describe tallies =
  show (length tallies)
    ++ " seeds, "
    ++ total tallyExact
    ++ " responses exact, "
    ++ total tallyRefused
    ++ " refused with 5xx, "
    ++ total tallyBroken
    ++ " broken off, "
    ++ total tallyLeft
    ++ " clients left"
  where
    total field = show (sum (map field tallies))

-- | One machine. Fails if a client, the target or the machine has seen what must not be.
worldOn :: Nature -> Plan -> IO Tally
worldOn nature plan = do
  alone <- lookupEnv "MILLRACE_SEED"
  let isSound = null (planFaultRates plan)
  outcome <-
    simulate
      plan {planTraces = isJust alone}
      (world nature isSound (isSound && planBytesPerSecond plan == 0 && planBufferBytes plan > 4096))
  maybe (return ()) (const (B.writeFile "simulation.trace" (outcomeTrace outcome))) alone
  let require what holds = unless holds (ioError (userError ("seed " ++ show (outcomeSeed outcome) ++ ": " ++ what)))
  case outcomeResult outcome of
    -- The machine may refuse even the listening sockets.
    Left _ | outcomeFaults outcome > 0, outcomeOperations outcome <= 4 -> return (Tally 0 0 0 0)
    Left problem -> require (show problem) False >> throwIO problem
    Right (tally, wrongs) -> do
      require (unlines wrongs) (null wrongs)
      require ("descriptors left open: " ++ show (outcomeOpenDescriptors outcome)) (outcomeOpenDescriptors outcome == 0)
      require ("operations left: " ++ show (outcomeWaiting outcome)) (null (outcomeWaiting outcome))
      require
        ("buffers not given back: " ++ show (outcomeBorrowedBuffers outcome))
        (outcomeBorrowedBuffers outcome == 0)
      return tally
