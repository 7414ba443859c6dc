{-# LANGUAGE NamedFieldPuns #-}

-- Must not know: sockets.

-- | Pools of things that are expensive to make and that one thread uses at a time: connections to a database, for
-- example.
--
-- 1. No more than 'poolLimit' things exist at any time, including those that are being made and those that are being
--    ended.
-- 2. A thread that finds no idle thing waits for its turn. The thread that has waited longest is served first, after at
--    most eight others of the capability on which a thing comes back. It waits for 'poolWait', and then gets
--    'PoolExhausted', or until a deadline. No asynchronous exception is involved.
-- 3. A thing goes back whatever exception ends its use. The pool then asks 'poolKeep' whether it can be used again.
-- 4. A thing that has become too old, was idle for too long, or is no longer healthy is ended and replaced.
--
-- > pool <- newPool (poolSettings connect close) {poolLimit = 20, poolHealthy = ping}
-- > withResource pool $ \connection -> ask connection "how many?"
--
-- A counter whose things are numbers:
--
-- >>> import Data.IORef
-- >>> made <- newIORef (0 :: Int)
-- >>> let make _ = atomicModifyIORef' made (\n -> (n + 1, n + 1))
-- >>> pool <- newPool (poolSettings make (\n -> putStrLn ("the end of " ++ show n))) {poolLimit = 2}
-- >>> withResource pool (\one -> withResource pool (\two -> return (one, two)))
-- (1,2)
-- >>> withResource pool return
-- 1
-- >>> closePool pool
-- the end of ...
-- the end of ...
module Millrace.Pool
  ( -- * Settings
    PoolSettings (..),
    poolSettings,
    Use (..),

    -- * Pools
    Pool,
    newPool,
    closePool,
    withPool,

    -- * Using what is in a pool
    withResource,
    withResourceBefore,
    PoolProblem (..),

    -- * What a pool holds and has done
    PoolStatus (..),
    poolStatus,
  )
where

import Control.Concurrent (ThreadId, forkIOWithUnmask, killThread, myThreadId, threadCapability)
import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Exception
import Control.Monad (forM_, join, unless, when)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import qualified Data.IntMap.Strict as IntMap
import Data.List (partition)
import Data.Word (Word64)
import Foreign.C.Error (eTIMEDOUT)
import Millrace.Deadline
import Millrace.Internal.Errors (failure)
import Millrace.Internal.Timer (microsUntil, withTimer)
import Millrace.Internal.TimerTable (Action (..))
import Millrace.Timer (threadDelay)

-- | How a pool makes, checks and ends its things. Begin with 'poolSettings'.
data PoolSettings a = PoolSettings
  { -- | Makes a thing. The deadline is that of the thread that needs it. Called without a lock.
    poolMake :: Deadline -> IO a,
    -- | Ends a thing. Called masked. Exceptions that it throws are dropped.
    poolEnd :: a -> IO (),
    -- | Whether the thing can be used again. Called masked after each use. The default keeps it unless its use threw an
    -- exception. A thing that knows its own state, as a connection does, can be kept after an exception, too.
    poolKeep :: Use -> a -> IO Bool,
    -- | Whether an idle thing is still good. Called before the pool hands out a thing that was idle for at least
    -- 'poolUnchecked'. The thing counts as bad if this throws. By default every thing is good.
    poolHealthy :: a -> IO Bool,
    -- | The most things that exist. The default is 10.
    poolLimit :: Int,
    -- | How long a thread waits while all things are in use. The default is five seconds.
    poolWait :: Duration,
    -- | How long a thing may be idle before the pool ends it. The default is a minute.
    poolIdle :: Duration,
    -- | A thing is not used again when it is older than this. The default is half an hour.
    poolAge :: Duration,
    -- | A thing that was idle for less than this is not checked. The default is a tenth of a second.
    poolUnchecked :: Duration
  }

-- | How a use of a thing ended.
data Use
  = Returned
  | -- | By an exception.
    Threw
  deriving (Eq, Show)

-- | The defaults, with a function that makes a thing and one that ends it.
poolSettings :: (Deadline -> IO a) -> (a -> IO ()) -> PoolSettings a
poolSettings maker ender =
  PoolSettings
    { poolMake = maker,
      poolEnd = ender,
      poolKeep = \use _ -> return (use == Returned),
      poolHealthy = const (return True),
      poolLimit = 10,
      poolWait = seconds 5,
      poolIdle = minutes 1,
      poolAge = minutes 30,
      poolUnchecked = milliseconds 100
    }

-- | A pool. Any number of threads may use it.
data Pool a = Pool
  { poolOf :: !(PoolSettings a),
    poolState :: !(IORef (PoolState a)),
    poolSweeper :: !ThreadId
  }

data PoolState a = PoolState
  { -- | The idle things, the one that was used last first: its memory is in the processor's caches, and the others can
    -- grow old.
    idle :: [Item a],
    -- | The number of things, including those that are being made.
    total :: !Int,
    -- | The waiting threads, in the order in which they came.
    waiting :: !(IntMap.IntMap (Waiter a)),
    -- | How often in a row others were served before the first of them.
    passedOver :: !Int,
    nextWaiter :: !Int,
    isClosed :: !Bool,
    counts :: !Counts
  }

-- | A waiting thread: its capability, and the variable through which it gets a thing.
data Waiter a = Waiter !Int !(MVar (Grant a))

data Item a = Item
  { content :: a,
    -- | When it was made, and when its last use ended.
    born :: !Word64,
    lastUsed :: !Word64,
    -- | The capability on which it was used.
    lastCapability :: !Int
  }

data Grant a
  = -- | A thing that another thread has put back.
    Take !(Item a)
  | -- | Another thing was ended, so the thread may make a new one.
    MayMake
  | TooLate
  | IsClosed

data Counts = Counts {made, ended, unhealthy, refused :: !Int}

-- | Why a pool gave nothing.
data PoolProblem
  = -- | All things were in use for 'poolWait'.
    PoolExhausted
      { exhaustedLimit :: !Int,
        -- | Threads that waited besides this one.
        exhaustedWaiting :: !Int
      }
  | PoolClosed
  deriving (Eq)

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show PoolProblem where
  showsPrec _ = showString . displayException

instance Exception PoolProblem where
  displayException problem = case problem of
    PoolExhausted limit others ->
      "Millrace.Pool.withResource: all " ++ show limit ++ " are in use, and none came back in time; " ++ show others
        ++ " other threads wait. Raise poolLimit, or use each for a shorter time."
    PoolClosed -> "Millrace.Pool.withResource: the pool was closed."

-- | The contents of a pool, and counts since it was made.
data PoolStatus = PoolStatus
  { statusInUse :: !Int,
    statusIdle :: !Int,
    -- | Threads that wait.
    statusWaiting :: !Int,
    statusMade :: !Int,
    statusEnded :: !Int,
    -- | Those that were found unhealthy. They are also counted as ended.
    statusUnhealthy :: !Int,
    -- | Threads that waited until their deadline.
    statusExhausted :: !Int
  }
  deriving (Eq, Show)

-- | Makes an empty pool, and starts a thread that ends things that are idle for too long. Close it with 'closePool'.
-- Does not block.
newPool :: PoolSettings a -> IO (Pool a)
newPool settings = mask_ $ do
  state <- newIORef (PoolState [] 0 IntMap.empty 0 0 False (Counts 0 0 0 0))
  let sweeping = do
        threadDelay (max 10000 (min 1000000000 (durationMicroseconds (poolIdle settings) `div` 4)))
        sweep settings state
        isOver <- isClosed <$> readIORef state
        unless isOver sweeping
  sweeper <- forkIOWithUnmask (\unmask -> unmask sweeping)
  return (Pool settings state sweeper)

-- | Ends the things that are idle. Those in use end after their use, and threads that wait get 'PoolClosed', as do all
-- that come later. Returns when the idle ones have ended. If it is interrupted, the pool is closed even so. A second
-- call does nothing.
closePool :: Pool a -> IO ()
closePool Pool {poolOf, poolState, poolSweeper} = mask_ $ do
  (items, waiters) <- atomicModifyIORef' poolState $ \state ->
    (state {idle = [], waiting = IntMap.empty, isClosed = True}, (idle state, IntMap.elems (waiting state)))
  forM_ waiters $ \(Waiter _ signal) -> putMVar signal IsClosed
  discardAll poolOf poolState items `finally` killThread poolSweeper

-- | Makes a pool for the time of an action, and then closes it.
withPool :: PoolSettings a -> (Pool a -> IO b) -> IO b
withPool settings = bracket (newPool settings) closePool

-- | Uses a thing of the pool. Blocks for at most 'poolWait' if all are in use. Throws 'PoolExhausted', 'PoolClosed',
-- and what 'poolMake' throws.
withResource :: Pool a -> (a -> IO b) -> IO b
withResource pool action = do
  deadline <- deadlineAfter (poolWait (poolOf pool))
  withResourceOr (toException . PoolExhausted (poolLimit (poolOf pool))) deadline pool action

-- | Uses a thing of the pool, and waits for one until the deadline ('isDeadlineError'). The deadline limits the wait
-- and the making of a thing, but not its use.
withResourceBefore :: Deadline -> Pool a -> (a -> IO b) -> IO b
withResourceBefore deadline pool = withResourceOr late deadline pool
  where
    late others = toException (failure "Millrace.Pool.withResource" (described others) eTIMEDOUT)
    described others =
      "a pool of " ++ show (poolLimit (poolOf pool)) ++ ", all in use, for which " ++ show others ++ " others wait"

-- The first argument is what a thread gets that waits until the deadline with this number of others.
withResourceOr :: (Int -> SomeException) -> Deadline -> Pool a -> (a -> IO b) -> IO b
withResourceOr late deadline pool action = mask $ \restore -> do
  item <- acquire late deadline pool
  result <-
    restore (action (content item)) `catch` \problem -> do
      giveBack pool Threw item
      throwIO (problem :: SomeException)
  giveBack pool Returned item
  return result

-- | Reads the contents and the counts of a pool. Does not block. O(number of idle things and of waiting threads).
poolStatus :: Pool a -> IO PoolStatus
poolStatus pool = do
  state <- readIORef (poolState pool)
  let idleCount = length (idle state)
  return
    PoolStatus
      { statusInUse = total state - idleCount,
        statusIdle = idleCount,
        statusWaiting = IntMap.size (waiting state),
        statusMade = made (counts state),
        statusEnded = ended (counts state),
        statusUnhealthy = unhealthy (counts state),
        statusExhausted = refused (counts state)
      }

------------------------------------------------------------------------------------------------------------------------
-- Taking

data Found a
  = Found !(Item a)
  | Room
  | Wait !Int
  | Shut

-- Masked.
acquire :: (Int -> SomeException) -> Deadline -> Pool a -> IO (Item a)
acquire late deadline pool@Pool {poolState} = do
  (capability, _) <- myThreadId >>= threadCapability
  signal <- newEmptyMVar
  found <- atomicModifyIORef' poolState (find (poolLimit (poolOf pool)) capability signal)
  case found of
    Found item -> check deadline pool item
    Room -> make deadline pool
    Wait number -> await late deadline pool number signal
    Shut -> throwIO PoolClosed

-- Threads that wait come first: a thing that was put back is given to one of them and never idle.
find :: Int -> Int -> MVar (Grant a) -> PoolState a -> (PoolState a, Found a)
find limit capability signal state
  | isClosed state = (state, Shut)
  | (item, others) : _ <- near ++ picks = (state {idle = others}, Found item)
  | total state < limit = (state {total = total state + 1}, Room)
  | otherwise =
    ( state {waiting = IntMap.insert number (Waiter capability signal) (waiting state), nextWaiter = number + 1},
      Wait number
    )
  where
    number = nextWaiter state
    -- The loop of this capability already watches a thing that was used here before. So look for one among the few that
    -- were used last.
    picks = select (idle state)
    near = filter ((== capability) . lastCapability . fst) (take 8 picks)

-- Each element, with the list of the others.
select :: [b] -> [(b, [b])]
select [] = []
select (first : others) = (first, others) : [(other, first : rest) | (other, rest) <- select others]

await :: (Int -> SomeException) -> Deadline -> Pool a -> Int -> MVar (Grant a) -> IO (Item a)
await late deadline pool@Pool {poolState} number signal = do
  grant <- untilDeadline (takeMVar signal) `onException` abandon
  case grant of
    Take item -> check deadline pool item
    MayMake -> make deadline pool
    IsClosed -> throwIO PoolClosed
    TooLate -> do
      others <- IntMap.size . waiting <$> readIORef poolState
      throwIO (late others)
  where
    untilDeadline wait
      | deadline == noDeadline = wait
      | otherwise = microsUntil deadline >>= \micros -> withTimer micros (Perform expire) wait
    -- Runs in the manager's thread. Does not wait, because the signal is empty.
    expire = do
      was <- withdraw (\counts -> counts {refused = refused counts + 1})
      when was (putMVar signal TooLate)
    -- Returns whether the thread still waited. If not, a grant is in the signal, or will be in a moment.
    withdraw change = atomicModifyIORef' poolState $ \state ->
      if IntMap.member number (waiting state)
        then (state {waiting = IntMap.delete number (waiting state), counts = change (counts state)}, True)
        else (state, False)
    abandon = do
      was <- withdraw id
      unless was $ uninterruptibleMask_ (readMVar signal) >>= passOn
    passOn grant = case grant of
      Take item -> putBack pool item
      MayMake -> allowOneMore poolState
      TooLate -> return ()
      IsClosed -> return ()

-- Replaces a thing that is too old or no longer healthy.
check :: Deadline -> Pool a -> Item a -> IO (Item a)
check deadline pool@Pool {poolOf, poolState} item = do
  now <- monotonicNanoseconds
  let isOld = since now (born item) > poolAge poolOf || since now (lastUsed item) > poolIdle poolOf
  healthy <-
    if isOld || since now (lastUsed item) < poolUnchecked poolOf
      then return True
      else (poolHealthy poolOf (content item) `onSync` return False) `onException` putBack pool item
  if healthy && not isOld
    then return item
    else do
      unless healthy $ count poolState (\counts -> counts {unhealthy = unhealthy counts + 1})
      end poolOf poolState item `onException` allowOneMore poolState
      make deadline pool

-- Makes a thing that is already counted in 'total'.
make :: Deadline -> Pool a -> IO (Item a)
make deadline Pool {poolOf, poolState} = do
  thing <- poolMake poolOf deadline `onException` allowOneMore poolState
  count poolState (\counts -> counts {made = made counts + 1})
  now <- monotonicNanoseconds
  return (Item thing now now 0)

------------------------------------------------------------------------------------------------------------------------
-- Putting back. Masked.

giveBack :: Pool a -> Use -> Item a -> IO ()
giveBack pool@Pool {poolOf, poolState} use item = do
  keeps <- (poolKeep poolOf use (content item) `onSync` return False) `onException` discard poolOf poolState item
  now <- monotonicNanoseconds
  if keeps && since now (born item) <= poolAge poolOf
    then do
      (capability, _) <- myThreadId >>= threadCapability
      putBack pool item {lastUsed = now, lastCapability = capability}
    else discard poolOf poolState item

putBack :: Pool a -> Item a -> IO ()
putBack Pool {poolOf, poolState} item =
  join $
    atomicModifyIORef' poolState $ \state -> case nextOn (lastCapability item) state of
      Just (signal, others) -> (others, putMVar signal (Take item))
      Nothing
        | isClosed state -> (state, discard poolOf poolState item)
        | otherwise -> (state {idle = item : idle state}, return ())

-- The waiting thread that is served next, if a thing comes back on this capability. One of the same capability is woken
-- without a signal to another OS thread, and the thing's descriptor stays with one loop. So one of the first few that
-- wait there is served, but only eight times in a row before the thread that has waited longest.
nextOn :: Int -> PoolState a -> Maybe (MVar (Grant a), PoolState a)
nextOn capability state = case filter isNear (take nearMax (IntMap.toAscList (waiting state))) of
  (number, Waiter _ signal) : _
    | Just number == (fst <$> IntMap.lookupMin (waiting state)) -> first
    | passedOver state < nearMax ->
      Just (signal, state {waiting = IntMap.delete number (waiting state), passedOver = passedOver state + 1})
  _ -> first
  where
    isNear (_, Waiter its _) = its == capability
    first = longestWaiting state
    nearMax = 8

-- The thread that has waited longest.
longestWaiting :: PoolState a -> Maybe (MVar (Grant a), PoolState a)
longestWaiting state = case IntMap.minView (waiting state) of
  Just (Waiter _ signal, others) -> Just (signal, state {waiting = others, passedOver = 0})
  Nothing -> Nothing

discard :: PoolSettings a -> IORef (PoolState a) -> Item a -> IO ()
discard settings state item = end settings state item `finally` allowOneMore state

-- Ends a thing, and still counts it in 'total'.
end :: PoolSettings a -> IORef (PoolState a) -> Item a -> IO ()
end settings state item = do
  count state (\counts -> counts {ended = ended counts + 1})
  poolEnd settings (content item) `onSync` return ()

-- Lets one more thing be made: by a waiting thread, if there is one.
allowOneMore :: IORef (PoolState a) -> IO ()
allowOneMore reference =
  join $
    atomicModifyIORef' reference $ \state -> case longestWaiting state of
      Just (signal, others) -> (others, putMVar signal MayMake)
      Nothing -> (state {total = total state - 1}, return ())

sweep :: PoolSettings a -> IORef (PoolState a) -> IO ()
sweep settings reference = mask_ $ do
  now <- monotonicNanoseconds
  let isOver item = since now (lastUsed item) > poolIdle settings || since now (born item) > poolAge settings
  over <- atomicModifyIORef' reference $ \state ->
    let (old, young) = partition isOver (idle state) in (state {idle = young}, old)
  discardAll settings reference over

-- Ends all of these things, even if ending one of them is interrupted.
discardAll :: PoolSettings a -> IORef (PoolState a) -> [Item a] -> IO ()
discardAll settings state = foldr (\item others -> discard settings state item `finally` others) (return ())

------------------------------------------------------------------------------------------------------------------------

count :: IORef (PoolState a) -> (Counts -> Counts) -> IO ()
count reference change = atomicModifyIORef' reference (\state -> (state {counts = change (counts state)}, ()))

since :: Word64 -> Word64 -> Duration
since now moment = nanoseconds (fromIntegral (now - moment))

-- Runs the second action if the first one throws a synchronous exception. Asynchronous exceptions pass.
onSync :: IO b -> IO b -> IO b
onSync action other =
  action `catch` \problem -> case fromException problem of
    Just (SomeAsyncException _) -> throwIO problem
    Nothing -> other
