-- Must not know: HTTP.

-- | A target and what the proxy knows of it.
module Millrace.Proxy.Member
  ( Member (..),
    newMember,
    working,
    noteSuccess,
    noteFailure,
    isUsable,
    TargetState (..),
    TargetHealth (..),
    memberState,
  )
where

import Control.Exception (bracket_)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.IORef
import Data.Word (Word64)
import Millrace.Deadline (durationNanoseconds, monotonicNanoseconds)
import Millrace.Proxy.Pool
import Millrace.Proxy.Settings (Limits (..))
import Millrace.Proxy.SharedConnections
import Millrace.Proxy.Target

-- | A target and what the proxy knows of it.
data Member = Member
  { memberTarget :: !Target,
    -- | Its name and port, made once for all requests.
    memberAuthority :: !ByteString,
    memberPool :: !Pool,
    -- | Its connections of HTTP\/2.
    memberShared :: !Shared,
    -- | The number of requests that it works on.
    memberActive :: !(IORef Int),
    memberFailures :: !(IORef Failures),
    -- | The result of active checks.
    memberIsWell :: !(IORef Bool)
  }

-- The number of requests that have failed in a row, and the moment until which the target is left out.
data Failures = Failures !Int !Word64

newMember :: Limits -> Target -> IO Member
newMember limits target =
  Member target (targetAuthority target)
    <$> newPool (keptConnections limits) (keepLimit limits)
    <*> newShared (keepLimit limits)
    <*> newIORef 0
    <*> newIORef (Failures 0 0)
    <*> newIORef True

-- | Runs an action that counts as a request of the target.
working :: Member -> IO a -> IO a
working member = bracket_ (count 1) (count (-1))
  where
    count by = atomicModifyIORef' (memberActive member) (\active -> (active + by, ()))

noteSuccess :: Member -> IO ()
noteSuccess member = do
  Failures count _ <- readIORef (memberFailures member)
  unless (count == 0) (writeIORef (memberFailures member) (Failures 0 0))

-- | Counts a failed request. After enough of them in a row, the target is left out for a time.
noteFailure :: Limits -> Member -> IO ()
noteFailure limits member = do
  now <- monotonicNanoseconds
  atomicModifyIORef' (memberFailures member) $ \(Failures count end) ->
    let failures = count + 1
     in ( Failures
            failures
            ( if failures >= failuresMax limits
                then now + min (maxBound - now) (durationNanoseconds (leftOutFor limits))
                else end
            ),
          ()
        )

-- | Whether requests may go there, as far as is known.
isUsable :: Member -> IO Bool
isUsable member = (== Well) <$> memberHealth member

-- | The state of a target, for observers.
data TargetState = TargetState
  { stateTarget :: !Target,
    stateHealth :: !TargetHealth,
    -- | The number of requests that it works on.
    stateRequests :: !Int,
    -- | The number of connections to it that are kept and not in use.
    stateKept :: !Int
  }
  deriving (Eq, Show)

-- | Whether a target gets requests. If no target is 'Well', all get requests.
data TargetHealth
  = Well
  | -- | Checks failed ('Millrace.Proxy.activeCheck').
    ChecksFailed
  | -- | Requests failed, so it is left out for a time ('Millrace.Proxy.leftOutFor').
    RequestsFailed
  deriving (Eq, Show)

memberHealth :: Member -> IO TargetHealth
memberHealth member = do
  well <- readIORef (memberIsWell member)
  Failures _ end <- readIORef (memberFailures member)
  isOver <- if end == 0 then return True else (>= end) <$> monotonicNanoseconds
  return (if not well then ChecksFailed else if isOver then Well else RequestsFailed)

memberState :: Member -> IO TargetState
memberState member =
  TargetState (memberTarget member) <$> memberHealth member <*> readIORef (memberActive member)
    <*> ((+) <$> keptCount (memberPool member) <*> unusedCount (memberShared member))
