-- | Types of Warp's internal interface.
module Network.Wai.Handler.Warp.Types (FileId (..)) where

import Network.Wai.Handler.Warp.Internal (FileId (..))
