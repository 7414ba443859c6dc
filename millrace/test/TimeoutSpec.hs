{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | 'timeout', with the meaning that base gives it, however exceptions race.
module TimeoutSpec (spec) where

import Control.Concurrent (myThreadId, yield)
import Control.Exception
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Data.IORef
import Data.Maybe (isNothing)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Millrace.Duration (milliseconds)
import Millrace.Timer
import Scenario (scenarioPasses)
import Support
import qualified System.Timeout as Base
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Timer" $ do
  describe "timeout" $ do
    timeoutLikeBase
    it "leaves nothing in flight" $ withoutLeaks $ replicateM_ 1000 (timeout 1000000 yield)
    it "throws no exception after it has returned (100,000 races)" strayExceptions
    it "nests: in races every result is one that can be (20,000 races)" nestedRaces
    it "nests on many capabilities, whatever exceptions come to one thread at the same time" $
      scenarioPasses "nested-timeouts"
    it "takes no exception but its own, also if it ends while others come, masked or not" exceptionsAtItsEnd
    it "can be lifted while the action runs" $
      withoutLeaks $ do
        liftableTimeout (milliseconds 50) (\lift -> lift >> threadDelay 200000 >> lift) >>= (`shouldBe` Just ())
        liftableTimeout (milliseconds 50) (\_ -> threadDelay 5000000) >>= (`shouldBe` Nothing)
    it "is not confused by an exception of another kind that comes at the same time" otherExceptions

newtype Mine = Mine Int deriving (Eq, Show)

instance Exception Mine

-- | Every case is run with base's function too: both must agree on what comes out and on what was done.
timeoutLikeBase :: Spec
timeoutLikeBase = do
  like "an action that ends in time" $ \run -> run 1000000 (return 'a')
  like "an action that takes too long" $ \run -> run 5000 ('a' <$ pause 5000000)
  like "no limit" $ \run -> run (-1) ('a' <$ pause 5000)
  like "the smallest number" $ \run -> run minBound (return 'a')
  like "zero" $ \run -> run 0 (return 'a')
  like "the largest number" $ \run -> run maxBound (return 'a')
  like "the inner one of two fires" $ \run -> run 5000000 (run 5000 (pause 5000000))
  like "the outer one of two fires" $ \run -> run 5000 (run 5000000 (pause 5000000))
  like "three, the middle one fires" $ \run -> run 5000000 (run 5000 (run 5000000 (pause 5000000)))
  like "an exception of the action" $ \run ->
    try (run 5000000 (throwIO (Mine 1) :: IO ())) ::
      IO (Either Mine (Maybe ()))
  like "an exception of the action after the time" $ \run ->
    try (run 5000 (pause 5000000 `catch` \(_ :: SomeException) -> throwIO (Mine 2))) ::
      IO (Either Mine (Maybe ()))
  like "bracket cleans up" $ \run -> do
    cleaned <- newIORef False
    result <- run 5000 (bracket (return ()) (\() -> writeIORef cleaned True) (\() -> pause 5000000))
    (,) result <$> readIORef cleaned
  like "a cleanup that takes long" $ \run -> do
    cleaned <- newIORef False
    result <- run 5000 (pause 5000000 `finally` (pause 20000 >> writeIORef cleaned True))
    (,) result <$> readIORef cleaned
  like "an action that swallows its exception" $ \run ->
    run 5000 ('b' <$ pause 5000000 `catch` \(_ :: SomeException) -> return ())
  like "a masked action that cannot be interrupted" $ \run ->
    run 5000 (uninterruptibleMask_ (pause 20000) >> return 'a')
  like "within a mask, an action that does not wait" $ \run -> mask_ (run 2000 ('a' <$ busy 10000000))
  like "within a mask, an action that waits" $ \run -> mask_ (run 5000 (pause 5000000))
  like "the masking state inside" $ \run -> (,) <$> run 1000000 getMaskingState <*> mask_ (run 1000000 getMaskingState)
  like "the masking state afterwards" $ \run -> do
    void (run 1000 (pause 1000000))
    (,) <$> getMaskingState <*> mask_ (run 1000 (pause 1000000) >> getMaskingState)
  like "an exception from another thread passes through" $ \run -> do
    self <- myThreadId
    void (start (pause 5000 >> throwTo self (Mine 3)))
    try (run 5000000 (pause 5000000)) :: IO (Either Mine (Maybe ()))
  -- Limit and action are seconds apart, because on a busy machine both would have ended when somebody looks.
  like "one after the other in one thread" $ \run ->
    mapM (\(limit, micros) -> run limit (pause micros)) (take 6 (cycle [(1000, 5000000), (5000000, 20000)]))
  where
    like :: (Eq a, Show a) => String -> ((forall b. Int -> IO b -> IO (Maybe b)) -> IO a) -> Spec
    like name run = it ("is like base's: " ++ name) $
      within 10 name $ do
        ours <- run timeout
        theirs <- run Base.timeout
        ours `shouldBe` theirs

-- | Keeps the thread busy for this many nanoseconds, allocating, so that it can be interrupted.
busy :: Word64 -> IO ()
busy ns = getMonotonicTimeNSec >>= go
  where
    go begun = do
      now <- getMonotonicTimeNSec
      when (now - begun < ns) (yield >> go begun)

-- The limit and the action's end are as close together as can be. An exception that came later would end the job.
strayExceptions :: IO ()
strayExceptions = within 60 "all races" $
  withoutLeaks $ do
    jobs <- forM [1 .. 50] $ \seed -> start $ do
      random <- newRandom seed
      fired <- newIORef (0 :: Int)
      replicateM_ 2000 $ do
        limit <- between random 1 600
        length' <- between random 1 600
        way <- below random 3
        result <- timeout limit $ case way of
          0 -> threadDelay length'
          1 -> busy (fromIntegral length' * 100)
          _ -> threadDelay limit
        when (isNothing result) $ modifyIORef' fired (+ 1)
        when (way == 0) yield
      threadDelay 5000
      readIORef fired
    fired <- sum <$> mapM finish jobs
    fired `shouldSatisfy` (\n -> n > 3000 && n < 97000)

nestedRaces :: IO ()
nestedRaces = within 60 "all races" $
  withoutLeaks $ do
    jobs <- forM [1 .. 20] $ \seed -> start $ do
      random <- newRandom seed
      replicateM 1000 $ do
        outer <- between random 1 600
        inner <- between random 1 600
        work <- between random 1 600
        before <- getMonotonicTimeNSec
        result <- timeout outer (timeout inner (threadDelay work))
        after <- getMonotonicTimeNSec
        let elapsed = fromIntegral (after - before) :: Int
            needed = case result of
              Nothing -> outer
              Just Nothing -> inner
              Just (Just ()) -> work
        require (elapsed >= needed * 1000) ("too early: " ++ show (outer, inner, work, result, elapsed))
        return (maybe 'o' (maybe 'i' (const 'w')) result)
    results <- concat <$> mapM finish jobs
    forM_ "oiw" $ \kind -> length (filter (== kind) results) `shouldSatisfy` (> 500)

-- The timeout expires while its action cannot be interrupted, and so does another exception. Both are on their way when
-- it ends: it takes its own, in every state, and the other one comes when it may.
exceptionsAtItsEnd :: IO ()
exceptionsAtItsEnd = within 60 "all rounds" $
  withoutLeaks . forM_ [1 .. 200 :: Int] $ \number -> do
    self <- myThreadId
    (thrower, result) <- mask $ \restore -> do
      thrower <- start (threadDelay 500 >> throwTo self (Mine number))
      ended <-
        if even number
          then uninterruptibleMask_ (timeout 500 (busy 2000000))
          else timeout 500 (uninterruptibleMask_ (busy 2000000))
      ended `shouldBe` Just ()
      result <- try (restore (threadDelay 10000000))
      return (thrower, result)
    result `shouldMatch` Left (Mine number)
    finish thrower

-- Exceptions of ours race with the timeout's own: each arrives exactly once.
otherExceptions :: IO ()
otherExceptions = within 60 "all races" $
  withoutLeaks $ do
    jobs <- forM [1 .. 10 :: Int] $ \seed -> start $ do
      random <- newRandom seed
      forM_ [1 .. 300] $ \number -> do
        self <- myThreadId
        limit <- between random 1 600
        delay <- between random 1 600
        -- The exception hits inside the timeout, or in the delay after it; masked, it cannot come before.
        (thrower, result) <- mask $ \restore -> do
          thrower <- start (threadDelay delay >> throwTo self (Mine number))
          result <- try (restore (timeout limit (threadDelay 600) >> threadDelay 10000000))
          return (thrower, result)
        result `shouldMatch` Left (Mine number)
        finish thrower
    mapM_ finish jobs

shouldMatch :: Either Mine () -> Either Mine () -> IO ()
shouldMatch result expected = require (result == expected) (show result)
