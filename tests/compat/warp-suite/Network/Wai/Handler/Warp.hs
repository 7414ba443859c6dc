{-# LANGUAGE PackageImports #-}

-- | Warp's interface without @Counter@, which releases before 3.4.11 did not have: their specs define a type of this
-- name.
module Network.Wai.Handler.Warp (module Warp) where

import "warp" Network.Wai.Handler.Warp as Warp hiding (Counter)
