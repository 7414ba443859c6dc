{-# LANGUAGE OverloadedStrings #-}

-- | PostgreSQL: statements with typed parameters and rows.
--
-- libpq speaks the protocol, with all its ways to log in and to encrypt. It never blocks: Millrace waits for its
-- socket. So a query occupies a green thread and nothing else, can have a deadline, and can be interrupted. An
-- interrupted statement leaves its connection unusable, and a pool then replaces it; the server is asked to give the
-- statement up.
--
-- > data Item = Item {itemNumber :: Int, itemName :: Text, itemPrice :: Int}
-- >
-- > itemsBetween :: Statement Item
-- > itemsBetween =
-- >   statement
-- >     "SELECT id, name, price FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3"
-- >     (Item <$> column <*> column <*> column)
-- >
-- > main :: IO ()
-- > main = withPool (postgresqlPool "postgres://shop@localhost/shop") $ \pool -> do
-- >   items <- withResource pool $ \connection ->
-- >     query connection itemsBetween [value (10 :: Int), value (50 :: Int), value (20 :: Int)]
-- >   mapM_ (print . itemName) items
--
-- A wrong connection string is reported without asking a server:
--
-- >>> import Control.Exception (try, displayException)
-- >>> either (\e -> displayException (e :: PostgresqlProblem)) show <$> try (connect "nonsense")
-- "Cannot connect to PostgreSQL: missing \"=\" after \"nonsense\" in connection info string"
module Millrace.Postgresql
  ( -- * Connections
    Connection,
    connect,
    connectBefore,
    close,
    isReusable,
    isAlive,
    untilDeadline,

    -- * Pools of connections
    postgresqlPool,
    module Millrace.Pool,

    -- * Statements
    Statement,
    statement,
    command,
    once,
    query,
    queryOne,
    execute,
    script,

    -- * Parameters
    Value,
    Parameter,
    value,
    Json (..),

    -- * Rows
    Row,
    Column,
    column,
    checked,

    -- * Transactions
    transaction,
    transactionWith,
    Isolation (..),

    -- * Pipelines
    Pipeline,
    step,
    pipeline,

    -- * Problems
    PostgresqlProblem (..),
    Refusal (..),
  )
where

import Data.ByteString (ByteString)
import Millrace.Deadline (Deadline, deadlineAfter, seconds)
import Millrace.Pool
import Millrace.Postgresql.Internal.Json (Json (..))
import Millrace.Postgresql.Internal.PostgresqlProblem
import Millrace.Postgresql.Internal.Query
import Millrace.Postgresql.Internal.ServerConnection
import Millrace.Postgresql.Parameter (Parameter, Value, value)
import Millrace.Postgresql.Row (Column, Row, checked, column)

-- | Connects within ten seconds; see 'connectBefore'.
connect :: ByteString -> IO Connection
connect text = deadlineAfter (seconds 10) >>= \deadline -> connectBefore deadline text

-- | The connection with a deadline, at which everything on it ends with an 'IOError'
-- ('Millrace.Deadline.isDeadlineError'). A statement that this ends leaves the connection unusable, as an interruption
-- does. A statement that was still waiting for that of another thread does not.
--
-- > deadline <- deadlineAfter (milliseconds 500)
-- > items <- query (untilDeadline deadline connection) itemsBetween values
untilDeadline :: Deadline -> Connection -> Connection
untilDeadline deadline connection = connection {connectionDeadline = deadline}

-- | A pool of connections to a server. After an exception a connection is kept if 'isReusable' says so, so an error in
-- the program or a refused statement costs no connection. Idle ones are checked with 'isAlive', so after a restart of
-- the server the pool connects anew.
--
-- > withPool (postgresqlPool "dbname=shop") {poolLimit = 20} serve
postgresqlPool :: ByteString -> PoolSettings Connection
postgresqlPool text =
  (poolSettings (`connectBefore` text) close)
    { poolKeep = const isReusable,
      poolHealthy = isAlive
    }
