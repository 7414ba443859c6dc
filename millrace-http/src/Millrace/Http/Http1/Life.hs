{-# LANGUAGE MagicHash #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- The lives of a connection's requests, one after the other: each ends when its handler has returned. An application may keep a request
-- for longer, and then must not reach the next one through it. Must not know: requests, responses.
module Millrace.Http.Http1.Life (endRequest, isAlive, waitWhileAlive) where

import Control.Exception (Exception (..), asyncExceptionFromException, asyncExceptionToException, bracket_, interruptible, mask_, throwIO)
import Control.Monad (unless, when)
import Data.IORef (atomicModifyIORef', readIORef)
import Data.List (delete)
import Data.Primitive.ByteArray (MutableByteArray (..))
import GHC.Exts (Int (..), fetchAddIntArray#)
import GHC.IO (IO (..))
import Millrace.Http.Field (readField)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.State (endedWord, requestsEnded)
import Millrace.Http.Server.Worker (atWork, interruptWorker, newWorker)

-- | Ends the life of the present request, if there is one, and the waits of the threads that wait for something during it.
endRequest :: Connection -> IO ()
endRequest connection = do
  begun <- requestCount connection
  ended <- readField (connectionState connection) requestsEnded
  when (begun > ended) $ do
    addEnded connection (begun - ended)
    waiting <- readIORef (connectionWatchers connection)
    unless (null waiting) (endWaits connection begun)
{-# INLINE endRequest #-}

-- A full barrier: a thread that begins to wait either finds the request ended, or is found by the reader of 'connectionWatchers'.
addEnded :: Connection -> Int -> IO ()
addEnded connection (I# count) = case endedWord (connectionState connection) of
  (MutableByteArray array, I# index) -> IO $ \s -> case fetchAddIntArray# array index count s of (# s', _ #) -> (# s', () #)
{-# INLINE addEnded #-}

endWaits :: Connection -> Int -> IO ()
endWaits connection number = atomicModifyIORef' (connectionWatchers connection) ([],) >>= mapM_ (interruptWorker (RequestIsOver number))
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
