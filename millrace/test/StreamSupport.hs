-- | An exception for the specs of streams and connections.
module StreamSupport (ForTest (..)) where

import Control.Exception (Exception (..), asyncExceptionFromException, asyncExceptionToException)

-- | An exception of an asynchronous type, as that of the async package for threads that are linked.
data ForTest = ForTest
  deriving (Eq, Show)

instance Exception ForTest where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
