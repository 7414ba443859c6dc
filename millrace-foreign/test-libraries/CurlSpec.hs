{-# LANGUAGE CApiFFI #-}

-- | libcurl's easy interface with a write callback in Haskell.
module CurlSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (replicateM, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CChar, CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (FunPtr, Ptr, nullPtr)
import Foreign.Storable (peek)
import Millrace.Foreign
import Server
import Test.Hspec
import TestSupport.Failure (require)
import TestSupport.Job (finish, start, stop)
import TestSupport.Time (pause, within)

data Easy

type Write = Ptr CChar -> CSize -> CSize -> Ptr () -> IO CSize

foreign import capi "curl/curl.h curl_global_init" c_global_init :: CLong -> IO CInt

foreign import capi "curl/curl.h value CURL_GLOBAL_DEFAULT" globalDefault :: CLong

foreign import capi "curl/curl.h curl_easy_init" c_init :: IO (Ptr Easy)

foreign import capi "curl/curl.h curl_easy_cleanup" c_cleanup :: Ptr Easy -> IO ()

foreign import capi "curl/curl.h curl_easy_setopt" c_set_string :: Ptr Easy -> CInt -> CString -> IO CInt

foreign import capi "curl/curl.h curl_easy_setopt" c_set_write :: Ptr Easy -> CInt -> FunPtr Write -> IO CInt

foreign import capi "curl/curl.h curl_easy_getinfo" c_get_long :: Ptr Easy -> CInt -> Ptr CLong -> IO CInt

foreign import capi "curl/curl.h value CURLOPT_URL" optionUrl :: CInt

foreign import capi "curl/curl.h value CURLOPT_PROXY" optionProxy :: CInt

foreign import capi "curl/curl.h value CURLOPT_WRITEFUNCTION" optionWriteFunction :: CInt

foreign import capi "curl/curl.h value CURLINFO_RESPONSE_CODE" infoResponseCode :: CInt

foreign import ccall "&curl_easy_perform" c_perform :: FunPtr (Ptr Easy -> IO CInt)

spec :: Spec
spec = beforeAll_ (void (c_global_init globalDefault)) $
  describe "libcurl" $ do
    -- The server takes 300 ms for each. One after the other they would take a minute.
    it "downloads 200 files at once" $
      withFewThreads $ \threadsAreFew -> do
        url <- setting "MILLRACE_TEST_SLOW_URL"
        (files, duration) <- measured $ do
          jobs <- replicateM 200 (start (download url (return . ByteString.length)))
          pause 200000
          threadsAreFew
          within 60 "the downloads" (mapM finish jobs)
        duration `shouldSatisfy` (< 20)
        files `shouldBe` replicate 200 (Right (200, file))
    it "ends a download when its callback throws" $ do
      url <- setting "MILLRACE_TEST_SLOW_URL"
      outcome <- try (within 20 "the download" (download url (\_ -> throwIO Overflow)))
      either Just (const Nothing) outcome `shouldBe` Just Overflow
    it "ends a download when its thread is killed in the callback" $ do
      url <- setting "MILLRACE_TEST_SLOW_URL"
      begun <- newEmptyMVar
      job <- start (download url (\_ -> putMVar begun () >> pause 60000000 >> return 0))
      within 20 "the first bytes" (takeMVar begun)
      within 20 "the end" (stop job)

-- | What the server sends.
file :: ByteString
file = ByteString.pack [fromIntegral (i `mod` 251) | i <- [0 .. 39999 :: Int]]

-- | libcurl's error, or the status and the body. The function returns the number of bytes that it has accepted.
download :: String -> (ByteString -> IO Int) -> IO (Either CInt (CLong, ByteString))
download url consume = bracket c_init c_cleanup $ \easy -> do
  received <- newIORef []
  let write bytes size count _ = do
        part <- ByteString.packCStringLen (bytes, fromIntegral (size * count))
        modifyIORef' received (part :)
        fromIntegral <$> consume part
  withCString url $ \address -> withCString "" $ \noProxy -> withCallback write $ \callback -> do
    require (easy /= nullPtr) "curl_easy_init"
    void (c_set_string easy optionUrl address)
    void (c_set_string easy optionProxy noProxy)
    void (c_set_write easy optionWriteFunction callback)
    problem <- fiberCall c_perform easy
    status <- alloca (\code -> c_get_long easy infoResponseCode code >> peek code)
    parts <- readIORef received
    return (if problem == 0 then Right (status, ByteString.concat (reverse parts)) else Left problem)
