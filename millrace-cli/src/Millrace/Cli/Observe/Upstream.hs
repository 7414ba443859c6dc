-- Must not know: HTTP.

-- | The targets of proxies, as a server's status shows them.
module Millrace.Cli.Observe.Upstream
  ( Upstream (..),
    UpstreamHealth (..),
    Upstreams,
    newUpstreams,
    withUpstreams,
    readUpstreams,
  )
where

import Control.Exception (bracket)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import qualified Data.Map.Strict as Map

-- | A target of a proxy. Like @TargetState@ of @Millrace.Proxy@, a package that does not exist on all systems.
data Upstream = Upstream
  { upstreamTarget :: String,
    upstreamHealth :: UpstreamHealth,
    -- | The number of requests that it works on.
    upstreamRequests :: Int,
    -- | The number of connections to it that are kept and not in use.
    upstreamKept :: Int
  }
  deriving (Eq, Show)

-- | Whether a target gets requests.
data UpstreamHealth
  = UpstreamWell
  | -- | Requests failed, so it is left out for a time.
    UpstreamRequestsFailed
  | -- | Checks failed.
    UpstreamChecksFailed
  deriving (Eq, Ord, Show)

-- | The targets of all proxies that run now. Each proxy has a number, and an action that returns its targets.
newtype Upstreams = Upstreams (IORef (Int, Map.Map Int (IO [Upstream])))

-- | No proxy runs.
newUpstreams :: IO Upstreams
newUpstreams = Upstreams <$> newIORef (0, Map.empty)

-- | While an action runs, the targets that another action tells are among the others.
withUpstreams :: Upstreams -> IO [Upstream] -> IO a -> IO a
withUpstreams (Upstreams proxies) targets action = bracket add remove (const action)
  where
    add = atomicModifyIORef' proxies (\(next, others) -> ((next + 1, Map.insert next targets others), next))
    remove number = atomicModifyIORef' proxies (\(next, others) -> ((next, Map.delete number others), ()))

-- | All targets, by name. A target of several proxies is there once, with all its requests and connections, and as
-- unwell as any of them takes it to be.
readUpstreams :: Upstreams -> IO [Upstream]
readUpstreams (Upstreams proxies) = do
  found <- readIORef proxies >>= fmap concat . sequence . Map.elems . snd
  pure (Map.elems (Map.fromListWith both [(upstreamTarget upstream, upstream) | upstream <- found]))
  where
    both one other =
      one
        { upstreamHealth = max (upstreamHealth one) (upstreamHealth other),
          upstreamRequests = upstreamRequests one + upstreamRequests other,
          upstreamKept = upstreamKept one + upstreamKept other
        }
