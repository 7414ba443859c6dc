{-# LANGUAGE OverloadedStrings #-}

-- | Connecting, deadlines, interruptions, restarts of the server, and pools.
module ConnectionSpec (spec) where

import Control.Concurrent.MVar (newEmptyMVar, putMVar, readMVar)
import Control.Exception
import Control.Monad (forM, forM_, replicateM, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Int (Int32)
import Data.List (isInfixOf)
import Millrace.Deadline
import Millrace.Postgresql
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    SocketType (..),
    bind,
    defaultProtocol,
    listen,
    socket,
    socketPort,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import qualified Millrace.Timer as Timer
import Server
import System.Environment (setEnv, unsetEnv)
import Test.Hspec
import TestSupport.Failure (failsWith)
import TestSupport.Job (finish, interrupt, outcomeOf, start)
import TestSupport.Time (becomesTrue, within)

number :: Statement Int
number = statement "SELECT $1::int" column

-- | The rest of a connection string.
whoAndWhere :: ByteString
whoAndWhere = "user=millrace password=secret dbname=postgres"

withEnvironment :: String -> String -> IO a -> IO a
withEnvironment name text = bracket_ (setEnv name text) (unsetEnv name)

-- | The answer comes after this many seconds.
late :: Statement Int
late = statement "SELECT $1::int FROM pg_sleep($2)" column

spec :: Server -> Spec
spec server = describe "connections" $ do
  it "are made by TCP with a password and a name, and by a Unix socket" $
    forM_ [serverAddress server, serverLocal server] $ \address ->
      bracket (connect address) close $ \connection ->
        query connection number [value (1 :: Int)] `shouldReturn` [1]
  it "are made with the first of several servers that answers" $
    bracket
      ( connect
          ( Char8.pack
              ( "host=127.0.0.1,localhost port=1,"
                  ++ show (serverPort server)
                  ++ " user=millrace password=secret dbname=postgres"
              )
          )
      )
      close
      $ \connection ->
        query connection number [value (1 :: Int)] `shouldReturn` [1]
  it "are made although the first of several names is not found" $ do
    -- No name server is asked for such a name.
    let servers names =
          Char8.pack
            ( "host="
                ++ names
                ++ " port="
                ++ show (serverPort server)
                ++ " user=millrace password=secret dbname=postgres"
            )
    bracket (connect (servers "not..a.name,localhost")) close $ \connection ->
      query connection number [value (1 :: Int)] `shouldReturn` [1]
    problem <- failsWith (connect (servers "not..a.name"))
    show (problem :: SomeException) `shouldContain` "not..a.name"
  it "are made with the server of an address, of a service's file, or of the environment" $ do
    let port = Char8.pack (show (serverPort server))
        file = serverFolder server ++ "/services"
        works text = bracket (connect text) close $ \connection ->
          query connection number [value (1 :: Int)] `shouldReturn` [1]
    -- The name is not looked up.
    works ("host=not..a.name hostaddr=127.0.0.1 port=" <> port <> " " <> whoAndWhere)
    Char8.writeFile file ("[here]\nhost=127.0.0.1\nport=" <> port <> "\n")
    withEnvironment "PGSERVICEFILE" file $ works ("service=here " <> whoAndWhere)
    withEnvironment "PGHOST" "localhost" . withEnvironment "PGPORT" (show (serverPort server)) $ works whoAndWhere
    problem <- withEnvironment "PGHOST" "not..a.name" (failsWith (connect whoAndWhere))
    show (problem :: SomeException) `shouldContain` "not..a.name"
  it "say why they cannot be made" $ do
    let refusal address = displayException <$> (failsWith (connect address) :: IO PostgresqlProblem)
        port = Char8.pack (show (serverPort server))
    refusal ("postgres://millrace:wrong@127.0.0.1:" <> port <> "/postgres")
      >>= (`shouldContain` "password authentication failed")
    refusal ("postgres://millrace:secret@127.0.0.1:" <> port <> "/nowhere")
      >>= (`shouldContain` "\"nowhere\" does not exist")
    refusal "postgres://127.0.0.1:1/postgres" >>= (`shouldContain` "refused")
    refusal "host=::1 port=1" >>= (`shouldContain` "\"0:0:0:0:0:0:0:1\"")
    refusal "host=/nowhere" >>= (`shouldContain` "/nowhere")
    refusal "nonsense" >>= (`shouldContain` "nonsense")
    -- Bytes are passed on as they are, whatever the locale is.
    refusal ("postgres://millrace:secret@127.0.0.1:" <> port <> "/t\195\188r")
      >>= (`shouldContain` "database \"t\252r\" does not exist")
    -- No message has the password.
    refusal ("postgres://millrace:wrong@127.0.0.1:" <> port <> "/postgres")
      >>= (`shouldSatisfy` (not . isInfixOf "wrong"))
  it "are given up at their deadline when the server says nothing" $
    bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \silent -> do
      bind silent (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
      listen silent 5
      port <- socketPort silent
      soon <- deadlineAfter (milliseconds 100)
      problem <-
        within
          20
          "the deadline"
          (failsWith (connectBefore soon (Char8.pack ("postgres://127.0.0.1:" ++ show port ++ "/x"))))
      isDeadlineError problem `shouldBe` True
  it "end at a deadline, and the server gives the statement up" $
    withConnectionTo server $ \watcher -> do
      connection <- connect (serverAddress server)
      soon <- deadlineAfter (milliseconds 100)
      problem <-
        within
          20
          "the deadline"
          (failsWith (query (untilDeadline soon connection) late [value (1 :: Int), value (60 :: Double)]))
      isDeadlineError problem `shouldBe` True
      refusal <- failsWith (query connection number [value (1 :: Int)])
      displayException (refusal :: PostgresqlProblem) `shouldContain` "interrupted"
      isReusable connection `shouldReturn` False
      close connection
      close connection
      let sleepers =
            statement
              "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep($2)' AND state = 'active'"
              column
      gone <- becomesTrue 20000 ((== [0 :: Int]) <$> query watcher sleepers [])
      gone `shouldBe` True
      closed <- failsWith (query connection number [value (1 :: Int)])
      displayException (closed :: PostgresqlProblem) `shouldContain` "closed"
  it "end at a deadline while an answer arrives, however fast" $ do
    connection <- connect (serverAddress server)
    let wide = statement "SELECT repeat('x', 100000) FROM generate_series(1, 3000)" column :: Statement ByteString
    soon <- deadlineAfter (milliseconds 30)
    problem <- failsWith (query (untilDeadline soon connection) wide [])
    isDeadlineError problem `shouldBe` True
    close connection
  it "are waited for until a deadline while another thread uses them" $
    withConnectionTo server $ \connection -> withConnectionTo server $ \holder -> do
      let locking = statement "SELECT $1::int FROM pg_advisory_lock(7)" column :: Statement Int
          waiters = query holder (statement "SELECT count(*) FROM pg_locks WHERE NOT granted" column) [] :: IO [Int]
      query holder locking [value (0 :: Int)] `shouldReturn` [0]
      first <- start (query connection locking [value (1 :: Int)])
      busy <- becomesTrue 20000 ((== [1]) <$> waiters)
      busy `shouldBe` True
      Timer.timeout 20000 (isReusable connection) `shouldReturn` Nothing
      soon <- deadlineAfter (milliseconds 100)
      problem <- failsWith (query (untilDeadline soon connection) number [value (2 :: Int)])
      isDeadlineError problem `shouldBe` True
      query holder (statement "SELECT pg_advisory_unlock(7)" column) [] `shouldReturn` [True]
      finish first `shouldReturn` [1]
      later <- deadlineAfter (seconds 20)
      query (untilDeadline later connection) number [value (3 :: Int)] `shouldReturn` [3]
  it "of a pool never mix up answers, at whatever moment threads are killed" $
    withPool (postgresqlPool (serverAddress server)) {poolLimit = 6} $ \pool -> do
      wrong <- newIORef (0 :: Int)
      forM_ [1 .. 25 :: Int] $ \turn -> do
        jobs <- forM [1 .. 30 :: Int] $ \n ->
          start . withResource pool $ \connection -> do
            answers <- pipelineOrNot turn connection n
            unless (answers == [n]) (modifyIORef' wrong (+ 1))
        forM_ (zip [1 :: Int ..] jobs) $ \(index, job) -> when ((index + turn) `mod` 3 == 0) $ do
          Timer.threadDelay ((index * 37 + turn * 101) `mod` 700)
          interrupt job ThreadKilled
        within 30 "the jobs" (mapM_ outcomeOf jobs)
      readIORef wrong `shouldReturn` 0
      status <- poolStatus pool
      (statusInUse status, statusWaiting status) `shouldBe` (0, 0)
      answers <- forM [1 .. 12 :: Int] (\n -> withResource pool (\connection -> query connection number [value n]))
      answers `shouldBe` map pure [1 .. 12]
  it "of a pool are kept after refusals, and not after open transactions" $
    withPool (postgresqlPool (serverLocal server)) {poolLimit = 1} $ \pool -> do
      _ <- failsWith (withResource pool (`script` "nonsense")) :: IO PostgresqlProblem
      statusMade <$> poolStatus pool `shouldReturn` 1
      withResource pool (`script` "BEGIN")
      withResource pool (\connection -> query connection number [value (1 :: Int)]) `shouldReturn` [1]
      statusMade <$> poolStatus pool `shouldReturn` 2
  it "are waited for until a deadline when all are in use" $
    withPool (postgresqlPool (serverLocal server)) {poolLimit = 2, poolWait = milliseconds 100} $ \pool -> do
      free <- newEmptyMVar
      busy <-
        replicateM
          2
          (start (withResource pool (\connection -> readMVar free >> query connection number [value (5 :: Int)])))
      inUse <- becomesTrue 20000 ((== 2) . statusInUse <$> poolStatus pool)
      inUse `shouldBe` True
      problem <- within 20 "the deadline" (failsWith (withResource pool return))
      problem `shouldBe` PoolExhausted 2 0
      putMVar free ()
      within 20 "the others" (mapM finish busy) `shouldReturn` [[5], [5]]
  it "are made anew when the server has ended an idle one" $
    withConnectionTo server $ \other ->
      withPool (postgresqlPool (serverAddress server)) {poolLimit = 1, poolUnchecked = seconds 0} $ \pool -> do
        let backend =
              withResource pool (\connection -> query connection (statement "SELECT pg_backend_pid()" column) []) ::
                IO [Int32]
        first <- backend
        let running =
              query other (statement "SELECT count(*) FROM pg_stat_activity WHERE pid = $1" column) (map value first)
        _ <- query other (statement "SELECT pg_terminate_backend($1)" column :: Statement Bool) (map value first)
        gone <- becomesTrue 20000 ((== [0 :: Int]) <$> running)
        gone `shouldBe` True
        second <- backend
        second `shouldNotBe` first
  it "are made anew after a restart of the server" $
    withPool (postgresqlPool (serverAddress server)) {poolLimit = 3, poolUnchecked = seconds 0} $ \pool -> do
      let ask n = withResource pool (\connection -> query connection number [value (n :: Int)])
      ask 1 `shouldReturn` [1]
      waiting <-
        start (withResource pool (\connection -> query connection late [value (1 :: Int), value (60 :: Double)]))
      _ <- becomesTrue 20000 ((== 1) . statusInUse <$> poolStatus pool)
      within 60 "the restart" (restart server)
      lost <- within 20 "the end of the statement" (outcomeOf waiting)
      either (isInfixOf "terminating connection" . displayException) (const False) lost `shouldBe` True
      ask 2 `shouldReturn` [2]
      status <- poolStatus pool
      statusInUse status `shouldBe` 0
  where
    pipelineOrNot turn connection n
      | even turn = query connection number [value n]
      | otherwise = do
        answers <- pipeline connection (traverse (\m -> step number [value m]) [n, n + 1, n + 2])
        return ([n | answers == [[n], [n + 1], [n + 2]]])
