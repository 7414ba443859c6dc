{-# LANGUAGE OverloadedStrings #-}

-- | Asks clients for a name and a password (RFC 7617). Must not know: servers, files.
module Millrace.Cli.BasicAuthentication
  ( Users,
    readUsers,
    asking,
    sameBytes,
  )
where

import Control.Concurrent.MVar (newMVar, withMVar)
import Control.Monad (guard, unless)
import Data.Bits (xor, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Base64 as Base64
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import qualified Data.List as List
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Millrace.Cli.Password
import Millrace.Cli.Refusal
import Network.HTTP.Types
import Network.HTTP.Types.Header (hWWWAuthenticate)
import Network.Wai

-- | Names, and the hashes of their passwords.
--
-- @since 0.1.0
newtype Users = Users (Map ByteString ByteString)

-- | Reads the lines @NAME:HASH@ that htpasswd(1) writes. Empty lines and those that begin with # do not count. 'Left' says what is wrong,
-- and in which line.
--
-- @since 0.1.0
readUsers :: ByteString -> IO (Either String Users)
readUsers content = finished <$> mapM user [(number, line) | (number, line) <- zip [1 :: Int ..] (map withoutReturn (Char8.lines content)), not (Char8.null line), Char8.head line /= '#']
  where
    withoutReturn line = fromMaybe line (Char8.stripSuffix "\r" line)
    user (number, line) = do
      let (name, rest) = Char8.break (== ':') line
          hash = Char8.takeWhile (/= ':') (Char8.drop 1 rest)
      known <- isKnownHash hash
      pure $
        if Char8.null name || Char8.null rest
          then Left ("line " <> show number <> " is not NAME:HASH")
          else if known then Right (name, hash) else Left ("line " <> show number <> ": the hash of " <> show name <> " is of no kind that is known and safe (htpasswd -B, mkpasswd)")
    finished lines' = do
      found <- sequence lines'
      unless (Map.size (Map.fromList found) == length found) (Left "a name is there twice")
      if null found then Left "there is nobody in it" else Right (Users (Map.fromList found))

-- | Only clients that know the password of a user get to the application; the others get a 401 that names the realm. A name that does not
-- exist takes as long as a wrong password. One password is verified at a time, in a thread of the system. What was right is remembered
-- as long as the application is there, so that it is verified once; it is compared in constant time.
--
-- @since 0.1.0
asking :: ByteString -> Users -> IO Middleware
asking realm (Users users) = do
  remembered <- newIORef Map.empty
  turn <- newMVar ()
  let isRight (name, password) = do
        known <- Map.lookup name <$> readIORef remembered
        if maybe False (sameBytes password) known then pure True else withMVar turn (const (verify name password))
      verify name password = do
        matches <- matchesHash password (fromMaybe (another name) (Map.lookup name users))
        let isUser = matches && Map.member name users
        if isUser then True <$ atomicModifyIORef' remembered (\before -> (Map.insert name password before, ())) else pure False
  pure $ \application request respond -> do
    let given = credentials =<< lookup hAuthorization (requestHeaders request)
    right <- maybe (pure False) isRight given
    if right then application request respond else respond (refusal unauthorized401 [(hWWWAuthenticate, challenge)])
  where
    -- A hash to compare with when there is no such user. Hashes of different kinds take different times, so the one of some user is
    -- taken, and always the same for a name.
    another name = snd (Map.elemAt (fromIntegral (spread name `mod` fromIntegral (Map.size users))) users)
    spread = ByteString.foldl' (\sum' byte -> (sum' `xor` fromIntegral byte) * 1099511628211) (14695981039346656037 :: Word64)
    challenge = "Basic realm=\"" <> Char8.concatMap escaped realm <> "\", charset=\"UTF-8\""
    escaped letter = if letter == '"' || letter == '\\' then Char8.pack ['\\', letter] else Char8.singleton letter

credentials :: ByteString -> Maybe (ByteString, ByteString)
credentials value = do
  let (scheme, rest) = Char8.break (== ' ') value
  guard (CI.mk scheme == "basic")
  decoded <- either (const Nothing) Just (Base64.decode (Char8.dropWhile (== ' ') rest))
  let (name, password) = Char8.break (== ':') decoded
  guard (not (Char8.null password))
  pure (name, Char8.drop 1 password)

-- | Whether two passwords are the same. The time depends on their lengths only, and not on where they differ.
--
-- >>> sameBytes "secret" "secres"
-- False
--
-- @since 0.1.0
sameBytes :: ByteString -> ByteString -> Bool
sameBytes one other = ByteString.length one == ByteString.length other && List.foldl' (.|.) 0 (ByteString.zipWith xor one other) == 0
