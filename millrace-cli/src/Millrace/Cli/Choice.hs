-- | Which of a file's variants a client gets. Must not know: servers, paths.
module Millrace.Cli.Choice (Choice (..), CodingChoice (..), choose, chooseCoding) where

import Data.Foldable (find, toList)
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (fromMaybe, mapMaybe)
import Millrace.Cli.Compression (compressionCodings)
import Millrace.Cli.ContentCoding (Coding, preferredCoding)
import Millrace.Cli.Variant
import Network.HTTP.Types.Header (hRange)
import Network.Wai (Request, requestHeaders)

-- | What a client gets.
--
-- @since 0.1.0
data Choice
  = AsItIs Variant
  | -- | The variant without a coding, compressed.
    Compressed Coding

-- | The choice among a file's variants, and what can be made of the one without a coding.
--
-- @since 0.1.0
choose :: Request -> NonEmpty Variant -> Choice
choose request kept = case chooseCoding request plain (mapMaybe variantCoding (toList kept)) of
  Plain -> AsItIs plain
  Stored coding -> AsItIs (fromMaybe plain (find ((== Just coding) . variantCoding) kept))
  ToCompress coding -> Compressed coding
  where
    plain = NonEmpty.head kept

-- | The same as a coding.
--
-- @since 0.1.0
data CodingChoice
  = Plain
  | Stored Coding
  | ToCompress Coding

-- | The choice between a variant without a coding, files with these codings, and what can be made of the first one. Nothing is made
-- for a range: it may have other bytes the next time.
--
-- @since 0.1.0
chooseCoding :: Request -> Variant -> [Coding] -> CodingChoice
chooseCoding request plain stored = case preferredCoding fields stored of
  Just coding -> Stored coding
  Nothing
    | variantAlternatives plain == MadeForClient && not (any ((== hRange) . fst) fields) -> maybe Plain ToCompress (preferredCoding fields compressionCodings)
    | otherwise -> Plain
  where
    fields = requestHeaders request
