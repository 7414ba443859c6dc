-- | "Millrace.Operation": deadlines and time limits of requests.
module OperationSpec (spec) where

import Foreign.C.Error (eTIMEDOUT)
import Millrace.Deadline
import Millrace.Operation hiding (within)
import qualified Millrace.Operation as Operation
import Millrace.Socket (socketHandle)
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Operation" $
  describe "lets the outer one of two limits count" $ do
    it "before around within" $ do
      soon <- deadlineAfter (milliseconds 5)
      timesOut (before soon . Operation.within unlimited)
      timesOut (before soon . Operation.within (minutes 1))
    it "within around before" $ timesOut (Operation.within (milliseconds 5) . before noDeadline)

timesOut :: (Request () -> Request ()) -> IO ()
timesOut limit = withUnixPair $ \s _ ->
  within
    5
    "the operation"
    (either (== eTIMEDOUT) (const False) <$> perform (limit (waitReadableRequest (socketHandle s))))
    `shouldReturn` True
