-- | Limits of time, and waiting for a condition. All of it uses base's own timers, so that what is tested does not
-- supervise itself.
module TestSupport.Time
  ( within,
    limited,
    pause,
    eventually,
    untilJust,
    becomesTrue,
    shouldBecome,
    timed,
    quickly,
    untilQuick,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (unless)
import GHC.Clock (getMonotonicTime)
import System.Timeout (timeout)

-- | Runs an action. Fails if it takes longer than this number of seconds; the text says what was waited for.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

-- | Runs a whole test. A test that hangs then fails after this number of seconds, and the suite prints its name.
limited :: Int -> IO () -> IO ()
limited seconds = within seconds "the test"

-- | Sleeps for a number of microseconds.
pause :: Int -> IO ()
pause = threadDelay

-- | Waits until the condition holds. Fails after twenty seconds; the text says what was waited for.
eventually :: String -> IO Bool -> IO ()
eventually what condition = untilJust what ((\holds -> if holds then Just () else Nothing) <$> condition)

-- | Repeats an action until it returns a value. Fails after twenty seconds; the text says what was waited for.
untilJust :: String -> IO (Maybe a) -> IO a
untilJust what action = within 20 what go
  where
    go = action >>= maybe (pause 10000 >> go) return

-- | Waits until the condition holds, for at most this number of milliseconds. Returns whether it does.
becomesTrue :: Int -> IO Bool -> IO Bool
becomesTrue millis condition = do
  holds <- condition
  if holds || millis <= 0 then return holds else pause 2000 >> becomesTrue (millis - 2) condition

-- | Waits until the value is the expected one. Fails after two seconds.
shouldBecome :: (Eq a, Show a) => IO a -> a -> IO ()
shouldBecome current expected = do
  reached <- becomesTrue 2000 ((== expected) <$> current)
  unless reached $ do
    value <- current
    ioError (userError ("expected to become " ++ show expected ++ ", but it stays " ++ show value))

-- | Runs an action, and returns how many seconds it took, too. To find that something waits long enough, begin before
-- what makes its time begin: on a busy machine this thread may run late.
timed :: IO a -> IO (a, Double)
timed action = do
  begin <- getMonotonicTime
  result <- action
  end <- getMonotonicTime
  return (result, end - begin)

-- | Runs an action again and again until it has taken less than this number of seconds, because what is tested holds no
-- longer. Fails after twenty attempts.
quickly :: Double -> IO a -> IO a
quickly seconds action = untilQuick $ do
  (result, elapsed) <- timed action
  return (if elapsed < seconds then Just result else Nothing)

-- | Repeats an attempt until it returns a value, because on a busy machine it may take too long to show anything. Fails
-- after twenty attempts.
untilQuick :: IO (Maybe a) -> IO a
untilQuick attempt = go (20 :: Int)
  where
    go 0 = ioError (userError "no attempt was quick enough")
    go left = attempt >>= maybe (go (left - 1)) return
