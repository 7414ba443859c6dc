-- | A variable for each capability, so that threads seldom meet. Must not know: connections.
module Millrace.Proxy.PerCapability (PerCapability, newPerCapability, ownPlace, allPlaces, placeCount) where

import Control.Concurrent (getNumCapabilities, myThreadId, threadCapability)
import Data.Array (Array, elems, listArray, (!))
import Data.IORef

-- | The variables, by the number of their capability.
newtype PerCapability a = PerCapability (Array Int (IORef a))

-- | One for each capability that there is now, all with this value.
newPerCapability :: a -> IO (PerCapability a)
newPerCapability value = do
  capabilities <- getNumCapabilities
  PerCapability . listArray (0, capabilities - 1) <$> mapM (const (newIORef value)) [1 .. capabilities]

-- | The one of the calling thread's capability. Capabilities that were added later share those of others.
ownPlace :: PerCapability a -> IO (IORef a)
ownPlace perCapability@(PerCapability places) = do
  (capability, _) <- myThreadId >>= threadCapability
  let count = placeCount perCapability
  return (places ! (if capability < count then capability else capability `mod` count))

-- | All variables, in the order of their capabilities.
allPlaces :: PerCapability a -> [IORef a]
allPlaces (PerCapability places) = elems places

-- | How many there are.
placeCount :: PerCapability a -> Int
placeCount (PerCapability places) = length places
