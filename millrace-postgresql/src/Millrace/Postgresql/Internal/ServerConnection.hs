{-# LANGUAGE OverloadedStrings #-}

-- | A connection: connecting and closing, one exchange with the server at a time, and the connection's state.
--
-- Interruptions are harmless, because a thread that has begun an exchange either takes the server's whole answer, or
-- leaves the connection 'Broken'. No thread uses a broken connection again. Closing it asks the server to stop working
-- on its statement.
module Millrace.Postgresql.Internal.ServerConnection
  ( Connection (..),
    Prepared (..),
    connectBefore,
    close,
    isReusable,
    isAlive,
    exclusively,
    exchange,
    collect,
    Mode (..),
    breakWith,
    statusOf,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (MVar, newMVar, putMVar, takeMVar, tryTakeMVar, withMVarMasked)
import Control.Exception
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import Data.Text (Text)
import qualified Data.Text as Text
import Foreign.C.Error (eTIMEDOUT)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (withArray0)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Millrace.Deadline
import Millrace.Operation
import Millrace.Postgresql.Internal.Address
import Millrace.Postgresql.Internal.Libpq
import Millrace.Postgresql.Internal.PostgresqlProblem
import Millrace.Postgresql.Internal.TypeNumber (Oid)
import Millrace.Timer (timeout)
import System.Posix.Types (Fd (..))

-- | A connection to a server. One thread at a time uses it; others wait for their turn. Close it with 'close'.
data Connection = Connection
  { connectionOf :: !(Ptr Conn),
    -- | The server and the database, for messages.
    connectionName :: !String,
    -- | Full while no thread uses the connection. The next three belong to the thread that has emptied it.
    connectionLock :: !(MVar ()),
    connectionCondition :: !(IORef Condition),
    -- | The prepared statements, by their text.
    connectionPrepared :: !(IORef (Map ByteString [Prepared])),
    -- | The number of names that it has given to prepared statements.
    connectionNames :: !(IORef Int),
    -- | The deadline of everything that waits on the connection.
    connectionDeadline :: !Deadline
  }

-- | For example @PostgreSQL at 127.0.0.1:5432, database shop@.
instance Show Connection where
  show = connectionName

-- | A prepared statement: the types of its parameters, and its name.
data Prepared = Prepared ![Oid] !ByteString

data Condition
  = Usable
  | -- | An exchange was interrupted or failed, for this reason.
    Broken !Text
  | Closed
  deriving (Eq)

-- | Connects until a deadline. The string has libpq's form, a URI (@postgres:\/\/user:password\@host:port\/database@)
-- or words (@host=... dbname=...@); parameters that it leaves out come from the environment (@PGHOST@ ...) as in all
-- programs with libpq. Several hosts are tried in turn. Throws 'NotConnected', and an 'IOError' when a look-up fails or
-- the deadline passes.
--
-- > deadline <- deadlineAfter (seconds 2)
-- > connection <- connectBefore deadline "postgres://shop@db.example:5432/shop"
connectBefore :: Deadline -> ByteString -> IO Connection
connectBefore deadline text = do
  when (ByteString.elem 0 text) $ throwIO (NotConnected "PostgreSQL" "the connection string has a zero byte")
  found <- resolved deadline text
  addresses <- either (throwIO . NotConnected "PostgreSQL") return found
  mask $ \restore -> do
    conn <- restore (begin addresses)
    attempt conn restore `onException` c_finish conn
  where
    begin addresses =
      withParameters
        ( [("dbname", text), ("fallback_application_name", "millrace")]
            ++ parameters addresses
            ++ [("client_encoding", "UTF8")]
        )
        $ \keywords values ->
          do
            conn <- mask_ (c_connect_start keywords values 1)
            if conn == nullPtr then throwIO (NotConnected "PostgreSQL" "there is no memory") else return conn
    attempt conn restore = do
      status <- c_connection_status conn
      name <- nameOf conn
      -- CONNECTION_BAD, at once: for example, a parameter has an invalid value.
      if status == 1 then refuse conn name else restore (poll conn name pollingWriting)
      _ <- c_set_up conn
      lock <- newMVar ()
      condition <- newIORef Usable
      prepared <- newIORef Map.empty
      names <- newIORef 0
      return (Connection conn name lock condition prepared names noDeadline)
    poll conn name state
      | state == pollingOk = return ()
      | state == pollingFailed = refuse conn name
      | otherwise = do
        fd <- c_socket conn
        let wait = if state == pollingReading then waitReadableRequest else waitWritableRequest
        perform (before deadline (wait (foreignHandle (Fd fd)))) >>= throwIfFailed "Millrace.Postgresql.connect" name
        c_connect_poll conn >>= poll conn name
    refuse :: Ptr Conn -> String -> IO ()
    refuse conn name = do
      reason <- c_connection_error conn >>= textOf
      throwIO (NotConnected name reason)

nameOf :: Ptr Conn -> IO String
nameOf conn = do
  host <- c_host conn >>= textOf
  port <- c_port conn >>= textOf
  database <- c_database conn >>= textOf
  return (Text.unpack ("PostgreSQL at " <> host <> ":" <> port <> ", database " <> database))

withParameters :: [(ByteString, ByteString)] -> (Ptr CString -> Ptr CString -> IO a) -> IO a
withParameters given action =
  strings (map fst given) $ \keywords -> strings (map snd given) $ \values ->
    withArray0 nullPtr keywords (withArray0 nullPtr values . action)
  where
    strings :: [ByteString] -> ([CString] -> IO b) -> IO b
    strings [] use = use []
    strings (first : others) use = ByteString.useAsCString first $ \string -> strings others (use . (string :))

-- | Closes the connection. If a statement was interrupted, it asks the server in the background to cancel that. Waits
-- for a thread that uses the connection. A second call does nothing.
close :: Connection -> IO ()
close connection = withMVarMasked (connectionLock connection) $ \() -> do
  was <- readIORef (connectionCondition connection)
  writeIORef (connectionCondition connection) Closed
  case was of
    Closed -> return ()
    Usable -> c_finish conn
    Broken _ -> do
      request <- c_get_cancel conn
      if request == nullPtr then c_finish conn else void (forkIO (giveUp request))
  where
    conn = connectionOf connection
    -- Close it only after the server has been asked: it cancels a statement only while it knows the connection.
    giveUp request =
      (allocaBytes 256 (\message -> void (c_cancel request message 256)) `finally` c_free_cancel request)
        `finally` c_finish conn

-- | Whether the next statement can run on the connection: not if it was closed, if a statement was interrupted, if the
-- connection failed, or if a transaction is open. Does not ask the server.
isReusable :: Connection -> IO Bool
isReusable = askWith (fmap (== transactionIdle) . c_transaction_status)

-- | Whether the connection seems to work. It does not if the server has closed it meanwhile, or has sent anything. Does
-- not ask the server; makes two system calls.
isAlive :: Connection -> IO Bool
isAlive = askWith (fmap (/= 0) . c_is_alive)

askWith :: (Ptr Conn -> IO Bool) -> Connection -> IO Bool
askWith ask connection = withMVarMasked (connectionLock connection) $ \() -> do
  condition <- readIORef (connectionCondition connection)
  if condition == Usable then ask (connectionOf connection) else return False

-- | Uses the connection alone, masked. Throws 'OutOfUse' if it cannot be used, and an 'IOError' if another thread uses
-- it until the deadline.
exclusively :: Connection -> IO a -> IO a
exclusively connection action = mask_ $ do
  takeTurn connection
  flip finally (putMVar (connectionLock connection) ()) $ do
    condition <- readIORef (connectionCondition connection)
    case condition of
      Usable -> action
      Broken reason -> throwIO (OutOfUse (connectionName connection) reason)
      Closed -> throwIO (OutOfUse (connectionName connection) "it was closed")

-- Takes the lock. Call it masked: then 'timeout' loses no lock.
takeTurn :: Connection -> IO ()
takeTurn connection
  | deadline == noDeadline = takeMVar lock
  | otherwise = do
    isFree <- isJust <$> tryTakeMVar lock
    unless isFree $ do
      now <- monotonicNanoseconds
      let end = deadlineNanoseconds deadline
          micros = if end <= now then 0 else fromIntegral (min 1000000000000 ((end - now + 999) `quot` 1000))
      taken <- timeout micros (takeMVar lock)
      unless (isJust taken) $
        throwIfFailed
          "Millrace.Postgresql"
          (connectionName connection ++ ", which another thread uses")
          (Left eTIMEDOUT)
  where
    deadline = connectionDeadline connection
    lock = connectionLock connection

-- | Whether results come one by one, as in a pipeline, or a statement has only one.
data Mode = Single | InPipeline

-- | Sends a statement and returns the server's answer, which the caller must clear. The text is for messages. Call it
-- within 'exclusively'.
exchange :: Connection -> ByteString -> IO CInt -> IO (Ptr Result)
exchange connection text send = do
  sent <- send
  if sent == 0
    then do
      reason <- c_connection_error (connectionOf connection) >>= textOf
      breakWith connection reason
      throwIO (ConnectionLost (connectionName connection) text reason)
    else collect Single connection text

-- | Takes the next answer of the server.
collect :: Mode -> Connection -> ByteString -> IO (Ptr Result)
collect mode connection text = alloca $ \memory -> do
  poke memory nullPtr
  let conn = connectionOf connection
      isPipeline = case mode of
        Single -> 0
        InPipeline -> 1
      step next = case next of
        Done -> return ()
        WaitRead -> wait waitReadableRequest unlimited >> receive conn memory isPipeline >>= step
        -- The server may itself wait until its answers are read, so the wait is short.
        WaitWrite -> wait waitWritableRequest (milliseconds 20) >> receive conn memory isPipeline >>= step
        Lost -> do
          result <- peek memory
          reason <- if result == nullPtr then c_connection_error conn >>= textOf else c_result_message result >>= textOf
          breakWith connection reason
          throwIO (ConnectionLost (connectionName connection) text reason)
        Copy -> do
          breakWith connection "it was used for COPY"
          throwIO (OutOfUse (connectionName connection) "this package cannot do COPY")
      abandon = do
        peek memory >>= c_clear
        modifyIORef' (connectionCondition connection) $ \condition -> case condition of
          Usable -> Broken "a statement on it was interrupted, or its deadline passed"
          _ -> condition
  (advance conn memory isPipeline >>= step) `onException` abandon
  peek memory
  where
    wait request limit = do
      -- Check the deadline even if there is no need to wait: a long answer may always have its next bytes ready.
      when (deadline /= noDeadline) $ do
        now <- monotonicNanoseconds
        when (now >= deadlineNanoseconds deadline) $ failed (Left eTIMEDOUT)
      fd <- c_socket (connectionOf connection)
      outcome <- perform (limited (request (foreignHandle (Fd fd))))
      case outcome of
        -- The deadline is checked before the next wait.
        Left code | code == eTIMEDOUT, limit /= unlimited -> return ()
        _ -> failed outcome
      where
        limited = if limit == unlimited then before deadline . afterTrying else within limit . afterTrying
    failed =
      throwIfFailed "Millrace.Postgresql" (connectionName connection ++ ", statement " ++ show (Char8.take 200 text))
    deadline = connectionDeadline connection

-- | Marks a connection as broken, for this reason: no thread uses it again.
breakWith :: Connection -> Text -> IO ()
breakWith connection reason = writeIORef (connectionCondition connection) (Broken reason)

statusOf :: Ptr Result -> IO CInt
statusOf = c_result_status
