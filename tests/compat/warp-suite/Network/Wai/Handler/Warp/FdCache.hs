-- | The cache of descriptors, from Warp's internal interface.
module Network.Wai.Handler.Warp.FdCache (withFdCache) where

import Network.Wai.Handler.Warp.Internal (withFdCache)
