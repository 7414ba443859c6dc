-- | Expectations that any thread may check, and expected exceptions.
module TestSupport.Failure
  ( require,
    failsWith,
    hasCode,
    isErrno,
  )
where

import Control.Exception (Exception, SomeException, fromException, try)
import Control.Monad (unless)
import Foreign.C.Error (Errno (..))
import GHC.IO.Exception (IOException (..))

-- | Fails in the thread that runs it unless the condition holds. A job passes the failure on to the thread that
-- finishes it.
require :: Bool -> String -> IO ()
require condition message = unless condition (ioError (userError message))

-- | Runs an action that must throw, and returns its exception.
failsWith :: Exception e => IO a -> IO e
failsWith action = try action >>= either return (const (ioError (userError "no exception was thrown")))

-- | Whether an error has this @errno@.
hasCode :: Errno -> IOError -> Bool
hasCode expected problem = (Errno <$> ioe_errno problem) == Just expected

-- | Whether an action failed with this @errno@.
isErrno :: Errno -> Either SomeException a -> Bool
isErrno expected (Left problem) = maybe False (hasCode expected) (fromException problem)
isErrno _ (Right _) = False
