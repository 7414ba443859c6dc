-- Must not know: files.

-- | Windows has no crypt(3), so no hash is known.
--
-- For other systems @posix\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Middleware.Password
  ( isKnownHash,
    matchesHash,
  )
where

import Data.ByteString (ByteString)

-- | False.
isKnownHash :: ByteString -> IO Bool
isKnownHash _ = pure False

-- | False.
matchesHash :: ByteString -> ByteString -> IO Bool
matchesHash _ _ = pure False
