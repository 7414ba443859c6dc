-- Must not know: sockets.

-- | JSON as a parameter and as a column.
--
-- Both instances are beside the type: to one in another module, Haddock makes a link that leads nowhere.
module Millrace.Postgresql.Internal.Json (Json (..)) where

import Data.ByteString (ByteString)
import Millrace.Postgresql.Parameter (Format (..), Parameter (..), bytesOf)
import Millrace.Postgresql.Row (Column (..), jsonDecoder)

-- | JSON, for columns of the types @json@ and @jsonb@. It is passed on as it is; the server checks it.
newtype Json = Json {jsonBytes :: ByteString}
  deriving (Eq, Ord, Show)

-- | Of whatever JSON type the statement needs there.
instance Parameter Json where
  encode (Json text) = bytesOf 0 AsText text
  typeOf _ = 0

instance Column Json where
  decoder oid = fmap Json <$> jsonDecoder oid
  expected _ = "JSON"
