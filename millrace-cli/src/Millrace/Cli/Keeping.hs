-- | What a cache keeps of a file: its variants, in memory or open. Must not know: servers, requests.
module Millrace.Cli.Keeping (keepAll, VariantOf) where

import Control.Exception (finally, try, uninterruptibleMask_)
import Data.ByteString (ByteString)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (isJust)
import GHC.IO.Exception (IOException)
import Millrace.Cli.CodedFile
import Millrace.Cli.ContentCoding (Coding, codings)
import Millrace.Cli.Entry
import Millrace.Cli.FileCache
import Millrace.Cli.Root
import Millrace.Cli.Variant
import Millrace.Http.Shared (share)

-- | Makes a variant of a file in this coding.
--
-- @since 0.1.0
type VariantOf = Alternatives -> Maybe Coding -> OpenFile -> Variant

-- | All variants of a file, beginning with the one without a coding. 'Nothing' if one of them cannot be kept. Must be called with
-- asynchronous exceptions masked.
--
-- @since 0.1.0
keepAll :: Root -> [ByteString] -> VariantOf -> OpenFile -> IO (Maybe Kept)
keepAll root names variantOf file = do
  coded <- mapM keepCoded codings
  plain <- keepOne root names (variantOf (alternativesOf (any isKept coded)) Nothing) (\found -> openFileIdentity found == openFileIdentity file)
  let outcomes = plain : coded
      close = sequence_ [closing | Keeping _ closing <- outcomes]
  case plain of
    Keeping first _ | not (any isRefused outcomes) -> do
      let found = first :| [variant | Keeping variant _ <- coded]
      if all (isJust . heldBytes) found then pure (Just (InMemory found)) else Just . Open <$> share close found
    _ -> Nothing <$ close
  where
    keepCoded coding = keepOne root (codedNames names coding) (variantOf StoredForClient (Just coding)) (`isOfSameState` file)

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

-- Keeps one file, if it is the wanted one. A file is refused if it changes meanwhile, cannot be looked up, or is too large. Must be
-- called with asynchronous exceptions masked.
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
