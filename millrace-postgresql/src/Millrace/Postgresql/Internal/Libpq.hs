{-# LANGUAGE CApiFFI #-}

-- Must not know: sockets.

-- | The functions of libpq, and those of postgresql.h. Three are safe calls: 'c_connect_start' may read files and,
-- where a service names hosts, look them up; 'c_connect_poll' may compute keys for milliseconds; 'c_cancel' opens
-- another connection and waits for it.
module Millrace.Postgresql.Internal.Libpq
  ( Conn,
    Result,
    NextAction (..),
    advance,
    receive,
    textOf,

    -- * Connecting
    c_conninfo_parse,
    c_conninfo_free,
    c_free_memory,
    c_option,
    c_environment,
    c_connect_start,
    c_connect_poll,
    c_set_up,
    c_finish,
    c_socket,
    c_host,
    c_port,
    c_database,
    c_connection_error,
    c_connection_status,
    c_transaction_status,
    c_is_alive,
    c_get_cancel,
    c_cancel,
    c_free_cancel,

    -- * Sending
    c_send_prepare,
    c_send_prepared,
    c_send_parameters,
    c_send_script,
    c_enter_pipeline,
    c_exit_pipeline,
    c_pipeline_sync,

    -- * Results
    c_result_status,
    c_result_field,
    c_result_message,
    c_rows,
    c_columns,
    c_column_name,
    c_column_type,
    c_column_format,
    c_row,
    c_affected,
    c_clear,

    -- * Constants
    connectionOk,
    pollingFailed,
    pollingReading,
    pollingWriting,
    pollingOk,
    transactionIdle,
    transactionOpen,
    transactionInError,
    statusTuples,
    statusCommand,
    statusEmpty,
    statusAborted,
    statusSync,
  )
where

import qualified Data.ByteString as ByteString
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Data.Word (Word32)
import Foreign.C.String (CString)
import Foreign.C.Types (CChar, CInt (..), CUInt (..))
import Foreign.Ptr (Ptr, nullPtr)

-- | @PGconn@.
data Conn

-- | @PGresult@.
data Result

-- | Converts a text of libpq, which is UTF-8 whatever the locale is.
textOf :: CString -> IO Text
textOf string
  | string == nullPtr = return Text.empty
  | otherwise = Text.strip . Text.decodeUtf8With Text.lenientDecode <$> ByteString.packCString string

-- | The next action of the caller, before the next step of a query.
data NextAction
  = Done
  | -- | Wait until the socket is readable.
    WaitRead
  | -- | Wait until the socket is readable or writable.
    WaitWrite
  | Lost
  | -- | The statement was COPY.
    Copy
  deriving (Enum)

-- | Sends waiting bytes, and processes received ones.
advance :: Ptr Conn -> Ptr (Ptr Result) -> CInt -> IO NextAction
advance conn result isPipeline = toEnum . fromIntegral <$> c_advance conn result isPipeline

-- | Receives from the socket, and then does the same as 'advance'.
receive :: Ptr Conn -> Ptr (Ptr Result) -> CInt -> IO NextAction
receive conn result isPipeline = toEnum . fromIntegral <$> c_receive conn result isPipeline

foreign import ccall unsafe "mrp_advance" c_advance :: Ptr Conn -> Ptr (Ptr Result) -> CInt -> IO CInt

foreign import ccall unsafe "mrp_receive" c_receive :: Ptr Conn -> Ptr (Ptr Result) -> CInt -> IO CInt

foreign import ccall unsafe "PQconninfoParse" c_conninfo_parse :: CString -> Ptr CString -> IO (Ptr ())

foreign import ccall unsafe "PQconninfoFree" c_conninfo_free :: Ptr () -> IO ()

foreign import ccall unsafe "PQfreemem" c_free_memory :: Ptr CChar -> IO ()

foreign import ccall unsafe "getenv" c_environment :: CString -> IO CString

foreign import ccall unsafe "mrp_option" c_option :: Ptr () -> CString -> IO CString

foreign import ccall safe "PQconnectStartParams" c_connect_start :: Ptr CString -> Ptr CString -> CInt -> IO (Ptr Conn)

foreign import ccall safe "PQconnectPoll" c_connect_poll :: Ptr Conn -> IO CInt

foreign import ccall unsafe "mrp_set_up" c_set_up :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQfinish" c_finish :: Ptr Conn -> IO ()

foreign import ccall unsafe "PQsocket" c_socket :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQhost" c_host :: Ptr Conn -> IO CString

foreign import ccall unsafe "PQport" c_port :: Ptr Conn -> IO CString

foreign import ccall unsafe "PQdb" c_database :: Ptr Conn -> IO CString

foreign import ccall unsafe "PQerrorMessage" c_connection_error :: Ptr Conn -> IO CString

foreign import ccall unsafe "PQstatus" c_connection_status :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQtransactionStatus" c_transaction_status :: Ptr Conn -> IO CInt

foreign import ccall unsafe "mrp_is_alive" c_is_alive :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQgetCancel" c_get_cancel :: Ptr Conn -> IO (Ptr ())

foreign import ccall safe "PQcancel" c_cancel :: Ptr () -> Ptr CChar -> CInt -> IO CInt

foreign import ccall unsafe "PQfreeCancel" c_free_cancel :: Ptr () -> IO ()

foreign import ccall unsafe "PQsendPrepare"
  c_send_prepare ::
    Ptr Conn -> CString -> CString -> CInt -> Ptr Word32 -> IO CInt

foreign import ccall unsafe "PQsendQueryPrepared"
  c_send_prepared ::
    Ptr Conn -> CString -> CInt -> Ptr CString -> Ptr CInt -> Ptr CInt -> CInt -> IO CInt

foreign import ccall unsafe "PQsendQueryParams"
  c_send_parameters ::
    Ptr Conn -> CString -> CInt -> Ptr Word32 -> Ptr CString -> Ptr CInt -> Ptr CInt -> CInt -> IO CInt

foreign import ccall unsafe "PQsendQuery" c_send_script :: Ptr Conn -> CString -> IO CInt

foreign import ccall unsafe "PQenterPipelineMode" c_enter_pipeline :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQexitPipelineMode" c_exit_pipeline :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQpipelineSync" c_pipeline_sync :: Ptr Conn -> IO CInt

foreign import ccall unsafe "PQresultStatus" c_result_status :: Ptr Result -> IO CInt

foreign import ccall unsafe "PQresultErrorField" c_result_field :: Ptr Result -> CInt -> IO CString

foreign import ccall unsafe "PQresultErrorMessage" c_result_message :: Ptr Result -> IO CString

foreign import ccall unsafe "PQntuples" c_rows :: Ptr Result -> IO CInt

foreign import ccall unsafe "PQnfields" c_columns :: Ptr Result -> IO CInt

foreign import ccall unsafe "PQfname" c_column_name :: Ptr Result -> CInt -> IO CString

foreign import ccall unsafe "PQftype" c_column_type :: Ptr Result -> CInt -> IO CUInt

foreign import ccall unsafe "PQfformat" c_column_format :: Ptr Result -> CInt -> IO CInt

foreign import ccall unsafe "mrp_row" c_row :: Ptr Result -> CInt -> CInt -> Ptr () -> IO ()

foreign import ccall unsafe "PQcmdTuples" c_affected :: Ptr Result -> IO CString

foreign import ccall unsafe "PQclear" c_clear :: Ptr Result -> IO ()

foreign import capi unsafe "libpq-fe.h value CONNECTION_OK" connectionOk :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_POLLING_FAILED" pollingFailed :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_POLLING_READING" pollingReading :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_POLLING_WRITING" pollingWriting :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_POLLING_OK" pollingOk :: CInt

foreign import capi unsafe "libpq-fe.h value PQTRANS_IDLE" transactionIdle :: CInt

foreign import capi unsafe "libpq-fe.h value PQTRANS_INTRANS" transactionOpen :: CInt

foreign import capi unsafe "libpq-fe.h value PQTRANS_INERROR" transactionInError :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_TUPLES_OK" statusTuples :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_COMMAND_OK" statusCommand :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_EMPTY_QUERY" statusEmpty :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_PIPELINE_ABORTED" statusAborted :: CInt

foreign import capi unsafe "libpq-fe.h value PGRES_PIPELINE_SYNC" statusSync :: CInt
