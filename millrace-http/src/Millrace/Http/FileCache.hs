{-# OPTIONS_HADDOCK hide #-}

-- Must not know: requests, sockets.

-- |
-- A cache of open descriptors and of information about files, if the settings ask for it.
--
-- A cached descriptor counts its users, and the last one closes it. So its number cannot come to mean another file
-- while a thread still sends the first one.
module Millrace.Http.FileCache
  ( FileCache,
    OpenFile (..),
    FileFacts (..),
    FileInfo (..),
    newFileCache,
    closeFileCache,
    withOpenFile,
    fileInfo,
    fileError,
  )
where

import Control.Exception (bracket, throwIO)
import Control.Monad (unless, (>=>))
import Data.ByteString (ByteString)
import Data.Int (Int32)
import Foreign.C.Error (Errno (..), eNOENT)
import Foreign.C.Types (CInt, CTime (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Http.Date (Seconds, formatHttpDate)
import Millrace.Http.Exception (usingFile)
import Millrace.Http.Expiring
import Millrace.Http.SystemCalls
import Millrace.Operation (failure)
import Network.HTTP.Date (HTTPDate, epochTimeToHTTPDate)
import System.IO.Error (isFullError)
import System.Posix.Internals (withFilePath)

-- | The files that one server has cached.
data FileCache = FileCache
  { -- Descriptors.
    keptFiles :: !(Expiring FilePath (Shared Int32)),
    knownFacts :: !(Expiring FilePath (Either IOError FileFacts))
  }

-- | A descriptor, and the state of its file now.
data OpenFile = OpenFile !Int32 !FileFacts

-- | The known properties of a file.
data FileFacts = FileFacts
  { -- | Bytes.
    factsSize :: !Integer,
    -- | The time of the last modification.
    factsModified :: !Seconds
  }

-- | Information about a file.
data FileInfo = FileInfo
  { fileInfoName :: !FilePath,
    -- | In bytes.
    fileInfoSize :: !Integer,
    -- | The time of the last modification.
    fileInfoTime :: !HTTPDate,
    -- | The time of the last modification, as a header field's value.
    fileInfoDate :: !ByteString
  }
  deriving (Eq, Show)

-- | @newFileCache descriptorMicros informationMicros@ makes a cache. With 0 it keeps nothing.
newFileCache :: Int -> Int -> IO FileCache
newFileCache descriptorMicros factsMicros =
  FileCache
    <$> newExpiring descriptorMicros descriptorsMax release
    <*> newExpiring factsMicros factsMax (const (return ()))

-- Most cached files. It leaves descriptors for connections.
descriptorsMax, factsMax :: Int
descriptorsMax = 512
factsMax = 65536

-- | Closes the files that are not in use. Each of the others is closed after its last use.
closeFileCache :: FileCache -> IO ()
closeFileCache cache = forgetAll (keptFiles cache) >> forgetAll (knownFacts cache)

-- | Runs an action with a file that is opened or taken from the cache, and releases the file afterwards.
withOpenFile :: FileCache -> FilePath -> (Either IOError OpenFile -> IO a) -> IO a
withOpenFile cache path use
  | remembersNothing (keptFiles cache) = bracket (openRegular path) (mapM_ closeOpenFile) use
  | otherwise =
    bracket (acquire cache path) (mapM_ release) (either (return . Left) (examined path . sharedValue) >=> use)

closeOpenFile :: OpenFile -> IO ()
closeOpenFile (OpenFile descriptor _) = closeFile descriptor

acquire :: FileCache -> FilePath -> IO (Either IOError (Shared Int32))
acquire cache path = do
  kept <- recall (keptFiles cache) path
  alive <- maybe (return False) retain kept
  case kept of
    Just found | alive -> return (Right found)
    _ -> openRegular path >>= traverse keep
  where
    keep (OpenFile descriptor _) = do
      new <- share (closeFile descriptor) descriptor
      _ <- retain new
      remember (keptFiles cache) path 1 new
      return new

-- The name is a CString, on Windows a CWString. Refuses a name with a NUL: the system's functions would end it there,
-- and so open another file than the one that the application has checked.
openRegular :: FilePath -> IO (Either IOError OpenFile)
openRegular path
  | '\0' `elem` path = return (Left (fileError path eNOENT))
  | otherwise = withFilePath path $ \name -> asOpenFile path (openFile (castPtr name))

-- A file may be written to in place, so its size is examined again.
examined :: FilePath -> Int32 -> IO (Either IOError OpenFile)
examined path descriptor = asOpenFile path (examineFile descriptor)

-- | The system's error about the file at a path.
fileError :: FilePath -> Errno -> IOError
fileError = failure usingFile

asOpenFile :: FilePath -> (Ptr File -> IO CInt) -> IO (Either IOError OpenFile)
asOpenFile path fill = allocaBytes fileSize $ \file -> do
  result <- fill file
  if result < 0
    then return (Left (fileError path (Errno (negate result))))
    else do
      facts <- FileFacts . toInteger <$> fileBytes file <*> fileModified file
      descriptor <- fileDescriptor file
      return (Right (OpenFile descriptor facts))

-- | Information about a file. Throws an @IOError@ if the file is not regular or cannot be read.
fileInfo :: FileCache -> FilePath -> IO FileInfo
fileInfo cache path = do
  known <- recall (knownFacts cache) path
  facts <- maybe look return known
  either throwIO (return . describe) facts
  where
    look = do
      found <- withOpenFile cache path (return . fmap (\(OpenFile _ facts) -> facts))
      -- A lack of descriptors says nothing about the file.
      unless (either isFullError (const False) found) (remember (knownFacts cache) path 1 found)
      return found
    describe (FileFacts size modified) =
      FileInfo path size (epochTimeToHTTPDate (CTime modified)) (formatHttpDate modified)
