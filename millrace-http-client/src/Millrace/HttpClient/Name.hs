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
import GHC.IO.Exception (IOErrorType (TimeExpired))
import Millrace.Deadline
import Millrace.Socket
import Millrace.Timer (timeout)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | The addresses of a host, in the order in which to try them. Waits for the resolver until the deadline, and can be
-- interrupted. Throws an 'IOError' if there is no such host, or if the deadline passes.
--
-- The resolver is the system's @getaddrinfo@, which cannot be interrupted. It occupies an operating system thread, and
-- if it is given up it goes on there until it ends.
addressesOf :: Deadline -> String -> Int -> IO [AddrInfo]
addressesOf deadline host port = do
  numeric <- try (resolve [AI_NUMERICHOST]) :: IO (Either IOException [AddrInfo])
  either (const ask) return numeric
  where
    resolve flags =
      getAddrInfo
        (Just defaultHints {addrSocketType = Stream, addrFlags = AI_NUMERICSERV : flags})
        (Just host)
        (Just (show port))
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
                "looking up the host"
                Nothing
                (Just host)
                `ioeSetErrorString` "the deadline has passed"
            )

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
