-- Must not know: HTTP.

-- | Opens the files of a directory so that nothing outside it can be reached, on Windows.
--
-- For other systems @posix\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
--
-- A path is looked up once, and the object that was found is checked:
--
-- 1. The file is opened, by a path that begins with @\\\\?\\@, so that no name means a device.
-- 2. Windows gives the real path of the opened file, with all links resolved.
-- 3. While the file is open, nobody can rename or remove it or a directory above it. Readers open that path.
--
-- Names that reach a file by something other than its own name are refused. A colon leads to the file's streams
-- (@page::$DATA@), and a tilde with a number may be the short name of a file whose long name is never served.
module Millrace.Cli.Files.Root
  ( Root
  , openRoot
  , lookedUpOnce
  , withEntry
  , openEntry
  , mayStayOpen
  , directoryNames
  , glimpse
  ) where

import Control.Exception (bracket, onException)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.Char (isDigit)
import Data.Int (Int32, Int64)
import Data.List (intercalate, isPrefixOf, tails)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8', encodeUtf8)
import Data.Word (Word32)
import Foreign.C.String (CWString, peekCWStringLen, withCWString)
import Foreign.C.Types (CWchar)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (allocaArray)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOErrorType (InappropriateType, NoSuchThing, OtherError, PermissionDenied), IOException (..))
import Millrace.Cli.Files.Entry
import System.Directory (listDirectory)

#include "entry_windows.h"

-- | A directory below which files are looked up.
data Root = Root FilePath LinkPolicy -- without a backslash at its end
  deriving (Eq, Show)

-- What an @entry@ of C describes.
data Found

-- | A root at this path. Symbolic links in the path are resolved once, here. Afterwards every look-up begins with the
-- resolved path, so a directory that is removed and created again is still served. Throws 'IOException' if there is no
-- directory at the path.
openRoot :: LinkPolicy -> FilePath -> IO Root
openRoot policy path = withFound path $ \result found ->
  if result /= #{const ENTRY_FOUND}
    then failureOf found >>= \number -> ioError (refused result (windowsError number))
    else do
      kind <- kindOf found
      unless (kind == #{const ENTRY_DIRECTORY}) $ ioError (refusedAs InappropriateType "is not a directory")
      real <- pathOf found >>= either (ioError . refusedAs OtherError . windowsError) pure
      pure (Root (withoutBackslash real) policy)
  where
    refused result
      | result == #{const ENTRY_MISSING} = \_ -> refusedAs NoSuchThing "does not exist"
      | result == #{const ENTRY_FORBIDDEN} = \_ -> refusedAs PermissionDenied "permission denied"
      | otherwise = refusedAs OtherError
    refusedAs kind description = IOError Nothing kind "open" description Nothing (Just path)

-- Only the path of a volume's root ends in a backslash.
withoutBackslash :: FilePath -> FilePath
withoutBackslash path = if last path == '\\' then init path else path

-- | Hands over the same root, for several look-ups. On Windows its path is resolved already.
lookedUpOnce :: Root -> (Root -> IO a) -> IO a
lookedUpOnce root use = use root

-- | Looks up names below a root and hands over the entry. Until the action ends, normally or not, the file stays open
-- and cannot be moved. Names must be plain (see "Millrace.Cli.Base.RequestPath") and in UTF-8. An empty list is the
-- root itself.
--
-- The look-up may wait for a disk. A download holds two handles: this one and that of its reader.
withEntry :: Root -> [ByteString] -> (Either Problem Entry -> IO a) -> IO a
withEntry root names use = bracket (openEntry root names) snd (use . fst)

-- | Looks up names below a root, and returns the entry and the action that closes its file. Must be called with
-- asynchronous exceptions masked.
openEntry :: Root -> [ByteString] -> IO (Either Problem Entry, IO ())
openEntry root@(Root path _) names = case traverse windowsName names of
  Nothing -> pure (Left Missing, pure ())
  Just plain -> allocaBytes #{size entry} $ \found -> do
    result <- withCWString (path <> "\\" <> intercalate "\\" plain) (`c_open` found)
    if result == #{const ENTRY_FOUND}
      then do
        handle <- #{peek entry, handle} found
        entry <- examine root found `onException` c_close handle
        pure (entry, c_close handle)
      else (\problem -> (Left problem, pure ())) <$> problemOf result found

-- | Whether a file may stay open when it is not being sent. No: an open file cannot be renamed, replaced or removed.
mayStayOpen :: Bool
mayStayOpen = False

windowsName :: ByteString -> Maybe String
windowsName name = case decodeUtf8' name of
  Right text | ':' `notElem` string && not (any isShort (tails string)) -> Just string
    where string = Text.unpack text
  _ -> Nothing
  where
    isShort ('~' : digit : _) = isDigit digit
    isShort _ = False

problemOf :: Int32 -> Ptr Found -> IO Problem
problemOf result found
  | result == #{const ENTRY_MISSING} = pure Missing
  | result == #{const ENTRY_FORBIDDEN} = pure Unreadable
  | result == #{const ENTRY_NO_HANDLES} = pure OutOfDescriptors
  | otherwise = faulty <$> failureOf found

faulty :: Word32 -> Problem
faulty number = Faulty (IOError Nothing OtherError "open" (windowsError number) Nothing Nothing)

windowsError :: Word32 -> String
windowsError number = "error " <> show number <> " of Windows"

examine :: Root -> Ptr Found -> IO (Either Problem Entry)
examine root found = do
  kind <- kindOf found
  if kind == #{const ENTRY_OTHER}
    then pure (Left Missing)
    else pathOf found >>= either (pure . Left . faulty) (describe kind)
  where
    describe kind real
      | not (isInside root real) = pure (Left Missing)
      | kind == #{const ENTRY_DIRECTORY} = pure (Right (Directory real))
      | otherwise = Right . File <$> openFile real found

isInside :: Root -> FilePath -> Bool
isInside (Root _ FollowLinks) _ = True
isInside (Root root StayInside) real = real == root || (root <> "\\") `isPrefixOf` real

openFile :: FilePath -> Ptr Found -> IO OpenFile
openFile real found = do
  state <- stateOf found
  number <- #{peek entry, number} found
  pure
    OpenFile
      { openFilePath = real
      , openFileIdentity = FileIdentity 0 number
      , openFileState = state
      , openFileStateNow = stateAt real
      }

-- The path belongs to this file while it is open.
stateAt :: FilePath -> IO FileState
stateAt path = withFound path $ \result found ->
  if result == #{const ENTRY_FOUND}
    then stateOf found
    else failureOf found >>= \number ->
      ioError (IOError Nothing OtherError "open" (windowsError number) Nothing (Just path))

-- | The first names in a directory, at most this many, in no particular order. @.@ and @..@ may be among them. The path
-- is that of a 'Directory'.
directoryNames :: Int -> FilePath -> IO [ByteString]
directoryNames count directory = map (encodeUtf8 . Text.pack) . take count <$> listDirectory directory

-- | The object of a name in a directory. On Windows it must be opened to find out.
glimpse :: FilePath -> ByteString -> IO Glimpse
glimpse _ _ = pure MustBeLookedUp

-- Looks an entry up in C, and closes it afterwards.
withFound :: FilePath -> (Int32 -> Ptr Found -> IO a) -> IO a
withFound path use = allocaBytes #{size entry} $ \found ->
  bracket (withCWString path (`c_open` found)) (closeFound found) (`use` found)
  where
    closeFound found result =
      if result == #{const ENTRY_FOUND} then #{peek entry, handle} found >>= c_close else pure ()

kindOf :: Ptr Found -> IO Int32
kindOf = #{peek entry, kind}

failureOf :: Ptr Found -> IO Word32
failureOf = #{peek entry, error}

stateOf :: Ptr Found -> IO FileState
stateOf found = do
  size <- #{peek entry, size} found
  modified <- #{peek entry, modified_100_ns} found :: IO Int64
  let time = saturated (100 * toInteger modified)
  pure (FileState size time time)

pathOf :: Ptr Found -> IO (Either Word32 FilePath)
pathOf found = allocaArray #{const ENTRY_PATH_MAX} $ \path -> do
  length' <- c_path found path
  if length' == 0 then Left <$> failureOf found else Right <$> peekCWStringLen (path, fromIntegral length')

-- safe: a network file system may take long, and during an unsafe call nothing else would run on this capability.
foreign import ccall safe "entry_open"
  c_open :: CWString -> Ptr Found -> IO Int32

foreign import ccall safe "entry_path"
  c_path :: Ptr Found -> Ptr CWchar -> IO Word32

foreign import ccall unsafe "entry_close"
  c_close :: Int64 -> IO ()
