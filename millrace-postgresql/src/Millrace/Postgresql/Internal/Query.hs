{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | Statements: sending them with their parameters, and reading their rows.
module Millrace.Postgresql.Internal.Query
  ( Statement,
    statement,
    command,
    once,
    query,
    queryOne,
    execute,
    script,

    -- * Transactions
    transaction,
    transactionWith,
    Isolation (..),

    -- * Pipelines
    Pipeline,
    step,
    pipeline,
  )
where

import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Data.IORef
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Word (Word32)
import Foreign.C.String (CString)
import Foreign.C.Types (CChar, CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (allocaArray, withArray)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (pokeElemOff)
import Millrace.Deadline (deadlineAfter, earlier, seconds)
import Millrace.Postgresql.Internal.Libpq
import Millrace.Postgresql.Internal.PostgresqlProblem
import Millrace.Postgresql.Internal.ServerConnection
import Millrace.Postgresql.Parameter
import Millrace.Postgresql.Row

-- | A statement, and the reader of its rows.
data Statement row = Statement !ByteString !Preparation !(Row row)

data Preparation = Once | Kept
  deriving (Eq)

-- | A statement with parameters @$1@, @$2@ and so on. Each connection prepares it at its first use and keeps it, so
-- that the server parses and plans it only once. Connections recognise it by its text. So do not put values into the
-- text, or connections will keep a statement for each of them.
--
-- > cheap :: Statement (Int, Text)
-- > cheap = statement "SELECT id, name FROM items WHERE price < $1" ((,) <$> column <*> column)
statement :: ByteString -> Row row -> Statement row
statement text = Statement text Kept

-- | A statement without rows, or whose rows are not read.
command :: ByteString -> Statement ()
command text = Statement text Kept (pure ())

-- | Makes a statement that no connection keeps. For statements whose text differs each time.
once :: Statement row -> Statement row
once (Statement text _ row) = Statement text Once row

-- | Runs a statement and returns its rows. Blocks the green thread until the server has answered, or until the
-- connection's deadline ('Millrace.Postgresql.untilDeadline'). Throws 'PostgresqlProblem'. If it is interrupted, the
-- connection cannot be used again.
--
-- > items <- query connection cheap [value (100 :: Int)]
query :: Connection -> Statement row -> [Value] -> IO [row]
query connection what@(Statement text _ row) values =
  run connection what values (rowsOf text row)

-- | The first row only.
queryOne :: Connection -> Statement row -> [Value] -> IO (Maybe row)
queryOne connection what values = listToMaybe <$> query connection what values

-- | Runs a statement and returns how many rows it has changed, or returned.
execute :: Connection -> Statement row -> [Value] -> IO Int
execute connection what values = run connection what values affected

affected :: Ptr Result -> IO Int
affected result = do
  text <- c_affected result >>= ByteString.packCString
  return (maybe 0 fst (Char8.readInt text))

-- | Runs statements separated by semicolons, without parameters, and ignores their rows. If one fails, the others are
-- undone, unless they contain transactions themselves.
--
-- > script connection "CREATE TABLE a (b int); CREATE INDEX ON a (b)"
script :: Connection -> ByteString -> IO ()
script connection text =
  answered
    connection
    text
    (exclusively connection (withText text (exchange connection text . c_send_script conn)))
    (const (return ()))
  where
    conn = connectionOf connection

-- Sends a statement, after its preparation if this connection has not seen it yet, and reads the answer.
run :: Connection -> Statement row -> [Value] -> (Ptr Result -> IO a) -> IO a
run connection (Statement text preparation _) values = answered connection text $ case preparation of
  Once -> exclusively connection (sendingOnce connection text values (exchange connection text))
  Kept -> exclusively connection $ do
    known <- lookedUp connection text types
    name <- maybe (prepare connection text types) return known
    sendingPrepared connection text name values (exchange connection text)
  where
    types = map encodedType values

-- Reads an answer, unless it is an error, and clears it.
answered :: Connection -> ByteString -> IO (Ptr Result) -> (Ptr Result -> IO a) -> IO a
answered connection text ask reader = mask $ \restore -> do
  result <- ask
  restore (throwIfRefused connection text result >> reader result) `finally` c_clear result

-- The name under which a connection has prepared a statement.
lookedUp :: Connection -> ByteString -> [Oid] -> IO (Maybe ByteString)
lookedUp connection text types = do
  prepared <- readIORef (connectionPrepared connection)
  return $ do
    sameText <- Map.lookup text prepared
    listToMaybe [name | Prepared itsTypes name <- sameText, itsTypes == types]

prepare :: Connection -> ByteString -> [Oid] -> IO ByteString
prepare connection text types = do
  (name, send) <- preparation
  result <- send (exchange connection text)
  throwIfRefused connection text result `finally` c_clear result
  name <$ note connection text types name
  where
    preparation = do
      name <- newName connection
      return (name, sendingPreparation connection name text types)

note :: Connection -> ByteString -> [Oid] -> ByteString -> IO ()
note connection text types name =
  modifyIORef' (connectionPrepared connection) (Map.insertWith (++) text [Prepared types name])

-- Do not call it while the preparation of a statement is still pending in a pipeline: see 'pipeline'.
newName :: Connection -> IO ByteString
newName connection = do
  count <- atomicModifyIORef' (connectionNames connection) (\count -> (count + 1, count))
  return (Char8.pack ('m' : show count))

sendingPreparation :: Connection -> ByteString -> ByteString -> [Oid] -> (IO CInt -> IO a) -> IO a
sendingPreparation connection name text types sending =
  ByteString.useAsCString name $ \cName -> withText text $ \cText -> withArray types $ \cTypes ->
    sending (c_send_prepare (connectionOf connection) cName cText (fromIntegral (length types)) cTypes)

sendingPrepared :: Connection -> ByteString -> ByteString -> [Value] -> (IO CInt -> IO a) -> IO a
sendingPrepared connection text name values sending =
  ByteString.useAsCString name $ \cName -> withValues text values $ \count cValues lengths formats ->
    sending (c_send_prepared (connectionOf connection) cName count cValues lengths formats 1)

sendingOnce :: Connection -> ByteString -> [Value] -> (IO CInt -> IO a) -> IO a
sendingOnce connection text values sending =
  withText text $ \cText -> withArray (map encodedType values :: [Word32]) $ \types ->
    withValues text values $ \count cValues lengths formats ->
      sending (c_send_parameters (connectionOf connection) cText count types cValues lengths formats 1)

-- A statement's text as libpq takes it, which ends at a zero byte.
withText :: ByteString -> (CString -> IO a) -> IO a
withText text action
  | ByteString.elem 0 text = throwIO (NotSendable text "its text has a zero byte")
  | otherwise = ByteString.useAsCString text action

-- The values in one piece of memory, and three arrays that describe them. A value in text form ends with a zero byte
-- for libpq, so it must have no other.
withValues :: ByteString -> [Value] -> (CInt -> Ptr CString -> Ptr CInt -> Ptr CInt -> IO a) -> IO a
withValues text values action = do
  forM_ (zip [0 ..] values) $ \(index, given) -> forM_ (encodedSize given) $ \size ->
    when
      (size > fromIntegral (maxBound :: CInt))
      (refuse index ("has " <> Text.pack (show size) <> " bytes, more than a message can have"))
  allocaBytes (sum [size + 1 | Value _ _ (Just size) _ <- values] + 1) $ \memory ->
    allocaArray count $ \pointers -> allocaArray count $ \lengths -> allocaArray count $ \formats -> do
      let write _ _ [] = return ()
          write index target (Value _ format size poke : others) = do
            pokeElemOff formats index (case format of AsText -> 0; AsBinary -> 1)
            pokeElemOff lengths index (fromIntegral (fromMaybe 0 size))
            case size of
              Nothing -> pokeElemOff pointers index nullPtr >> write (index + 1) target others
              Just bytes -> do
                poke (castPtr target) `catch` \(Unsendable reason) -> refuse index reason
                pokeElemOff (target :: Ptr CChar) bytes 0
                when (format == AsText) $ do
                  hasZero <- ByteString.elem 0 <$> unsafePackCStringLen (target, bytes)
                  when hasZero $ refuse index "has a zero byte"
                pokeElemOff pointers index target
                write (index + 1) (target `plusPtr` (bytes + 1)) others
      write 0 memory values
      action (fromIntegral count) pointers lengths formats
  where
    count = length values
    refuse :: Int -> Text -> IO a
    refuse index reason = throwIO (NotSendable text ("the value of $" <> Text.pack (show (index + 1)) <> " " <> reason))

------------------------------------------------------------------------------------------------------------------------
-- Answers

throwIfRefused :: Connection -> ByteString -> Ptr Result -> IO ()
throwIfRefused connection text result = do
  status <- statusOf result
  unless (status `elem` [statusTuples, statusCommand, statusEmpty, statusSync]) $ do
    refusal <- refusalOf result
    -- The plan is for types that have changed; or the statement was deallocated.
    when (refusalState refusal `elem` ["0A000", "26000"]) $
      modifyIORef' (connectionPrepared connection) (Map.delete text)
    throwIO (Refused (connectionName connection) text refusal)

refusalOf :: Ptr Result -> IO Refusal
refusalOf result = do
  state <- field 'C'
  severity <- field 'S'
  message <- field 'M'
  whole <- c_result_message result >>= textOf
  Refusal (maybe "" (Char8.pack . Text.unpack) state) (fromMaybe "ERROR" severity) (fromMaybe whole message)
    <$> field 'D'
    <*> field 'H'
    <*> (fmap (read . Text.unpack) <$> field 'P')
    <*> field 't'
    <*> field 'c'
    <*> field 'n'
  where
    field :: Char -> IO (Maybe Text)
    field code = do
      found <- c_result_field result (fromIntegral (fromEnum code))
      if found == nullPtr then return Nothing else Just <$> textOf found

rowsOf :: ByteString -> Row row -> Ptr Result -> IO [row]
rowsOf text row result = do
  rows <- c_rows result
  columns <- c_columns result
  types <- mapM (fmap fromIntegral . c_column_type result) [0 .. columns - 1]
  let width = rowWidth row
  when (width /= fromIntegral columns && width /= 0) $
    throwIO (WrongWidth text width (fromIntegral columns))
  -- The server was asked for binary forms. The decoders of those must not read text.
  forM_ [0 .. fromIntegral width - 1] $ \index -> do
    format <- c_column_format result index
    when
      (format /= 1)
      (mismatch (Mismatch (fromIntegral index) "the server sent it in text format, but was asked for the binary one"))
  get <- either mismatch return (readerFor row (types !!))
  allocaBytes (cellSize * max 1 (fromIntegral columns)) $ \cells -> do
    -- From the last one, so that the list is made in its order.
    let from index found
          | index < 0 = return found
          | otherwise = do
            c_row result index columns (castPtr cells)
            one <- get (castPtr cells)
            one `seq` from (index - 1) (one : found)
    from (rows - 1) [] `catch` mismatch
  where
    mismatch (Mismatch index reason) = do
      name <- c_column_name result (fromIntegral index) >>= textOf
      throwIO (WrongColumn text (index + 1) name reason)

------------------------------------------------------------------------------------------------------------------------
-- Transactions

-- | How much a transaction sees of others that run at the same time, as SQL defines it.
data Isolation = ReadCommitted | RepeatableRead | Serializable
  deriving (Eq, Show)

-- | Runs an action in a transaction, on a connection that no other thread uses. An exception undoes it. If the
-- connection fails, or is interrupted, the server undoes it, too. Only an exception while it is committed leaves open
-- whether it was. Throws 'OutOfUse' if a transaction is open already.
--
-- > transaction connection $ do
-- >   _ <- execute connection withdraw [value amount, value from]
-- >   execute connection deposit [value amount, value to]
transaction :: Connection -> IO a -> IO a
transaction = transactionWith ReadCommitted

-- | Runs an action in a transaction with this isolation, as 'transaction' does. A 'Serializable' transaction may be
-- refused (state @40001@), and can then be tried again.
transactionWith :: Isolation -> Connection -> IO a -> IO a
transactionWith isolation connection action = mask $ \restore -> do
  before <- statusNow
  -- The server would only warn of BEGIN, and this transaction's COMMIT would be the other one's.
  when (before == transactionOpen || before == transactionInError) $
    throwIO (OutOfUse (connectionName connection) "a transaction is open already")
  script connection ("BEGIN ISOLATION LEVEL " <> level)
  result <- restore action `onException` undo
  status <- statusNow
  -- The action has caught the error that ended the transaction. COMMIT would silently undo it.
  when (status == transactionInError) $ do
    undo
    throwIO (OutOfUse (connectionName connection) "a statement of the transaction was refused, so it was undone")
  result <$ (script connection "COMMIT" `onException` undo)
  where
    statusNow = exclusively connection (c_transaction_status (connectionOf connection))
    -- The caller gets the exception that has ended the action, and soon: a server that does not answer cannot hold it
    -- up. The connection is then not used again, and the server undoes the transaction of a connection that has ended.
    undo = do
      soon <- earlier (connectionDeadline connection) <$> deadlineAfter (seconds 5)
      script connection {connectionDeadline = soon} "ROLLBACK" `catch` \problem -> case fromException problem of
        Just (SomeAsyncException _) -> throwIO problem
        Nothing -> return ()
    level = case isolation of
      ReadCommitted -> "READ COMMITTED"
      RepeatableRead -> "REPEATABLE READ"
      Serializable -> "SERIALIZABLE"

------------------------------------------------------------------------------------------------------------------------
-- Pipelines

-- | Statements that are sent together, without waiting for each answer, and a function of their rows. If one is
-- refused, all are undone, as in a transaction.
data Pipeline a = Pipeline [Sent] (Connection -> [Ptr Result] -> IO (a, [Ptr Result]))

data Sent = Sent !ByteString !Preparation [Value]

instance Functor Pipeline where
  fmap change (Pipeline sent reader) = Pipeline sent (\connection results -> first change <$> reader connection results)

instance Applicative Pipeline where
  pure result = Pipeline [] (\_ results -> return (result, results))
  Pipeline sentF readerF <*> Pipeline sentX readerX = Pipeline (sentF ++ sentX) $ \connection results -> do
    (f, left) <- readerF connection results
    (x, rest) <- readerX connection left
    return (f x, rest)

-- | One statement of a pipeline.
step :: Statement row -> [Value] -> Pipeline [row]
step (Statement text preparation row) values = Pipeline [Sent text preparation values] $ \_ results -> case results of
  result : others -> do
    rows <- rowsOf text row result
    return (rows, others)
  [] -> return ([], [])

-- | Sends the statements of a pipeline and reads all answers: one round trip instead of one for each.
--
-- > (item, reviews) <- pipeline connection ((,) <$> step itemOf [value key] <*> step reviewsOf [value key])
pipeline :: Connection -> Pipeline a -> IO a
pipeline connection (Pipeline sent reader) = mask $ \restore -> do
  results <- exclusively connection (exchangeAll connection sent)
  restore (do forM_ (zip texts results) (uncurry (throwIfRefused connection)); fst <$> reader connection results)
    `finally` mapM_ c_clear results
  where
    texts = [text | Sent text _ _ <- sent]

-- The answers, in order. After one that is an error they are "aborted".
exchangeAll :: Connection -> [Sent] -> IO [Ptr Result]
exchangeAll connection sent = do
  forM_ sent $ \(Sent text preparation values) -> when (preparation == Kept) $ do
    known <- lookedUp connection text (map encodedType values)
    maybe (void (prepare connection text (map encodedType values))) (const (return ())) known
  gathered <- newIORef []
  let takeOne text = collect InPipeline connection text >>= \result -> modifyIORef' gathered (result :)
      clear = readIORef gathered >>= mapM_ c_clear
  -- The values are made before the first statement is sent: one that cannot be made costs no connection.
  sendingAll sent $ \sends -> flip onException (clear >> breakWith connection "a pipeline on it was interrupted") $ do
    orBreak (c_enter_pipeline conn)
    mapM_ orBreak sends
    orBreak (c_pipeline_sync conn)
    mapM_ takeOne [text | Sent text _ _ <- sent]
    collect InPipeline connection "" >>= c_clear
    orBreak (c_exit_pipeline conn)
    reverse <$> readIORef gathered
  where
    conn = connectionOf connection
    sendingAll :: [Sent] -> ([IO CInt] -> IO a) -> IO a
    sendingAll [] action = action []
    sendingAll (Sent text preparation values : others) action = sending $ \send -> sendingAll others (action . (send :))
      where
        sending :: (IO CInt -> IO b) -> IO b
        sending use = case preparation of
          Once -> sendingOnce connection text values use
          Kept -> do
            known <- lookedUp connection text (map encodedType values)
            maybe (use (return 1)) (\name -> sendingPrepared connection text name values use) known
    orBreak call = do
      done <- call
      when (done == 0) $ do
        reason <- c_connection_error conn >>= textOf
        breakWith connection reason
        throwIO (ConnectionLost (connectionName connection) "of a pipeline" reason)
