-- | The blocking interface of hiredis.
module RedisSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (bracket)
import Control.Monad (forM, forM_, replicateM_)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Array (withArray)
import Foreign.Marshal.Utils (withMany)
import Foreign.Ptr (FunPtr, Ptr, nullPtr)
import Millrace.Foreign
import Server
import System.Posix.Process (getProcessID)
import Test.Hspec hiding (context)
import TestSupport.Failure (require)
import TestSupport.Job (finish, start)
import TestSupport.Time (within)

data Context

data Reply

type Command = Ptr Context -> CInt -> Ptr CString -> Ptr CSize -> IO (Ptr Reply)

foreign import ccall "&redisConnect" c_connect :: FunPtr (CString -> CInt -> IO (Ptr Context))

foreign import ccall "&redisCommandArgv" c_command :: FunPtr Command

foreign import ccall "redisFree" c_free :: Ptr Context -> IO ()

foreign import ccall "freeReplyObject" c_free_reply :: Ptr Reply -> IO ()

foreign import ccall unsafe "test_popped_number" c_popped_number :: Ptr Reply -> IO CInt

foreign import ccall unsafe "test_is_integer" c_is_integer :: Ptr Reply -> IO CInt

foreign import ccall unsafe "test_has_failed" c_has_failed :: Ptr Context -> IO CInt

spec :: Spec
spec = describe "hiredis" $
  it "waits in BLPOP on a thousand connections" $
    withFewThreads $ \threadsAreFew -> do
      connected <- newEmptyMVar
      process <- getProcessID
      let list number = "list-" ++ show process ++ "-" ++ show number
      jobs <- forM [1 .. 1000 :: Int] $ \number -> start $
        withConnection $ \context -> do
          putMVar connected ()
          command context ["BLPOP", list number, "60"] c_popped_number
      within 60 "the connections" (replicateM_ 1000 (takeMVar connected))
      threadsAreFew
      within 60 "the pushes" $
        withConnection $ \context -> forM_ [1 .. 1000 :: Int] $ \number ->
          command context ["RPUSH", list number, show (number * 7)] c_is_integer `shouldReturn` 1
      within 60 "the pops" (mapM finish jobs) `shouldReturn` map (* 7) [1 .. 1000]

withConnection :: (Ptr Context -> IO a) -> IO a
withConnection action = do
  port <- read <$> setting "MILLRACE_TEST_REDIS_PORT"
  bracket (withCString "127.0.0.1" (\host -> fiberCall c_connect host port)) c_free $ \context -> do
    hasFailed <- c_has_failed context
    require (hasFailed == 0) "redisConnect"
    action context

-- | Sends a command and reads its reply.
command :: Ptr Context -> [String] -> (Ptr Reply -> IO a) -> IO a
command context texts readReply = withMany withCString texts $ \strings -> withArray strings $ \array ->
  bracket (fiberCall c_command context (fromIntegral (length texts)) array nullPtr) c_free_reply readReply
