-- | Programs that run out of descriptors. Each runs in a new process, because the limit is the process's.
module ScarcitySpec (spec) where

import Scenario (scenarioPasses)
import Test.Hspec

spec :: Spec
spec = describe "accept without descriptors" $ do
  it "neither spins nor stops, and continues when there are some again" $ scenarioPasses "accept-without-descriptors"
  it "gives up at its deadline, and when it is killed" $ scenarioPasses "give-up-without-descriptors"
  it "is what a server avoids: its connections leave some to others" $ scenarioPasses "server-with-few-descriptors"
  it "of a new socket fails at once" $ scenarioPasses "socket-without-descriptors"
  it "leaves threads of the run-time system to end in peace" $ scenarioPasses "threads-end-without-descriptors"
  it "releases what an action has made whose timer cannot be armed" $ scenarioPasses "timers-without-descriptors"
  it "lets a first operation fail, and the next one begin" $ scenarioPasses "begin-without-descriptors"
