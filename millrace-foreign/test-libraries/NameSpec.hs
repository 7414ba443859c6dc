-- | The resolver.
module NameSpec (spec) where

import Control.Monad (replicateM)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (FunPtr, Ptr, nullPtr)
import Foreign.Storable (peek)
import Millrace.Foreign
import Server
import Test.Hspec
import TestSupport.Job (finish, start)
import TestSupport.Time (within)

data AddressInfo

foreign import ccall "&getaddrinfo"
  c_getaddrinfo :: FunPtr (CString -> CString -> Ptr AddressInfo -> Ptr (Ptr AddressInfo) -> IO CInt)

foreign import ccall "freeaddrinfo" c_freeaddrinfo :: Ptr AddressInfo -> IO ()

spec :: Spec
spec = describe "getaddrinfo" $
  it "resolves 300 names at once" $
    withFewThreads $ \threadsAreFew -> do
      -- four helpers for names
      jobs <- replicateM 300 (start (resolve "localhost"))
      threadsAreFew
      within 60 "the names" (mapM finish jobs) `shouldReturn` replicate 300 0
      within 20 "a wrong name" (resolve "no such name") >>= (`shouldSatisfy` (/= 0))

resolve :: String -> IO CInt
resolve name = withCString name $ \text -> withCString "80" $ \service -> alloca $ \result -> do
  problem <- fiberCall c_getaddrinfo text service nullPtr result
  if problem == 0 then peek result >>= c_freeaddrinfo >> return 0 else return problem
