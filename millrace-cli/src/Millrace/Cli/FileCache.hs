-- | Small files in memory. Knows nothing of HTTP but the paths that it is asked for.
--
-- Finding a file costs six system calls, which is most of what a small one costs. So the representations of a small
-- file are kept for a short time, after which its path is looked up again: what is served is never older than that, and
-- was found by the same checks as anything else. What is held is bytes, not names or descriptors, so whatever becomes of
-- the path meanwhile, a cached answer cannot lead anywhere else.
module Millrace.Cli.FileCache
  ( Cache
  , newCache
  , cachedSizeMax
  , recall
  , remember
  ) where

import Data.ByteString (ByteString)
import Data.IORef
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)

-- | Values for paths, each for a limited time.
--
-- @since 0.1.0
data Cache a = Cache
  { cacheLifetimeNanoseconds :: Word64
  , cacheContent :: IORef (Content a)
  }

-- How many bytes the values take together, and the values.
data Content a = Content !Int !(Map ByteString (Entry a))

data Entry a = Entry
  { entryBytes :: !Int
  , entryUntil :: !Word64
  , entryValue :: a
  }

-- | An empty cache whose values are valid for so many microseconds.
--
-- @since 0.1.0
newCache :: Int -> IO (Cache a)
newCache lifetimeMicros = Cache (1000 * fromIntegral lifetimeMicros) <$> newIORef (Content 0 Map.empty)

-- | Longer files, in bytes, are not to be kept: for them, sending costs more than finding.
--
-- @since 0.1.0
cachedSizeMax :: Integer
cachedSizeMax = 65536

-- | What was remembered for a path, if it is still valid. O(log number of entries), without a lock.
--
-- @since 0.1.0
recall :: Cache a -> ByteString -> IO (Maybe a)
recall cache path = do
  Content _ entries <- readIORef (cacheContent cache)
  case Map.lookup path entries of
    Nothing -> pure Nothing
    Just entry -> do
      now <- getMonotonicTimeNSec
      pure (if now < entryUntil entry then Just (entryValue entry) else Nothing)

-- | Remembers a value that takes so many bytes of memory. When there would be too many, everything else is forgotten:
-- what is asked for often is soon back, and there is no order to be kept up on every request.
--
-- @since 0.1.0
remember :: Cache a -> ByteString -> Int -> a -> IO ()
remember cache path bytes value = do
  now <- getMonotonicTimeNSec
  let entry = Entry bytes (now + cacheLifetimeNanoseconds cache) value
  atomicModifyIORef' (cacheContent cache) $ \content -> (insert path entry content, ())

insert :: ByteString -> Entry a -> Content a -> Content a
insert path entry (Content bytes entries)
  | total <= contentBytesMax = Content total (Map.insert path entry entries)
  | otherwise = Content (entryBytes entry) (Map.singleton path entry)
  where
    total = bytes + entryBytes entry - maybe 0 entryBytes (Map.lookup path entries)

contentBytesMax :: Int
contentBytesMax = 33554432
