-- | What paths are answered with: small files in memory, large files held open. Must not know: WAI, sockets.
--
-- Finding a file costs a dozen system calls, which is most of what a small answer costs. So the variants of a file are kept for
-- a short time, and then its path is looked up again. The checks of that look-up hold for what is served, as they were at most
-- so long ago. The cache holds bytes and descriptors, not names. So a cached answer cannot lead anywhere else, whatever becomes
-- of the path meanwhile.
module Millrace.Cli.FileCache
  ( FileCache,
    newFileCache,
    Kept (..),
    variants,
    letGo,
    withCached,
    remember,
    memoryBytesMax,
  )
where

import Control.Exception (bracket, mask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.List.NonEmpty (NonEmpty)
import Millrace.Cli.Variant (Variant, heldBytes)
import Millrace.Http.Expiring (Expiring, newExpiring, recall)
import qualified Millrace.Http.Expiring as Expiring
import Millrace.Http.Shared

-- | The variants of files, by the paths of requests.
--
-- @since 0.1.0
newtype FileCache = FileCache (Expiring ByteString Kept)

-- | The variants of one file: first the one without a coding, then the others.
--
-- @since 0.1.0
data Kept
  = -- | All of them in memory.
    InMemory (NonEmpty Variant)
  | -- | Some of them in open files, which are closed when their last user has released them.
    Open (Shared (NonEmpty Variant))

-- | An empty cache. Files are looked up again after so many microseconds. The cache takes at most 32 MiB and 128 descriptors.
--
-- @since 0.1.0
newFileCache :: Int -> IO FileCache
newFileCache lifetimeMicros = FileCache <$> newExpiring lifetimeMicros weightMax letGo

-- | Says that the caller does not need the variants any more.
--
-- @since 0.1.0
letGo :: Kept -> IO ()
letGo (InMemory _) = pure ()
letGo (Open files) = release files

-- | The variants that were kept.
--
-- @since 0.1.0
variants :: Kept -> NonEmpty Variant
variants (InMemory held) = held
variants (Open files) = sharedValue files

-- | Files with more bytes than this are held open instead of in memory.
--
-- @since 0.1.0
memoryBytesMax :: Integer
memoryBytesMax = 65536

-- | Hands over the variants that were remembered for a path, if their time is not over. Files stay open until the action ends,
-- normally or not. O(log number of entries).
--
-- @since 0.1.0
withCached :: FileCache -> ByteString -> (Maybe (NonEmpty Variant) -> IO a) -> IO a
withCached (FileCache entries) path use = do
  found <- recall entries path
  case found of
    Nothing -> use Nothing
    Just (InMemory held) -> use (Just held)
    Just (Open files) -> bracket (retain files) (\alive -> when alive (release files)) $ \alive ->
      use (if alive then Just (sharedValue files) else Nothing)

-- | Remembers variants. The caller must still release them with 'letGo'. If the cache would become too large, it forgets everything else.
--
-- @since 0.1.0
remember :: FileCache -> ByteString -> Kept -> IO ()
remember (FileCache entries) path kept = mask_ $ do
  alive <- case kept of
    InMemory _ -> pure True
    Open files -> retain files
  when alive (Expiring.remember entries path (sum (fmap weight (variants kept))) kept)

-- A variant that is not in memory holds a descriptor.
weight :: Variant -> Int
weight = maybe (weightMax `quot` 128) (max 1) . heldBytes

weightMax :: Int
weightMax = 33554432
