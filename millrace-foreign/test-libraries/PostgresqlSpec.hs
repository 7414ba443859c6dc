{-# LANGUAGE CApiFFI #-}

-- | libpq's blocking calls.
module PostgresqlSpec (spec) where

import Control.Concurrent.Chan
import Control.Exception
import Control.Monad (forM, replicateM, replicateM_, unless, when)
import Data.List (isInfixOf)
import Foreign.C.Error (eTIMEDOUT)
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (FunPtr, Ptr)
import Millrace.Deadline
import Millrace.Foreign
import qualified Millrace.Timer as Timer
import Server
import qualified System.Timeout as Base
import Test.Hspec
import TestSupport.Job (finish, start, stop)
import TestSupport.Time (pause, within)

data Connection

data Result

foreign import ccall "&PQconnectdb" c_connectdb :: FunPtr (CString -> IO (Ptr Connection))

foreign import ccall "&PQexec" c_exec :: FunPtr (Ptr Connection -> CString -> IO (Ptr Result))

foreign import ccall "&PQreset" c_reset :: FunPtr (Ptr Connection -> IO ())

foreign import ccall "&PQfinish" c_finish :: FunPtr (Ptr Connection -> IO ())

foreign import capi "libpq-fe.h PQstatus" c_status :: Ptr Connection -> IO CInt

foreign import capi "libpq-fe.h PQerrorMessage" c_error_message :: Ptr Connection -> IO CString

foreign import capi "libpq-fe.h PQresultStatus" c_result_status :: Ptr Result -> IO CInt

foreign import capi "libpq-fe.h PQgetvalue" c_getvalue :: Ptr Result -> CInt -> CInt -> IO CString

foreign import capi "libpq-fe.h PQclear" c_clear :: Ptr Result -> IO ()

foreign import capi "libpq-fe.h value CONNECTION_OK" connectionOk :: CInt

foreign import capi "libpq-fe.h value PGRES_TUPLES_OK" tuplesOk :: CInt

spec :: Spec
spec = describe "libpq" $ do
  -- One after the other they would take 50 s. Four helpers read the files that libpq 18 looks at when it connects.
  it "has 500 queries answered over a pool of 50 connections" $
    withFewThreads $ \threadsAreFew -> do
      (answers, duration) <- withPool 50 $ \pool -> measured $ do
        jobs <- forM [1 .. 500 :: Int] $ \number -> start $
          bracket (readChan pool) (writeChan pool) $ \connection ->
            query connection ("SELECT " ++ show number ++ " FROM pg_sleep(0.1)")
        pause 300000
        threadsAreFew
        within 60 "the queries" (mapM finish jobs)
      answers `shouldBe` map show [1 .. 500 :: Int]
      duration `shouldSatisfy` (< 20)
  it "gives up a query at a timeout, and its connection can be reset" $
    withConnection $ \connection ->
      mapM_ (recoversAfter connection) [Base.timeout, Timer.timeout]
  it "gives up a query when its thread is killed" $
    withConnection $ \connection -> do
      job <- start (query connection longQuery)
      pause 300000
      within 20 "the end" (stop job)
      within 20 "the reset" (fiberCall c_reset connection)
      query connection "SELECT 42" `shouldReturn` "42"
  it "returns from a query with an error when a deadline passes" $
    withConnection $ \connection -> do
      deadline <- deadlineAfter (milliseconds 300)
      problem <- within 20 "the query" (try (queryWith patient {callDeadline = deadline} connection longQuery))
      either (\e -> show (e :: IOException)) id problem `shouldSatisfy` isInfixOf "timed out"
      fiberCall c_reset connection
      query connection "SELECT 43" `shouldReturn` "43"

recoversAfter :: Ptr Connection -> (Int -> IO String -> IO (Maybe String)) -> IO ()
recoversAfter connection timeoutBy = do
  within 20 "the timeout" (timeoutBy 300000 (query connection longQuery)) `shouldReturn` Nothing
  within 20 "the reset" (fiberCall c_reset connection)
  query connection "SELECT 42" `shouldReturn` "42"

longQuery :: String
longQuery = "SELECT pg_sleep(60)"

-- | libpq continues after EINTR.
patient :: CallOptions
patient = defaultCall {callInterruption = eTIMEDOUT}

query :: Ptr Connection -> String -> IO String
query = queryWith patient

-- | The first value of the result.
queryWith :: CallOptions -> Ptr Connection -> String -> IO String
queryWith options connection text = withCString text $ \command ->
  bracket (fiberCallWith options c_exec connection command) c_clear $ \result -> do
    status <- c_result_status result
    when (status /= tuplesOk) $ c_error_message connection >>= peekCString >>= ioError . userError
    c_getvalue result 0 0 >>= peekCString

connect :: IO (Ptr Connection)
connect = do
  parameters <- setting "MILLRACE_TEST_POSTGRESQL"
  connection <- withCString parameters (fiberCall c_connectdb)
  status <- c_status connection
  unless (status == connectionOk) $ c_error_message connection >>= peekCString >>= ioError . userError
  return connection

withConnection :: (Ptr Connection -> IO a) -> IO a
withConnection = bracket connect (fiberCall c_finish)

type Pool = Chan (Ptr Connection)

withPool :: Int -> (Pool -> IO a) -> IO a
withPool size action = do
  pool <- newChan
  connecting <- replicateM size (start (connect >>= writeChan pool))
  within 20 "the connections" (mapM_ finish connecting)
  action pool `finally` replicateM_ size (readChan pool >>= fiberCall c_finish)
