-- | C function pointers to Haskell functions.
module Millrace.Foreign.Internal.Callback
  ( Handler,
    runFrame,
    createCallback,
    Callback,
    callbackPointer,
    freeCallback,
  )
where

import Control.Exception (throwIO)
import Control.Monad (when, zipWithM_)
import Foreign.Ptr (FunPtr, Ptr, castPtr, nullFunPtr, nullPtr)
import Foreign.StablePtr (StablePtr, deRefStablePtr, freeStablePtr, newStablePtr)
import Foreign.Storable (Storable (peekByteOff, sizeOf))
import Millrace.Foreign.Internal.Bindings
import Millrace.Foreign.Internal.CType (CKind, kindCode)

-- | A function that gets the addresses of the arguments and of the result.
type Handler = Ptr (Ptr ()) -> Ptr () -> IO ()

-- | A Haskell function that C can call. It stays until 'freeCallback'.
data Callback f = Callback (Ptr CallbackRecord) (StablePtr Handler) (FunPtr f)

-- | The pointer to pass to C. Valid until 'freeCallback'.
callbackPointer :: Callback f -> FunPtr f
callbackPointer (Callback _ _ pointer) = pointer

createCallback :: [CKind] -> CKind -> Handler -> IO (Callback f)
createCallback argumentKinds resultKind handler = do
  record <- c_callback_create (fromIntegral (length argumentKinds)) (kindCode resultKind)
  when (record == nullPtr) $ throwIO (userError "Millrace.Foreign: no memory for a callback")
  zipWithM_ (\index kind -> c_callback_argument record index (kindCode kind)) [0 ..] argumentKinds
  stable <- newStablePtr handler
  pointer <- c_callback_finish record stable
  let callback = Callback record stable pointer
  when (pointer == nullFunPtr) $ do
    freeCallback callback
    throwIO (userError "Millrace.Foreign: this is not the type of a C function")
  return callback

-- | Frees a callback. C must not call its pointer any more. Does not block.
freeCallback :: Callback f -> IO ()
freeCallback (Callback record stable _) = c_callback_destroy record >> freeStablePtr stable

-- | Runs the callback that C on a fiber requests.
runFrame :: Ptr Frame -> IO ()
runFrame frame = do
  handler <- peekByteOff frame 0
  arguments <- peekByteOff frame word
  result <- peekByteOff frame (2 * word)
  runHandler (castStable handler) arguments result
  where
    word = sizeOf nullPtr
    castStable :: StablePtr Handler -> StablePtr Handler
    castStable = id

-- C also calls this on threads that are not fibers: see @cbits\/callback.c@.
runHandler :: StablePtr Handler -> Ptr (Ptr ()) -> Ptr () -> IO ()
runHandler stable arguments result = do
  handler <- deRefStablePtr stable
  handler arguments (castPtr result)

foreign export ccall "mrf_run_handler" runHandler :: StablePtr Handler -> Ptr (Ptr ()) -> Ptr () -> IO ()
