{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | Asks clients for a name and a password (RFC 7617).
module Millrace.Cli.Middleware.BasicAuthentication
  ( Users,
    readUsers,
    asking,
    waitingMax,
    sameBytes,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar, newMVar, putMVar, readMVar, withMVar)
import Control.Exception (mask_, onException)
import Control.Monad (guard, join, unless)
import Data.Bits (xor, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Base64 as Base64
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import qualified Data.List as List
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Millrace.Cli.Base.Refusal
import Millrace.Cli.Middleware.Password
import Network.HTTP.Types
import Network.HTTP.Types.Header (hRetryAfter, hVary, hWWWAuthenticate)
import Network.Wai

-- | Names, and the hashes of their passwords.
newtype Users = Users (Map ByteString ByteString)

-- | Reads the lines @NAME:HASH@ that htpasswd(1) writes. Empty lines and those that begin with # do not count. 'Left'
-- says what is wrong, and in which line.
readUsers :: ByteString -> IO (Either String Users)
readUsers content =
  finished
    <$> mapM
      user
      [ (number, line)
        | (number, line) <-
            zip [1 :: Int ..] (map withoutReturn (Char8.lines content)),
          not (Char8.null line),
          Char8.head line /= '#'
      ]
  where
    withoutReturn line = fromMaybe line (Char8.stripSuffix "\r" line)
    user (number, line) = do
      let (name, rest) = Char8.break (== ':') line
          hash = Char8.takeWhile (/= ':') (Char8.drop 1 rest)
      known <- isKnownHash hash
      pure $
        if Char8.null name || Char8.null rest
          then Left ("line " <> show number <> " is not NAME:HASH")
          else
            if known
              then Right (name, hash)
              else
                Left
                  ( "line "
                      <> show number
                      <> ": the hash of "
                      <> show name
                      <> " is of no kind that is known and safe (htpasswd -B, mkpasswd)"
                  )
    finished lines' = do
      found <- sequence lines'
      unless (Map.size (Map.fromList found) == length found) (Left "a name is there twice")
      if null found then Left "there is nobody in it" else Right (Users (Map.fromList found))

-- | Only clients that know the password of a user get to the application; the others get a 401 that names the realm. A
-- name that does not exist takes as long as a wrong password. One password is verified at a time, in a thread of the
-- system, and 'waitingMax' others wait; who comes then gets a 503 at once. So a crowd that guesses cannot make a user
-- wait for minutes. Requests with the same name and password share one entry of the queue and its outcome: many may
-- come at once from one user. What was right is remembered as long as the application is there, so that it is verified
-- once; it is compared in constant time.
asking :: ByteString -> Users -> IO Middleware
asking realm (Users users) = do
  remembered <- newIORef Map.empty
  waiting <- newIORef []
  turn <- newMVar ()
  let judged given@(name, password) = do
        known <- Map.lookup name <$> readIORef remembered
        if maybe False (sameBytes password) known
          then pure Known
          else inLine waiting given (withMVar turn (const (verified name password)))
      verified name password = do
        matches <- matchesHash password (fromMaybe (another name) (Map.lookup name users))
        if matches && Map.member name users
          then Known <$ atomicModifyIORef' remembered (\before -> (Map.insert name password before, ()))
          else pure Wrong
  pure $ \application request respond -> do
    judgement <- maybe (pure Wrong) judged (credentials =<< lookup hAuthorization (requestHeaders request))
    case judgement of
      Known -> application request (respond . mapResponseHeaders (varying :))
      Wrong -> respond (refusal unauthorized401 [(hWWWAuthenticate, challenge), varying])
      TooMany -> respond (refusal serviceUnavailable503 [(hRetryAfter, "5"), varying])
  where
    -- For caches that may keep answers to requests with passwords, because 'Cache-Control: public' says so.
    varying = (hVary, "Authorization")
    -- A hash to compare with when there is no such user. Hashes of different kinds take different times, so the one of
    -- some user is taken, and always the same for a name.
    another name = snd (Map.elemAt (fromIntegral (spread name `mod` fromIntegral (Map.size users))) users)
    spread =
      ByteString.foldl' (\sum' byte -> (sum' `xor` fromIntegral byte) * 1099511628211) (14695981039346656037 :: Word64)
    challenge = "Basic realm=\"" <> Char8.concatMap escaped realm <> "\", charset=\"UTF-8\""
    escaped letter = if letter == '"' || letter == '\\' then Char8.pack ['\\', letter] else Char8.singleton letter

data Judgement = Known | Wrong | TooMany

-- A name, a password, and where the judgement about them will be.
type QueuedPassword = ((ByteString, ByteString), MVar Judgement)

-- | This many passwords wait while one is verified: for some seconds, because each takes about a tenth of one.
waitingMax :: Int
waitingMax = 32

-- Runs an action that judges a name and a password, or waits for another thread that does so for the same ones. Does
-- neither if the queue is full.
inLine :: IORef [QueuedPassword] -> (ByteString, ByteString) -> IO Judgement -> IO Judgement
inLine waiting given judge = do
  own <- newEmptyMVar
  let enter before
        | Just (_, other) <- List.find (same given . fst) before = (before, readMVar other)
        | length before > waitingMax = (before, pure TooMany)
        | otherwise =
          ((given, own) : before, (judge `onException` leave TooMany) >>= \judgement -> judgement <$ leave judgement)
      leave judgement =
        atomicModifyIORef' waiting (\before -> (filter ((/= own) . snd) before, ())) >> putMVar own judgement
  -- Waiting for the turn and verifying can be interrupted even so, and nothing else must be.
  mask_ (join (atomicModifyIORef' waiting enter))
  where
    same (name, password) (other, another) = name == other && sameBytes password another

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
sameBytes :: ByteString -> ByteString -> Bool
sameBytes one other =
  ByteString.length one == ByteString.length other && List.foldl' (.|.) 0 (ByteString.zipWith xor one other) == 0
