-- Must not know: HTTP.

-- | The connections to a target that are open and not in use. Each capability has its own, so that threads seldom meet.
-- A thread that finds none there takes one of another capability.
module Millrace.Proxy.Pool
  ( Pool,
    newPool,
    takeLink,
    keepLink,
    keptCount,
    tidyPool,
    tidyingMicros,
    closeKept,
    closePool,
  )
where

import Control.Exception (mask_)
import Control.Monad (filterM, forM_, join, unless)
import Data.IORef
import Data.List (partition)
import Data.Word (Word64)
import Millrace.Deadline (Duration, durationNanoseconds, monotonicNanoseconds)
import Millrace.Proxy.Link (Link (..))
import Millrace.Proxy.PerCapability

-- | The kept connections of a target.
data Pool = Pool
  { poolStacks :: !(PerCapability Stack),
    -- | For each capability.
    poolMax :: !Int,
    poolNanoseconds :: !Word64
  }

-- The kept connections and their number. The latest one is first: it is in the caches, and the others can grow old.
data Stack
  = Open !Int [IdleConnection]
  | Closed

data IdleConnection = IdleConnection !Link !Word64

-- | A pool: the largest number of connections, and how long each is kept.
newPool :: Int -> Duration -> IO Pool
newPool count time = do
  stacks <- newPerCapability (Open 0 [])
  let capabilities = variableCount stacks
  return
    Pool
      { poolStacks = stacks,
        poolMax = (max 0 count + capabilities - 1) `div` capabilities,
        poolNanoseconds = durationNanoseconds time
      }

-- | Takes a connection on which nothing has happened since it was kept. The caller must close it. Does not block.
takeLink :: Pool -> IO (Maybe Link)
takeLink pool = do
  own <- ownVariable (poolStacks pool)
  taken <- atomicModifyIORef' own pop
  case taken of
    Nothing | variableCount (poolStacks pool) > 1 -> fromOthers (allVariables (poolStacks pool))
    Nothing -> return Nothing
    Just kept -> checked kept
  where
    fromOthers [] = return Nothing
    fromOthers (stack : others) = atomicModifyIORef' stack pop >>= maybe (fromOthers others) checked
    checked (IdleConnection link since) = do
      now <- monotonicNanoseconds
      quiet <- if now - since > poolNanoseconds pool then return False else linkIsQuiet link
      if quiet then return (Just link) else linkClose link >> takeLink pool

pop :: Stack -> (Stack, Maybe IdleConnection)
pop (Open count (first : others)) = (Open (count - 1) others, Just first)
pop stack = (stack, Nothing)

-- | Keeps a connection, or closes it if there are enough.
keepLink :: Pool -> Link -> IO ()
keepLink pool link = mask_ $ do
  now <- monotonicNanoseconds
  own <- ownVariable (poolStacks pool)
  join (atomicModifyIORef' own (push now))
  where
    push now stack = case stack of
      Open count others | count < poolMax pool -> (Open (count + 1) (IdleConnection link now : others), return ())
      _ -> (stack, linkClose link)

-- | The number of connections that are kept. Does not block.
keptCount :: Pool -> IO Int
keptCount pool = sum <$> mapM (fmap size . readIORef) (allVariables (poolStacks pool))
  where
    size stack = case stack of
      Open count _ -> count
      Closed -> 0

-- | The time between two calls of 'tidyPool'.
tidyingMicros :: Int
tidyingMicros = 500000

-- | Closes connections that were kept for too long, and those that the target has closed. Does not block.
--
-- They stay in the pool while this looks at them, so that a request never finds it empty. 'takeLink' checks by
-- itself whether the target has sent bytes without a request.
tidyPool :: Pool -> IO ()
tidyPool pool = do
  now <- monotonicNanoseconds
  forM_ (allVariables (poolStacks pool)) $ \stack -> do
    over <- readIORef stack >>= filterM (isOver now) . linksOf
    -- Two that were kept in the same nanosecond are closed together, which harms nobody.
    let isOne (IdleConnection _ since) = since `elem` [moment | IdleConnection _ moment <- over]
    unless (null over) $ closing [stack] (without isOne)
  where
    isOver now (IdleConnection link since)
      | now > since && now - since > poolNanoseconds pool = return True
      | otherwise = linkHasEnded link
    linksOf (Open _ ones) = ones
    linksOf Closed = []
    without isOne (Open _ ones) = let (gone, good) = partition isOne ones in (Open (length good) good, gone)
    without _ Closed = (Closed, [])

-- | Closes all connections. The pool can be used further.
closeKept :: Pool -> IO ()
closeKept pool = closing (allVariables (poolStacks pool)) emptied
  where
    emptied (Open _ ones) = (Open 0 [], ones)
    emptied Closed = (Closed, [])

-- | Closes all connections. From now on, closes connections instead of keeping them.
closePool :: Pool -> IO ()
closePool pool = closing (allVariables (poolStacks pool)) end
  where
    end (Open _ ones) = (Closed, ones)
    end Closed = (Closed, [])

-- Closes the connections that a change takes out of these stacks.
closing :: [IORef Stack] -> (Stack -> (Stack, [IdleConnection])) -> IO ()
closing stacks change =
  forM_ stacks $ \stack -> mask_ $ do
    ended <- atomicModifyIORef' stack change
    forM_ ended $ \(IdleConnection link _) -> linkClose link
