{-# LANGUAGE ScopedTypeVariables #-}

-- | Descriptors and operations that an action leaves behind.
module TestSupport.Leaks
  ( inFlightNow,
    withoutLeaks,
  )
where

import Control.Exception (catch)
import Data.Word (Word64)
import GHC.IO.Exception (IOException (..))
import qualified Millrace.Manager as Manager
import TestSupport.Process (descriptorCount)
import TestSupport.Time (shouldBecome)

-- | The number of operations in flight.
inFlightNow :: IO Word64
inFlightNow = Manager.inFlight <$> Manager.counters

-- | Runs an action. Fails if it leaves descriptors open or operations in flight.
withoutLeaks :: IO a -> IO a
withoutLeaks action = do
  _ <- Manager.loopCount -- This opens the loops' own descriptors.
  operationsBefore <- inFlightNow
  descriptorsBefore <- descriptorCount
  result <- action
  -- An earlier test may just be releasing something that was counted above, so the numbers may also fall below those.
  (max operationsBefore <$> inFlightNow) `shouldBecome` operationsBefore `catch` naming "operations in flight"
  (max descriptorsBefore <$> descriptorCount) `shouldBecome` descriptorsBefore `catch` naming "descriptors"
  return result
  where
    naming what (problem :: IOException) = ioError (userError (what ++ ": " ++ ioe_description problem))
