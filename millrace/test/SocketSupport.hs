-- | Helpers of several specs of sockets.
module SocketSupport (timesOut, withFile', withPath) where

import Control.Exception (bracket, finally)
import Control.Monad (when)
import qualified Data.ByteString as ByteString
import Millrace.Deadline
import Support
import System.Directory (doesPathExist, getTemporaryDirectory, removeFile)
import System.FilePath ((</>))
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd (..))
import Test.Hspec

withPath :: String -> (FilePath -> IO a) -> IO a
withPath name use = do
  directory <- getTemporaryDirectory
  process <- getProcessID
  let path = directory </> ("millrace-test-" ++ show process ++ "-" ++ name)
      remove = doesPathExist path >>= \exists -> when exists (removeFile path)
  use path `finally` remove

withFile' :: Int -> (Fd -> IO a) -> IO a
withFile' size use = withPath "file" $ \path -> do
  ByteString.writeFile path (bytesAt 0 size)
  bracket (openToRead path) closeFd use

-- | Expects the operation to end because a deadline passes.
timesOut :: IO a -> IO ()
timesOut operation = within 10 "the operation" (failsWith operation) >>= (`shouldSatisfy` isDeadlineError)
