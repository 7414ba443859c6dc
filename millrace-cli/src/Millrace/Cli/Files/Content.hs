-- Must not know: HTTP, paths.

-- | The bytes of files that are held open.
module Millrace.Cli.Files.Content
  ( wholeContent,
    withPieces,
  )
where

import Control.Exception (IOException, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (newIORef, readIORef, writeIORef)
import Millrace.Cli.Files.Entry (FileState (..), OpenFile (..))
import Millrace.File (Mode (ForReading), readAt, withFile)

-- | All bytes of a small file, of a mebibyte at most. 'Nothing' if the file has changed since it was opened. Blocks
-- while the disk works. Throws 'IOException'.
wholeContent :: OpenFile -> IO (Maybe ByteString)
wholeContent file = do
  bytes <- withFile (openFilePath file) ForReading $ \opened -> readAt opened 0 (max 1 (fromIntegral size))
  unchanged <- isUnchanged file
  pure (if unchanged && ByteString.length bytes == fromIntegral size then Just bytes else Nothing)
  where
    size = stateSize (openFileState file)

-- | @withPieces count file use@ hands over an action that reads the next piece of a file, of this many bytes at most;
-- it is empty at the end. 'Nothing' if the file has changed since it was opened, or cannot be read: then the result
-- would be that of another file. Blocks while the disk works.
withPieces :: Int -> OpenFile -> (IO ByteString -> IO a) -> IO (Maybe a)
withPieces count file use = either failed id <$> try reading
  where
    reading = withFile (openFilePath file) ForReading $ \opened -> do
      position <- newIORef 0
      result <- use $ do
        offset <- readIORef position
        bytes <- readAt opened offset count
        bytes <$ writeIORef position (offset + fromIntegral (ByteString.length bytes))
      end <- readIORef position
      unchanged <- isUnchanged file
      pure (if unchanged && end <= stateSize (openFileState file) then Just result else Nothing)
    failed :: IOException -> Maybe a
    failed _ = Nothing

isUnchanged :: OpenFile -> IO Bool
isUnchanged file = (== openFileState file) <$> openFileStateNow file
