-- | What paths are answered with: small files in memory, large ones held open. Must not know: WAI, sockets.
--
-- Finding a file costs a dozen system calls, which is most of what a small one costs. So the representations of a file are
-- kept for a short time, after which its path is looked up again: what is served was found by the same checks as anything
-- else, not longer ago than that. What is held is bytes and descriptors, not names: whatever becomes of the path
-- meanwhile, a cached answer cannot lead anywhere else.
module Millrace.Cli.FileCache
  ( FileCache,
    newFileCache,
    Kept (..),
    representations,
    letGo,
    withCached,
    remember,
    memoryBytesMax,
  )
where

import Control.Exception (bracket, mask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Millrace.Cli.Representation
import Millrace.Http.Expiring (Expiring, newExpiring, recall)
import qualified Millrace.Http.Expiring as Expiring
import Millrace.Http.Shared

-- | What paths are answered with.
--
-- @since 0.1.0
newtype FileCache = FileCache (Expiring ByteString Kept)

-- | The representations of one file, in all its codings.
--
-- @since 0.1.0
data Kept
  = -- | for as long as anybody has them
    InMemory [Representation]
  | -- | some of them in files, for as long as anybody needs them
    Open (Shared [Representation])

-- | An empty cache whose files are looked up again after so many microseconds. It takes at most 32 MiB and 128
-- descriptors.
--
-- @since 0.1.0
newFileCache :: Int -> IO FileCache
newFileCache lifetimeMicros = FileCache <$> newExpiring lifetimeMicros weightMax letGo

-- | The caller does not need it any more.
--
-- @since 0.1.0
letGo :: Kept -> IO ()
letGo (InMemory _) = pure ()
letGo (Open files) = release files

-- | What was kept.
--
-- @since 0.1.0
representations :: Kept -> [Representation]
representations (InMemory held) = held
representations (Open files) = sharedValue files

-- | Longer files, in bytes, are held open instead of in memory.
--
-- @since 0.1.0
memoryBytesMax :: Integer
memoryBytesMax = 65536

-- | Hands over what was remembered for a path, if it is still valid. It stays open until the action ends, normally or not.
-- O(log number of entries).
--
-- @since 0.1.0
withCached :: FileCache -> ByteString -> (Maybe [Representation] -> IO a) -> IO a
withCached (FileCache entries) path use = do
  found <- recall entries path
  case found of
    Nothing -> use Nothing
    Just (InMemory held) -> use (Just held)
    Just (Open files) -> bracket (retain files) (\alive -> when alive (release files)) $ \alive ->
      use (if alive then Just (sharedValue files) else Nothing)

-- | Remembers something, which the caller still has to let go of. When there would be too much, everything else is
-- forgotten.
--
-- @since 0.1.0
remember :: FileCache -> ByteString -> Kept -> IO ()
remember (FileCache entries) path kept = mask_ $ do
  alive <- case kept of
    InMemory _ -> pure True
    Open files -> retain files
  when alive (Expiring.remember entries path (sum (map weight (representations kept))) kept)

-- One that is not in memory holds a descriptor.
weight :: Representation -> Int
weight = maybe (weightMax `quot` 128) (max 1) . heldBytes

weightMax :: Int
weightMax = 33554432
