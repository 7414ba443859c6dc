{-# LANGUAGE TupleSections #-}

-- |
-- The lives of a connection's requests, one after the other: each ends when its handler has returned. An application
-- may keep a request
-- for longer, and then must not reach the next one through it. Must not know: requests, responses.
module Millrace.Http.Http1.Life (endRequest, isAlive, waitWhileAlive) where

import Control.Exception
  ( Exception (..),
    asyncExceptionFromException,
    asyncExceptionToException,
    bracket_,
    interruptible,
    mask_,
    throwIO,
  )
import Control.Monad (unless, void, when)
import Data.IORef (atomicModifyIORef', readIORef)
import Data.List (delete)
import Millrace.Http.Field (readField)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.State (endedWord, requestsEnded)
import Millrace.Http.Threads.Worker (atWork, interruptWorker, newWorker)
import Millrace.Internal.AtomicWord (fetchAdd)

-- | Ends the life of the present request, if there is one, and the waits of the threads that wait for something during
-- it.
endRequest :: Connection -> IO ()
endRequest connection = do
  begun <- requestCount connection
  ended <- readField (connectionState connection) requestsEnded
  when (begun > ended) $ do
    -- A full barrier: a thread that begins to wait finds that the request has ended, or is found by the next line.
    void (fetchAdd (endedWord (connectionState connection)) (begun - ended))
    waiting <- readIORef (connectionWatchers connection)
    unless (null waiting) (endWaits connection begun)
{-# INLINE endRequest #-}

endWaits :: Connection -> Int -> IO ()
endWaits connection number =
  atomicModifyIORef' (connectionWatchers connection) ([],) >>= mapM_ (interruptWorker (RequestIsOver number))
{-# NOINLINE endWaits #-}

-- | Whether the request with this number ('requestCount') is alive.
isAlive :: Connection -> Int -> IO Bool
isAlive connection number = (< number) <$> readField (connectionState connection) requestsEnded

-- | @waitWhileAlive connection number wait@ waits, at most until the request ends. Any thread may call this.
waitWhileAlive :: Connection -> Int -> IO () -> IO ()
waitWhileAlive connection number wait = mask_ $ do
  worker <- newWorker
  let change update = atomicModifyIORef' (connectionWatchers connection) ((,()) . update)
      waiting = isAlive connection number >>= \alive -> when alive (interruptible wait)
  outcome <- atWork worker (bracket_ (change (worker :)) (change (delete worker)) waiting)
  case outcome of
    Left failure | Just (RequestIsOver _) <- fromException failure -> return ()
    Left failure -> throwIO failure
    Right () -> return ()

-- Ends a wait during the request with this number. With GHC 9.0 it must not be a constant: see docs/HACKING.md.
newtype RequestIsOver = RequestIsOver Int
  deriving (Show)

instance Exception RequestIsOver where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
