-- | Memory is fetched ahead for threads that are about to be woken.
module WaitersSpec (spec) where

import Foreign.C.Types (CInt (..))
import Support (needingKnownLayout)
import Test.Hspec

foreign import ccall safe "short_stack.h fetch_short_stack" c_fetch_short_stack :: IO CInt

spec :: Spec
spec =
  describe "fetching waiting threads ahead" . needingKnownLayout $
    it "reads no stack beyond its end, where there may be no memory" $
      c_fetch_short_stack `shouldReturn` 0
