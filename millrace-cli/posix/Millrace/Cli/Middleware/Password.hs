-- Must not know: files.

-- | Passwords and their hashes, as crypt(3) makes them.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Middleware.Password
  ( isKnownHash,
    matchesHash,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Foreign.C (CBool (..), CString)

-- | Whether the system knows this kind of hash and calls it safe: yescrypt, bcrypt, SHA-512 and others.
isKnownHash :: ByteString -> IO Bool
isKnownHash hash = (/= 0) <$> ByteString.useAsCString hash c_isKnown

-- | Whether a hash is that of a password. Takes a thread of the system for as long as the kind of hash is meant to
-- take, often a tenth of a second.
matchesHash :: ByteString -> ByteString -> IO Bool
matchesHash password hash
  | ByteString.elem 0 password = pure False
  | otherwise = (/= 0) <$> ByteString.useAsCString password (ByteString.useAsCString hash . c_matches)

foreign import ccall safe "password_matches" c_matches :: CString -> CString -> IO CBool

foreign import ccall unsafe "password_hash_is_known" c_isKnown :: CString -> IO CBool
