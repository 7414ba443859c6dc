-- | The bytes of files that are held open. Must not know: HTTP, paths.
module Millrace.Cli.Content
  ( wholeContent,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Int (Int64)
import Millrace.Cli.Entry (Nanoseconds, OpenFile (..))
import Millrace.File (Mode (ForReading), readAt, withFile)

-- | @wholeContent state file@: all bytes of a file, if it has this size and time of change when they have been read. Blocks while
-- the disk works. Throws 'IOError'.
--
-- @since 0.1.0
wholeContent :: (Int64, Nanoseconds) -> OpenFile -> IO (Maybe ByteString)
wholeContent expected file = do
  bytes <- withFile (openFilePath file) ForReading $ \opened -> readAt opened 0 (max 1 (fromIntegral (openFileSize file)))
  state <- openFileState file
  pure (if state == expected && ByteString.length bytes == fromIntegral (fst state) then Just bytes else Nothing)
