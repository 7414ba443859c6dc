{-# LANGUAGE BangPatterns #-}

-- Must not know: sockets.

-- | The type of open files, and the errors of functions on files and paths.
module Millrace.Internal.File
  ( File (..),
    Memory (..),
    checked,
    refuse,
    refusePath,
    pathBytes,
    pathFrom,
    pathDecoder,
    useFile,
  )
where

import Control.Exception (throwIO)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (create)
import Data.ByteString.Unsafe (unsafeIndex, unsafeUseAsCStringLen)
import Data.Char (ord)
import Data.List (isPrefixOf)
import Data.Word (Word8)
import Foreign.C.Error (Errno, eBADF)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (poke)
import GHC.Base (unsafeChr)
import GHC.Foreign (peekCStringLen)
import qualified GHC.Foreign as Encoded
import GHC.IO.Encoding (TextEncoding, getFileSystemEncoding)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.CoreCalls (c_hold, c_release_handle)
import Millrace.Internal.Errors (failure, throwIfFailed)
import Millrace.Internal.Handle (Handle (..), descriptorOf)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | An open file. Close it, because the garbage collector does not.
data File = File !Handle !FilePath !Memory

-- | Whether the system keeps the bytes of the file in its memory.
data Memory
  = ThroughMemory
  | -- | The file was opened to be read and written directly.
    PastMemory
  deriving (Eq)

instance Eq File where
  File a _ _ == File b _ _ = a == b

instance Show File where
  showsPrec _ (File _ path _) = showString "<file: " . showString path . showChar '>'

-- | @checked function file@ passes a result on, or throws an error that names the function, with its module, and the
-- file.
checked :: String -> File -> Either Errno r -> IO r
checked function file = throwIfFailed function (show file)

-- | Throws an error about wrong arguments.
refuse :: String -> File -> String -> IO a
refuse function (File _ path _) = refusePath function path

-- | Throws an error about wrong arguments, for a function on a path.
refusePath :: String -> FilePath -> String -> IO a
refusePath function path why =
  throwIO (mkIOError InvalidArgument function Nothing (Just path) `ioeSetErrorString` why)

-- | A path in the system's own form. A path with a NUL is refused, because it would end there and name another file.
pathBytes :: String -> FilePath -> IO ByteString
pathBytes function path = do
  encoding <- getFileSystemEncoding
  case asciiLength 0 path of
    Just size | extendsAscii encoding -> create size (`pokeAscii` path)
    _ -> do
      when ('\NUL' `elem` path) $ refusePath function path "a path has no NUL"
      Encoded.withCStringLen encoding path ByteString.packCStringLen

-- The length of a path in ASCII without NULs.
asciiLength :: Int -> FilePath -> Maybe Int
asciiLength !size path = case path of
  [] -> Just size
  char : rest
    | char > '\NUL' && char < '\x80' -> asciiLength (size + 1) rest
    | otherwise -> Nothing

pokeAscii :: Ptr Word8 -> FilePath -> IO ()
pokeAscii !to path = case path of
  [] -> return ()
  char : rest -> poke to (fromIntegral (ord char)) >> pokeAscii (to `plusPtr` 1) rest

-- | The path of these bytes, which are in the system's own form: the inverse of 'pathBytes'.
pathFrom :: ByteString -> IO FilePath
pathFrom bytes = pathDecoder >>= ($ bytes)

-- | Returns a function like 'pathFrom' for many paths.
pathDecoder :: IO (ByteString -> IO FilePath)
pathDecoder = do
  encoding <- getFileSystemEncoding
  let decoded bytes = unsafeUseAsCStringLen bytes (peekCStringLen encoding)
      quickly bytes = maybe (decoded bytes) return (asciiOf bytes)
  return (if extendsAscii encoding then quickly else decoded)

-- Names in ASCII, as most are, need no encoder or decoder, whose buffers cost more than such a name.
extendsAscii :: TextEncoding -> Bool
extendsAscii encoding = case show encoding of
  'U' : 'T' : 'F' : '-' : '8' : _ -> True
  other -> any (`isPrefixOf` other) ["ASCII", "ANSI_X3.4", "US-ASCII", "ISO-8859-", "ISO8859-"]

asciiOf :: ByteString -> Maybe FilePath
asciiOf bytes = go (ByteString.length bytes - 1) []
  where
    go at found
      | at < 0 = Just found
      | byte < 0x80 = go (at - 1) (unsafeChr (fromIntegral byte) : found)
      | otherwise = Nothing
      where
        byte = unsafeIndex bytes at

-- | @useFile function file use@ keeps the file open until the second argument of @use@ has been run, which must happen
-- once. The first one is the descriptor's number. Throws for a closed file. Call it masked.
useFile :: String -> File -> (CInt -> IO () -> IO a) -> IO a
useFile function file@(File handle@(Handle number) _ _) use = do
  refusal <- c_hold number
  when (refusal < 0) $ throwIO (failure function (show file) eBADF)
  use (descriptorOf handle) (c_release_handle number)
