-- | Buffers, from Warp's internal interface.
module Network.Wai.Handler.Warp.Buffer (allocateBuffer, freeBuffer) where

import Network.Wai.Handler.Warp.Internal (allocateBuffer, freeBuffer)
