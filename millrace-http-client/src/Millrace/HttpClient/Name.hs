{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- | Looks up the addresses of a host.
module Millrace.HttpClient.Name
  ( addressesOf,
    interleave,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (void)
import Data.List (isPrefixOf)
import Foreign.C.Error (Errno, eOK, getErrno, resetErrno)
import GHC.IO.Exception (IOErrorType (TimeExpired), IOException (..))
import Millrace.Deadline
import Millrace.Internal.LookUpError (lookUpError, outOfDescriptors)
import Millrace.Socket
import Millrace.Timer (timeout)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | The addresses of a host, in the order in which to try them. Waits for the resolver until the deadline, and can be
-- interrupted. Throws an @IOError@ if there is no such host, if descriptors have run out, or if the deadline passes.
--
-- The resolver is the system's @getaddrinfo@, which cannot be interrupted. It occupies an operating system thread, and
-- if it is given up it goes on there until it ends.
addressesOf :: Deadline -> String -> Int -> IO [AddrInfo]
addressesOf deadline host port = do
  numeric <- try (resolve [AI_NUMERICHOST]) :: IO (Either IOException [AddrInfo])
  either (const ask) return numeric
  where
    resolve flags = do
      resetErrno
      getAddrInfo
        (Just defaultHints {addrSocketType = Stream, addrFlags = AI_NUMERICSERV : flags})
        (Just host)
        (Just (show port))
        `catch` \problem -> getErrno >>= throwIO . withReason host problem
    ask = do
      answer <- newEmptyMVar
      void . mask_ . forkIO $ try (resolve []) >>= putMVar answer
      -- Reading does not take the answer away, so an interruption cannot lose anything.
      found <- beforeDeadline deadline (readMVar answer)
      case found of
        Just (Right addresses) -> return (interleave addresses)
        Just (Left problem) -> throwIO (problem :: IOException)
        Nothing ->
          throwIO
            ( mkIOError
                TimeExpired
                attempted
                Nothing
                (Just host)
                `ioeSetErrorString` "the deadline has passed"
            )

-- A failed look-up with the system's reason, where network says only "System error". Without a descriptor glibc often
-- says that there is no such name, because it could not read the files or ask the servers; errno tells.
withReason :: String -> IOException -> Errno -> IOException
withReason host problem code
  | outOfDescriptors code || isSystemError && code /= eOK = lookUpError attempted host code
  | otherwise = problem
  where
    isSystemError = "System error" `isPrefixOf` ioe_description problem

attempted :: String
attempted = "looking up the host"

-- 'Nothing' if the deadline passes first.
beforeDeadline :: Deadline -> IO a -> IO (Maybe a)
beforeDeadline deadline action
  | deadline == noDeadline = Just <$> action
  | otherwise = do
    now <- monotonicNanoseconds
    let end = deadlineNanoseconds deadline
    timeout (if end <= now then 0 else fromIntegral ((end - now) `div` 1000)) action

-- | Alternates between the families (RFC 8305, section 4), so that a family that does not work delays the other only
-- briefly. Keeps the order within a family.
--
-- The system's order begins with the family that it prefers.
interleave :: [AddrInfo] -> [AddrInfo]
interleave [] = []
interleave addresses@(first : _) = inTurn (filter isOfFirst addresses) (filter (not . isOfFirst) addresses)
  where
    isOfFirst address = addrFamily address == addrFamily first
    inTurn (one : others) rest = one : inTurn rest others
    inTurn [] rest = rest
