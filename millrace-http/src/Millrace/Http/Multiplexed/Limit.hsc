{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The limits for which connections of HTTP\/2 and HTTP\/3 end, as the engines number them.
module Millrace.Http.Multiplexed.Limit (limitNumbered) where

#include "http_limit.h"

import Foreign.C.Types (CInt)
import Millrace.Http.Exception (ConnectionLimit (..))

-- | The limit with this number of the C code; 'Nothing' for none.
limitNumbered :: CInt -> Maybe ConnectionLimit
limitNumbered number = case number of
  #{const HTTP_LIMIT_FRAMES} -> Just FramesWithoutUse
  #{const HTTP_LIMIT_RESETS} -> Just CancelledRequests
  #{const HTTP_LIMIT_HEADS} -> Just LargeHeads
  #{const HTTP_LIMIT_MEMORY} -> Just ConnectionMemory
  _ -> Nothing
