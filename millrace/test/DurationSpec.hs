-- | "Millrace.Duration", and deadlines and waits that are made from durations.
module DurationSpec (spec) where

import Control.Monad (forM_)
import Data.List (sort)
import Millrace.Deadline
import Millrace.Timer
import Test.Hspec

spec :: Spec
spec = describe "Millrace.Duration" $ do
  it "shows what one would write" $ do
    map show [seconds 5, milliseconds 1500, minutes 120, seconds 90, nanoseconds 1001, mempty, unlimited]
      `shouldBe` [ "seconds 5",
                   "milliseconds 1500",
                   "hours 2",
                   "seconds 90",
                   "nanoseconds 1001",
                   "seconds 0",
                   "unlimited"
                 ]
    show (Just (microseconds 250)) `shouldBe` "Just (microseconds 250)"
  it "is described for people, without what is beyond three decimals or seconds" $ do
    map
      describeDuration
      [ mempty,
        nanoseconds 999,
        nanoseconds 1050,
        microseconds 99999,
        milliseconds 100,
        milliseconds 999,
        milliseconds 1001,
        seconds 5,
        nanoseconds 59999999999
      ]
      `shouldBe` ["0 s", "999 ns", "1.05 us", "99.999 ms", "100 ms", "999 ms", "1.001 s", "5 s", "59.999 s"]
    map
      describeDuration
      [seconds 60, milliseconds 90999, hours 1, hours 1 <> seconds 1, hours 50 <> minutes 3, unlimited]
      `shouldBe` ["1 min", "1 min 30 s", "1 h", "1 h 1 s", "50 h 3 min", "unlimited"]
    describeDuration (nanoseconds maxBound) `shouldBe` "2562047 h 47 min 16 s"
  it "equals in every unit" $ do
    [hours 1, minutes 60, seconds 3600, milliseconds 3600000, microseconds 3600000000] `shouldBe` replicate 5 (hours 1)
    sort [unlimited, hours 1, mempty, nanoseconds 1] `shouldBe` [mempty, nanoseconds 1, hours 1, unlimited]
  it "is no time for negative numbers, and unlimited beyond all measure" $ do
    forM_ units $ \unit -> unit (-1) `shouldBe` mempty
    forM_ (drop 1 units) $ \unit -> unit maxBound `shouldBe` unlimited
    nanoseconds maxBound < unlimited `shouldBe` True
    mconcat (replicate 3 (nanoseconds maxBound)) `shouldBe` unlimited
    seconds 1 <> unlimited `shouldBe` unlimited
    unlimited <> unlimited `shouldBe` unlimited
  it "rounds up to larger units, so that no wait is too short" $ do
    map durationMicroseconds [nanoseconds 1, microseconds 7, mempty] `shouldBe` [1, 7, 0]
    map durationMilliseconds [nanoseconds 1, milliseconds 7, mempty] `shouldBe` [1, 7, 0]
    map durationSeconds [milliseconds 1001, hours 1, unlimited] `shouldBe` [2, 3600, maxBound]
    durationMicroseconds (nanoseconds maxBound) `shouldBe` 9223372036854776
  it "is never 0 for the core, unless it is unlimited" $
    map limitNanoseconds [mempty, microseconds 2, unlimited] `shouldBe` [1, 2001, 0]
  it "makes deadlines" $ do
    deadlineAfter unlimited `shouldReturn` noDeadline
    (deadlineAfter mempty >>= hasPassed) `shouldReturn` True
    (deadlineAfter (hours 1) >>= hasPassed) `shouldReturn` False
    map (show . Just) [noDeadline, deadlineFromNanoseconds 7] `shouldBe` ["Just noDeadline", "Just (Deadline 7 ns)"]
    farthest <- deadlineAfter (nanoseconds maxBound)
    (farthest < noDeadline, deadlineNanoseconds farthest > 9223372036854775807) `shouldBe` (True, True)
    (deadlineAfter (nanoseconds maxBound <> nanoseconds maxBound) >>= hasPassed) `shouldReturn` False
  it "makes nothing of its deadlines, and passes other errors on" $
    (nothingIfLate (ioError (userError "another")) :: IO (Maybe ())) `shouldThrow` (== userError "another")
  it "limits waits" $ do
    timeoutAfter mempty (return ()) `shouldReturn` Nothing
    timeoutAfter unlimited (return ()) `shouldReturn` Just ()
    timeoutAfter (milliseconds 1) (sleep unlimited) `shouldReturn` Nothing
    begin <- monotonicNanoseconds
    sleep (milliseconds 3)
    end <- monotonicNanoseconds
    nanoseconds (fromIntegral (end - begin)) `shouldSatisfy` (>= milliseconds 3)
  where
    units = [nanoseconds, microseconds, milliseconds, seconds, minutes, hours]
