-- | Pools: limits, turns, deadlines, health, age, and what exceptions do.
module PoolSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Data.IORef
import Data.List (isInfixOf)
import Millrace.Deadline
import Millrace.Pool
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Pool" $ do
  it "makes no more than its limit, and uses again what came back last" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 3} $ \pool -> do
      withResource pool $ \a -> withResource pool $ \b -> withResource pool $ \c -> [a, b, c] `shouldBe` [1, 2, 3]
      -- The outermost one came back last.
      withResource pool (`shouldBe` 1)
      status <- poolStatus pool
      status `shouldBe` PoolStatus 0 3 0 3 0 0 0
    readIORef (gone numbers) >>= (`shouldMatchList` [1, 2, 3])
  it "serves the threads that wait in the order in which they came" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 1} $ \pool -> do
      order <- newIORef []
      release <- newEmptyMVar
      holder <- start (withResource pool (\_ -> takeMVar release))
      shouldBecomeTrue ((== 1) . statusInUse <$> poolStatus pool)
      jobs <- forM [1 .. 10 :: Int] $ \number -> do
        job <- startOn 0 (withResource pool (\_ -> modifyIORef order (number :)))
        shouldBecomeTrue ((== number) . statusWaiting <$> poolStatus pool)
        return job
      putMVar release ()
      within 20 "all turns" (finish holder >> mapM_ finish jobs)
      reverse <$> readIORef order `shouldReturn` [1 .. 10]
      statusMade <$> poolStatus pool `shouldReturn` 1
  it "serves a few threads of the same capability before the one that has waited longest" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 1} $ \pool -> do
      order <- newIORef []
      release <- newEmptyMVar
      holder <- startOn 0 (withResource pool (\_ -> takeMVar release))
      shouldBecomeTrue ((== 1) . statusInUse <$> poolStatus pool)
      -- 1, 2 and 3 wait on the other capability.
      jobs <- forM [1 .. 23 :: Int] $ \number -> do
        job <- startOn (if number <= 3 then 1 else 0) (withResource pool (\_ -> modifyIORef order (number :)))
        shouldBecomeTrue ((== number) . statusWaiting <$> poolStatus pool)
        return job
      putMVar release ()
      within 20 "all turns" (finish holder >> mapM_ finish jobs)
      reverse <$> readIORef order `shouldReturn` [4 .. 11] ++ [1 .. 3] ++ [12 .. 23]
  it "gives up a wait at its deadline, and says how many others wait" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 2} $ \pool ->
      withResource pool $ \_ -> withResource pool $ \_ -> do
        patient <- start (withResourceBefore noDeadline pool return)
        shouldBecomeTrue ((== 1) . statusWaiting <$> poolStatus pool)
        soon <- deadlineAfter (milliseconds 20)
        problem <- within 20 "the deadline" (failsWith (withResourceBefore soon pool return))
        (isDeadlineError problem, "all in use, for which 1 others wait" `isInfixOf` show problem)
          `shouldBe` (True, True)
        past <- deadlineAfter (seconds 0)
        nothingIfLate (withResourceBefore past pool return) `shouldReturn` Nothing
        statusExhausted <$> poolStatus pool `shouldReturn` 2
        stop patient
        statusWaiting <$> poolStatus pool `shouldReturn` 0
  it "gives up a wait after its time" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 1, poolWait = milliseconds 5} $ \pool ->
      withResource pool $ \_ -> try (withResource pool return) `shouldReturn` Left (PoolExhausted 1 0)
  it "ends what an exception left, unless its settings keep it" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) $ \pool -> do
      try (withResource pool (\_ -> throwIO Overflow)) `shouldReturn` (Left Overflow :: Either ArithException ())
      readIORef (gone numbers) `shouldReturn` [1]
    kept <- newNumbers
    withPool (settingsOf kept) {poolKeep = \_ _ -> return True} $ \pool -> do
      try (withResource pool (\_ -> throwIO Overflow)) `shouldReturn` (Left Overflow :: Either ArithException ())
      withResource pool (`shouldBe` 1)
  it "lets a waiting thread make a thing when another one has ended" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 1} $ \pool -> do
      release <- newEmptyMVar
      holder <-
        start (try (withResource pool (\_ -> takeMVar release >> throwIO Overflow)) :: IO (Either ArithException ()))
      shouldBecomeTrue ((== 1) . statusInUse <$> poolStatus pool)
      next <- start (withResource pool return)
      shouldBecomeTrue ((== 1) . statusWaiting <$> poolStatus pool)
      putMVar release ()
      _ <- within 20 "the holder" (finish holder)
      within 20 "the next" (finish next) `shouldReturn` 2
  it "keeps its limit when something cannot be made" $ do
    failures <- newIORef (3 :: Int)
    let make _ = do
          left <- atomicModifyIORef' failures (\n -> (n - 1, n))
          when (left > 0) $ throwIO Underflow
          return left
    withPool (poolSettings make (const (return ()))) {poolLimit = 1} $ \pool -> do
      replicateM_ 3 (try (withResource pool return) `shouldReturn` Left Underflow)
      withResource pool (`shouldBe` 0)
  it "replaces what is unhealthy, too old, or was idle for too long" $ do
    numbers <- newNumbers
    bad <- newIORef []
    let healthy n = notElem n <$> readIORef bad
    withPool
      (settingsOf numbers)
        { poolUnchecked = seconds 0,
          poolHealthy = healthy,
          poolAge = milliseconds 400,
          poolIdle = milliseconds 50
        }
      $ \pool ->
        do
          withResource pool (`shouldBe` 1)
          writeIORef bad [1]
          withResource pool (`shouldBe` 2)
          statusUnhealthy <$> poolStatus pool `shouldReturn` 1
          -- The pool's own thread finds it.
          shouldBecomeTrue ((== 0) . statusIdle <$> poolStatus pool)
          withResource pool (\n -> (n `shouldBe` 3) >> pause 500000)
          shouldBecomeTrue (elem 3 <$> readIORef (gone numbers))
  it "refuses when it was closed, also those that wait, and ends what comes back" $ do
    numbers <- newNumbers
    pool <- newPool (settingsOf numbers) {poolLimit = 1}
    release <- newEmptyMVar
    holder <- start (withResource pool (\n -> takeMVar release >> return n))
    shouldBecomeTrue ((== 1) . statusInUse <$> poolStatus pool)
    waiter <- start (try (withResource pool return))
    shouldBecomeTrue ((== 1) . statusWaiting <$> poolStatus pool)
    closePool pool
    within 20 "the waiter" (finish waiter) `shouldReturn` Left PoolClosed
    try (withResource pool return) `shouldReturn` Left PoolClosed
    putMVar release ()
    within 20 "the holder" (finish holder) `shouldReturn` 1
    readIORef (gone numbers) `shouldReturn` [1]
    closePool pool
  it "is closed also if closing is interrupted" $ do
    numbers <- newNumbers
    begun <- newEmptyMVar
    release <- newEmptyMVar
    let ending n = uninterruptibleMask_ (putMVar begun () >> takeMVar release) >> poolEnd (settingsOf numbers) n
    pool <- newPool (settingsOf numbers) {poolEnd = ending, poolIdle = milliseconds 1}
    withResource pool (`shouldBe` 1)
    -- The pool's own thread ends it now, and cannot be interrupted.
    within 20 "the end of the idle one" (takeMVar begun)
    closing <- start (closePool pool)
    pause 20000
    killing <- start (interrupt closing ThreadKilled)
    either (const True) (const False) <$> within 20 "closing" (outcomeOf closing) `shouldReturn` True
    try (withResource pool return) `shouldReturn` Left PoolClosed
    putMVar release ()
    finish killing
    readIORef (gone numbers) `shouldBecome` [1]
  it "does not count a thread that failed before it waited" $ do
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 1} $ \pool -> do
      withResource pool $ \_ -> try (withResourceBefore (throw Overflow) pool return) `shouldReturn` Left Overflow
      statusWaiting <$> poolStatus pool `shouldReturn` 0
      withResource pool (`shouldBe` 1)
  it "loses nothing when threads are killed at random moments" $ do
    seed <- firstSeed
    random <- newRandom (fromIntegral seed)
    numbers <- newNumbers
    withPool (settingsOf numbers) {poolLimit = 4} $ \pool -> do
      replicateM_ 40 $ do
        jobs <- replicateM 20 $ do
          micros <- below random 300
          start (withResource pool (\_ -> pause micros))
        forM_ jobs $ \job -> do
          kills <- below random 2
          when (kills == 0) $ below random 200 >>= pause >> interrupt job ThreadKilled
        within 30 "the jobs" (mapM_ outcomeOf jobs)
      status <- poolStatus pool
      statusInUse status `shouldBe` 0
      statusWaiting status `shouldBe` 0
      statusMade status - statusEnded status `shouldBe` statusIdle status
      -- All four can still be had at once.
      held <- newEmptyMVar
      together <- replicateM 4 (start (withResource pool (\n -> void (readMVar held) >> return n)))
      shouldBecomeTrue ((== 4) . statusInUse <$> poolStatus pool)
      putMVar held ()
      within 20 "the last ones" (mapM_ finish together)
    ones <- readIORef (made numbers)
    ended <- readIORef (gone numbers)
    ended `shouldMatchList` [1 .. ones]

-- | Things that are numbers, and a list of those that have ended.
data Numbers = Numbers {made :: IORef Int, gone :: IORef [Int]}

newNumbers :: IO Numbers
newNumbers = Numbers <$> newIORef 0 <*> newIORef []

settingsOf :: Numbers -> PoolSettings Int
settingsOf numbers = poolSettings make end
  where
    make _ = atomicModifyIORef' (made numbers) (\n -> (n + 1, n + 1))
    end n = atomicModifyIORef' (gone numbers) (\ns -> (n : ns, ()))

shouldBecomeTrue :: IO Bool -> IO ()
shouldBecomeTrue condition = becomesTrue 20000 condition `shouldReturn` True
