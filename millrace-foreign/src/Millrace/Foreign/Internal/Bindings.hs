-- | Every foreign import of the package, and nothing else. The headers in @cbits\/@ describe the functions.
module Millrace.Foreign.Internal.Bindings
  ( -- * Carriers
    c_start_carriers,
    c_carriers_count,

    -- * Waking
    Wanted,
    c_waker_is_missing,
    c_wanted_take,
    c_wanted_next,
    c_close,

    -- * Calls
    Call,
    Frame,
    c_call_create,
    c_call_signal,
    c_call_set_signal,
    c_call_argument,
    c_call_start,
    c_call_frame,
    c_call_resume,
    c_call_interrupt,
    c_call_result,
    c_call_end,

    -- * Callbacks
    CallbackRecord,
    c_callback_create,
    c_callback_argument,
    c_callback_finish,
    c_callback_destroy,
  )
where

import Control.Concurrent.MVar (MVar)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.Ptr (FunPtr, Ptr)
import Foreign.StablePtr (StablePtr)
import GHC.Conc (PrimMVar)

-- | @mrf_call@
data Call

-- | @mrf_wanted@
data Wanted

-- | @mrf_frame@
data Frame

-- | @mrf_callback@
data CallbackRecord

-- It takes the time to start a few threads and rings. It is not a safe call, because the run-time system starts another
-- OS thread for a safe call if none is idle, and keeps it.
foreign import ccall unsafe "mrf_start_carriers"
  c_start_carriers :: CUInt -> CString -> IO CInt

foreign import ccall unsafe "mr_carriers_count"
  c_carriers_count :: IO CUInt

foreign import ccall unsafe "mrf_waker_is_missing"
  c_waker_is_missing :: CInt -> IO CInt

foreign import ccall unsafe "mrf_wanted_take"
  c_wanted_take :: CInt -> StablePtr PrimMVar -> IO (Ptr Wanted)

foreign import ccall unsafe "mrf_wanted_next"
  c_wanted_next :: Ptr (Ptr Wanted) -> IO (StablePtr (MVar ()))

foreign import ccall unsafe "&mrf_close"
  c_close :: FunPtr (Ptr () -> IO ())

foreign import ccall unsafe "mrf_call_create"
  c_call_create :: FunPtr f -> CUInt -> CInt -> CInt -> IO (Ptr Call)

foreign import ccall unsafe "mrf_call_signal"
  c_call_signal :: Ptr Call -> IO (StablePtr (MVar ()))

foreign import ccall unsafe "mrf_call_set_signal"
  c_call_set_signal :: Ptr Call -> StablePtr (MVar ()) -> IO ()

foreign import ccall unsafe "mrf_call_argument"
  c_call_argument :: Ptr Call -> CUInt -> CInt -> IO (Ptr ())

foreign import ccall unsafe "mrf_call_start"
  c_call_start :: Ptr Call -> CSize -> IO CInt

foreign import ccall unsafe "mrf_call_frame"
  c_call_frame :: Ptr Call -> IO (Ptr Frame)

foreign import ccall unsafe "mrf_call_resume"
  c_call_resume :: Ptr Call -> CInt -> IO ()

foreign import ccall unsafe "mrf_call_interrupt"
  c_call_interrupt :: Ptr Call -> CInt -> IO ()

foreign import ccall unsafe "mrf_call_result"
  c_call_result :: Ptr Call -> IO (Ptr ())

foreign import ccall unsafe "mrf_call_end"
  c_call_end :: Ptr Call -> IO ()

foreign import ccall unsafe "mrf_callback_create"
  c_callback_create :: CUInt -> CInt -> IO (Ptr CallbackRecord)

foreign import ccall unsafe "mrf_callback_argument"
  c_callback_argument :: Ptr CallbackRecord -> CUInt -> CInt -> IO ()

foreign import ccall unsafe "mrf_callback_finish"
  c_callback_finish :: Ptr CallbackRecord -> StablePtr a -> IO (FunPtr f)

foreign import ccall unsafe "mrf_callback_destroy"
  c_callback_destroy :: Ptr CallbackRecord -> IO ()
