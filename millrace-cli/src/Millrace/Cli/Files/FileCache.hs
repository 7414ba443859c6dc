-- Must not know: servers, requests.

-- | A cache of files, so that they are not looked up, opened and read for each request. It holds their representations,
-- in memory or in open files.
module Millrace.Cli.Files.FileCache
  ( FileCache,
    newFileCache,
    Kept (..),
    variants,
    releaseKept,
    withCached,
    remember,
    memoryBytesMax,
    keepAll,
    VariantOf,
  )
where

import Control.Exception (bracket, finally, mask_, try, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (isJust)
import GHC.IO.Exception (IOException)
import Millrace.Cli.Files.ContentCoding (Coding, codings)
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.Representation
import Millrace.Cli.Files.Root
import Millrace.Http.Expiring hiding (remember)
import qualified Millrace.Http.Expiring as Expiring

-- | The variants of files, by the paths of requests.
newtype FileCache = FileCache (Expiring ByteString Kept)

-- | The variants of one file: first the one without a coding, then the others.
data Kept
  = -- | All of them in memory.
    InMemory (NonEmpty Variant)
  | -- | Some of them in open files, which are closed when their last user has released them.
    Open (Shared (NonEmpty Variant))

-- | An empty cache. Files are looked up again after this many microseconds. The cache takes at most 32 MiB and 128
-- descriptors.
newFileCache :: Int -> IO FileCache
newFileCache lifetimeMicros = FileCache <$> newExpiring lifetimeMicros weightMax releaseKept

-- | Releases variants that the caller does not need any more.
releaseKept :: Kept -> IO ()
releaseKept (InMemory _) = pure ()
releaseKept (Open files) = release files

-- | The variants that were kept.
variants :: Kept -> NonEmpty Variant
variants (InMemory held) = held
variants (Open files) = sharedValue files

-- | Files with more bytes than this are held open instead of in memory.
memoryBytesMax :: Integer
memoryBytesMax = 65536

-- | Runs an action with the cached variants of a path, if their time is not over. Files stay open until the
-- action ends, normally or not. O(log number of entries).
withCached :: FileCache -> ByteString -> (Maybe (NonEmpty Variant) -> IO a) -> IO a
withCached (FileCache entries) path use = do
  found <- recall entries path
  case found of
    Nothing -> use Nothing
    Just (InMemory held) -> use (Just held)
    Just (Open files) -> bracket (retain files) (\alive -> when alive (release files)) $ \alive ->
      use (if alive then Just (sharedValue files) else Nothing)

-- | Adds variants to the cache. The caller must still release them with 'releaseKept'. If the cache would become too
-- large, it forgets everything else.
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

------------------------------------------------------------------------------------------------------------------------
-- Filling it

-- | Makes a variant of a file in this coding.
type VariantOf = Alternatives -> Maybe Coding -> OpenFile -> Variant

-- | All variants of a file, beginning with the one without a coding. 'Nothing' if one of them cannot be kept. Must be
-- called with asynchronous exceptions masked.
keepAll :: Root -> [ByteString] -> VariantOf -> OpenFile -> IO (Maybe Kept)
keepAll root names variantOf file = do
  coded <- mapM keepCoded codings
  plain <-
    keepOne
      root
      names
      (variantOf (alternativesOf (any isKept coded)) Nothing)
      (\found -> openFileIdentity found == openFileIdentity file)
  let outcomes = plain : coded
      close = sequence_ [closing | Keeping _ closing <- outcomes]
  case plain of
    Keeping first _ | not (any isRefused outcomes) -> do
      let found = first :| [variant | Keeping variant _ <- coded]
      if all (isJust . heldBytes) found then pure (Just (InMemory found)) else Just . Open <$> share close found
    _ -> Nothing <$ close
  where
    keepCoded coding =
      keepOne root (codedNames names coding) (variantOf StoredForClient (Just coding)) (`isOfSameState` file)

-- The outcome of keeping a file, in memory or open. A file that is kept comes with the action that closes it.
data Keeping
  = Keeping Variant (IO ())
  | NotThere
  | Refused

isKept, isRefused :: Keeping -> Bool
isKept outcome = case outcome of
  Keeping _ _ -> True
  _ -> False
isRefused outcome = case outcome of
  Refused -> True
  _ -> False

-- Keeps one file, if it is the wanted one. A file is refused if it changes meanwhile, cannot be looked up, or is too
-- large. Must be called with asynchronous exceptions masked.
keepOne :: Root -> [ByteString] -> (OpenFile -> Variant) -> (OpenFile -> Bool) -> IO Keeping
keepOne root names variantOf isWanted = do
  (entry, close) <- openEntry root names
  case entry of
    Right (File found)
      | not (isWanted found) -> NotThere <$ close
      | toInteger (stateSize (openFileState found)) <= memoryBytesMax -> inMemory found `finally` close
      | mayStayOpen -> pure (Keeping (variantOf found) close)
      | otherwise -> Refused <$ close
    Left problem | not (isAbsence problem) -> Refused <$ close
    _ -> NotThere <$ close
  where
    inMemory found = either unreadable held <$> try (uninterruptibleMask_ (hold (variantOf found)))
    held = maybe Refused (`Keeping` pure ())
    unreadable :: IOException -> Keeping
    unreadable _ = Refused
    isAbsence problem = case problem of
      Missing -> True
      Unreadable -> True
      _ -> False
