-- | Which of a file's variants a client gets. Must not know: servers, paths.
module Millrace.Cli.Choice (Choice (..), choose, codingToMake) where

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
choose request kept = case preferredCoding (requestHeaders request) (mapMaybe variantCoding (toList kept)) of
  Just coding -> AsItIs (fromMaybe plain (find ((== Just coding) . variantCoding) kept))
  Nothing -> maybe (AsItIs plain) Compressed (codingToMake request plain)
  where
    plain = NonEmpty.head kept

-- | The coding in which the client gets what is made of the variant without a coding, if no stored one suits it. Nothing is made for a
-- range: it may have other bytes the next time.
--
-- @since 0.1.0
codingToMake :: Request -> Variant -> Maybe Coding
codingToMake request plain
  | variantAlternatives plain == MadeForClient && not (any ((== hRange) . fst) fields) = preferredCoding fields compressionCodings
  | otherwise = Nothing
  where
    fields = requestHeaders request
