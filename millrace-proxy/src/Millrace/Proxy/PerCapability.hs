-- Must not know: connections.

-- | A variable for each capability, so that threads seldom meet.
module Millrace.Proxy.PerCapability
  ( PerCapability,
    newPerCapability,
    ownVariable,
    allVariables,
    variableCount,
  )
where

import Control.Concurrent (getNumCapabilities, myThreadId, threadCapability)
import Data.Array (Array, elems, listArray, (!))
import Data.IORef

-- | The variables, by the number of their capability.
newtype PerCapability a = PerCapability (Array Int (IORef a))

-- | Makes a variable for each capability that there is now, all with this value.
newPerCapability :: a -> IO (PerCapability a)
newPerCapability value = do
  capabilities <- getNumCapabilities
  PerCapability . listArray (0, capabilities - 1) <$> mapM (const (newIORef value)) [1 .. capabilities]

-- | The variable of the calling thread's capability. A capability that was added later shares that of another one.
ownVariable :: PerCapability a -> IO (IORef a)
ownVariable perCapability@(PerCapability variables) = do
  (capability, _) <- myThreadId >>= threadCapability
  let count = variableCount perCapability
  return (variables ! (if capability < count then capability else capability `mod` count))

-- | All variables, in the order of their capabilities.
allVariables :: PerCapability a -> [IORef a]
allVariables (PerCapability variables) = elems variables

-- | The number of variables.
variableCount :: PerCapability a -> Int
variableCount (PerCapability variables) = length variables
