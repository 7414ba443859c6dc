{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | The representations of a file: as it is, stored in a content coding beside it (@NAME.br@), or compressed by the
-- server; and which one a client gets. "Millrace.Http.Representation" decides about conditional requests and ranges.
module Millrace.Cli.Files.Representation
  ( Variant,
    Described (..),
    Coded (..),
    Alternatives (..),
    variantCoding,
    variantAlternatives,
    variantState,
    variantSource,
    VariantSource (..),
    VariantKey,
    variantKey,
    inCoding,
    heldBytes,
    isCurrent,
    fromFile,
    hold,
    respondWithVariant,
    withCoded,
    alternativesOf,
    codedNames,
    isOfSameState,
    VariantChoice (..),
    choose,
    codingToMake,
  )
where

import Control.Exception (IOException, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString, char7, toLazyByteString, word64Hex)
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (find, toList)
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (fromMaybe, mapMaybe, maybeToList)
import Millrace.Cli.Base.Refusal (noSniffing)
import Millrace.Cli.Files.Compression (compressionCodings)
import Millrace.Cli.Files.Content (wholeContent)
import Millrace.Cli.Files.ContentCoding (Coding (..), preferredCoding)
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.Root
import Millrace.Http.Date (Seconds)
import Millrace.Http.EntityTag (EntityTag (..), Strength (..))
import Millrace.Http.Precondition (Validators (..), modificationTime)
import Millrace.Http.Representation
import Network.HTTP.Types
import Network.HTTP.Types.Header (hVary)
import Network.Wai

-- | A file in one content coding.
--
-- The fields are strict. A compressed copy stays for long, and what is not computed in it would hold the variant and
-- the file that it was made of.
data Variant = Variant
  { -- | The coding that was chosen for the client, if any.
    variantCoding :: !(Maybe Coding),
    -- | Whether other clients may get other bytes.
    variantAlternatives :: !Alternatives,
    variantValidators :: !Validators,
    -- | Of a 200 response.
    variantFields :: !ResponseHeaders,
    variantIdentity :: !FileIdentity,
    -- | Of the file when it was opened.
    variantState :: !FileState,
    -- | The bytes.
    variantSource :: !VariantSource,
    variantRepresentation :: !Representation
  }

-- | The bytes of a variant: in memory, or in an open file.
data VariantSource
  = FromFile !OpenFile
  | FromMemory !ByteString

-- | Fields that describe a file, except those about its coding.
data Described = Described
  { describedType :: ByteString,
    -- | Fields of a 200, a 206 and a 304, such as Cache-Control.
    describedFields :: ResponseHeaders,
    -- | The fields of requests, besides Accept-Encoding, on which it depends that this file is the answer.
    describedVary :: [ByteString]
  }

-- | The codings of a file's content.
data Coded = Coded
  { -- | The coding that the file has for all clients.
    codedAlways :: Maybe ByteString,
    -- | The coding that was chosen for the client, applied after the other one.
    codedByChoice :: Maybe Coding,
    codedAlternatives :: Alternatives
  }

-- | Whether a client that accepts other codings may get other bytes.
data Alternatives
  = SameForAll
  | -- | There are files in other codings.
    StoredForClient
  | -- | The server may compress the file, if there is no file in a coding that the client accepts.
    MadeForClient
  deriving (Eq, Show)

-- | The number of bytes that a variant holds in memory. 'Nothing' if its bytes are in an open file.
heldBytes :: Variant -> Maybe Int
heldBytes variant = case variantSource variant of
  FromFile _ -> Nothing
  FromMemory bytes -> Just (ByteString.length bytes)

-- | Whether the file is still the one from which the variant was made. Another program may write to a file that is held
-- open, and a file of a network file system may be gone. Bytes in memory stay current.
isCurrent :: Variant -> IO Bool
isCurrent variant = case variantSource variant of
  FromMemory _ -> pure True
  FromFile file -> either unknown isSame <$> try (openFileStateNow file)
  where
    isSame now =
      stateSize now == stateSize (variantState variant) && stateModified now == stateModified (variantState variant)
    unknown :: IOException -> Bool
    unknown _ = False

-- | @fromFile now described coded file@: an open file as it is at this time, which must be that of the clock behind the
-- Date field. That clock is a little late, and a time in the future must not be announced as Last-Modified (RFC 9110
-- section 8.8.2.1). The variant may be used only while the file is held open.
--
-- The entity tag is made of the time of change, to the nanosecond, the size and the coding. So it is the same on every
-- machine that has a copy of the file with the same time. Another file of the same size and time has the same tag: a
-- tool that sets the times of files must not give two states of one file the same time. Some tools give all files the
-- same time ('modificationTime'); such a file has neither tag nor date.
--
-- The tag of a file that was changed less than two seconds ago is weak. Such a file may change again without a new time
-- of change: some file systems keep whole seconds, and the kernel's clock for this is coarse.
fromFile :: Seconds -> Described -> Coded -> OpenFile -> Variant
fromFile now described (Coded always chosen alternatives) file =
  Variant
    { variantCoding = chosen,
      variantAlternatives = alternatives,
      variantValidators = validators,
      variantFields = fields,
      variantIdentity = openFileIdentity file,
      variantState = openFileState file,
      variantSource = FromFile file,
      variantRepresentation = fileRepresentation validators fields (openFilePath file) (toInteger size)
    }
  where
    fields =
      [(hContentType, describedType described), noSniffing]
        ++ [(hContentEncoding, ByteString.intercalate ", " applied) | not (null applied)]
        ++ [(hVary, ByteString.intercalate ", " varying) | not (null varying)]
        ++ describedFields described
    varying = ["Accept-Encoding" | alternatives /= SameForAll] ++ describedVary described
    applied = maybeToList always ++ map codingName (maybeToList chosen)
    validators = Validators (tag <$ lastModified) lastModified isSettled
    !(FileState size modified _) = openFileState file
    !isSettled = modified < 1000000000 * now - 2000000000
    !lastModified = min now <$> modificationTime (modified `div` 1000000000)
    tag = EntityTag (if isSettled then Strong else Weak) tagText
    tagText =
      Lazy.toStrict . toLazyByteString $
        word64Hex (fromIntegral modified)
          <> char7 '-'
          <> word64Hex (fromIntegral size)
          <> foldMap ((char7 '-' <>) . byteString . codingName) chosen

-- | Reads the bytes of a variant into memory, where they stay valid. 'Nothing' if the file has changed meanwhile.
hold :: Variant -> IO (Maybe Variant)
hold variant = case variantSource variant of
  FromMemory _ -> pure (Just variant)
  FromFile file -> fmap holding <$> wholeContent file
  where
    holding bytes =
      variant
        { variantSource = FromMemory bytes,
          variantRepresentation = bytesRepresentation (variantValidators variant) (variantFields variant) bytes
        }

-- | The inputs of a compressed variant: the coding, and the identity, state and fields of the variant without one.
data VariantKey = VariantKey !FileIdentity !FileState !Coding !ResponseHeaders
  deriving (Eq, Ord)

-- | The key of what is made in this coding of a variant without one. O(1).
variantKey :: Coding -> Variant -> VariantKey
variantKey coding plain = VariantKey (variantIdentity plain) (variantState plain) coding (variantFields plain)

-- | @inCoding coding bytes plain@: the variant with these bytes, which are those of @plain@ in a coding. Its entity tag
-- is weak: with another version of the library the bytes may be others. So no client puts parts of both together.
inCoding :: Coding -> ByteString -> Variant -> Variant
inCoding coding bytes plain =
  plain
    { variantCoding = Just coding,
      variantValidators = validators,
      variantFields = fields,
      variantSource = FromMemory bytes,
      variantRepresentation = bytesRepresentation validators fields bytes
    }
  where
    fields = (hContentEncoding, codingName coding) : variantFields plain
    !(Validators !plainTag !modified !isSettled) = variantValidators plain
    validators = Validators (tagged <$> plainTag) modified isSettled
    tagged (EntityTag _ text) = EntityTag Weak (text <> "+" <> codingName coding)

-- | Answers a GET or HEAD request.
respondWithVariant :: Variant -> Application
respondWithVariant = respondWith . variantRepresentation

------------------------------------------------------------------------------------------------------------------------
-- Files in a coding

-- | Hands over the file in this coding, if there is one beside a file with these names.
withCoded :: Root -> [ByteString] -> OpenFile -> Coding -> (OpenFile -> IO a) -> IO (Maybe a)
withCoded root names file coding use =
  withEntry root (codedNames names coding) $ \case
    Right (File found) | found `isOfSameState` file -> Just <$> use found
    _ -> pure Nothing

-- | Whether clients get a file that has stored variants, or has none, in other forms.
alternativesOf :: Bool -> Alternatives
alternativesOf hasOthers = if hasOthers then StoredForClient else SameForAll

-- | The names of a file in a coding.
codedNames :: [ByteString] -> Coding -> [ByteString]
codedNames names coding = init names ++ [last names <> codingExtension coding]

-- | A coded file that is older belongs to an earlier state of the file. Two seconds are allowed, because both may have
-- been copied without their times: cp -r copies in the order of the directory, and takes a second for some thousand
-- files. Some compressors (brotli 1.0.9, pigz) copy whole seconds of the file's time, and some archives (zip) even
-- seconds.
isOfSameState :: OpenFile -> OpenFile -> Bool
isOfSameState found file = modified found + 2000000000 >= modified file
  where
    modified = toInteger . stateModified . openFileState

------------------------------------------------------------------------------------------------------------------------
-- The choice

-- | The variant that a client gets.
data VariantChoice
  = AsItIs Variant
  | -- | The variant without a coding, compressed.
    Compressed Coding

-- | The choice among a file's variants, and what can be made of the one without a coding.
choose :: Request -> NonEmpty Variant -> VariantChoice
choose request kept = case preferredCoding (requestHeaders request) (mapMaybe variantCoding (toList kept)) of
  Just coding -> AsItIs (fromMaybe plain (find ((== Just coding) . variantCoding) kept))
  Nothing -> maybe (AsItIs plain) Compressed (codingToMake request plain)
  where
    plain = NonEmpty.head kept

-- | The coding in which the client gets what is made of the variant without a coding, if no stored one suits it.
-- Nothing is made for a range: it may have other bytes the next time.
codingToMake :: Request -> Variant -> Maybe Coding
codingToMake request plain
  | variantAlternatives plain == MadeForClient && not (any ((== hRange) . fst) fields) =
    preferredCoding fields compressionCodings
  | otherwise = Nothing
  where
    fields = requestHeaders request
