{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Every foreign import of the package but those for simulations, and nothing else.
--
-- An @unsafe@ call is what makes its caller the owner of the capability's loop (see @cbits\/capability.h@): none of the
-- @unsafe@ imports may become @safe@. The one call that blocks, 'c_wait', is @safe@ and changes no state.
module Millrace.Internal.Foreign
  ( -- * Managers
    Loop,
    Capability,
    Completion,
    c_create_group,
    c_has_group,
    c_can_adopt,
    c_backend,
    c_backend_probe,
    c_backend_parse,
    c_epoch,
    c_reset_after_fork,
    c_create_loop,
    c_attach,
    c_capability,
    c_check_layout,
    c_knows_layout,
    c_poll,
    c_prepare_wait,
    c_wait,
    c_wake_all,
    c_loop_index,
    c_counters,

    -- * Operations
    c_adopt,
    c_is_open,
    c_hold,
    c_let_go,
    c_set_deadline,
    c_recall,
    c_submit,
    c_is_error_of_file,
    c_reserve,
    c_start,
    c_cancel,
    c_release,
    c_start_after,
    c_move_after,
    c_stop,
    LentBuffer,
    c_lend,
    c_give_back,
    c_deadline_after,

    -- * Sockets
    c_socket,
    c_socketpair,
    c_make_ours,
    c_duplicate,
    c_linger,
    c_set_linger,
    c_bind,
    c_listen,
    c_getsockname,
    c_getpeername,
    c_setsockopt,
    c_getsockopt,
    c_ended,
    c_has_error,
    c_send_to,
    c_receive_from,
    c_send_descriptor,
    c_receive_descriptor,
    c_close,

    -- * The clock
    c_now,
  )
where

import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.ForeignPtr (FinalizerPtr)
import Foreign.Ptr (Ptr)
import GHC.Exts (ThreadId#)

-- | An @mr_loop@.
data Loop

-- | A @Capability@ of the run-time system.
data Capability

-- | An @mr_buffer@.
data LentBuffer

-- | An @mr_completion@.
data Completion

-- safe: a loop takes a millisecond.
foreign import ccall safe "mrh_create_group" c_create_group :: CInt -> CUInt -> IO CInt

foreign import ccall unsafe "mrh_has_group" c_has_group :: IO CInt

foreign import ccall unsafe "mrh_can_adopt" c_can_adopt :: IO CInt

foreign import ccall unsafe "mrh_backend" c_backend :: IO CInt

foreign import ccall unsafe "mr_backend_probe" c_backend_probe :: CInt -> CString -> CSize -> IO CInt

foreign import ccall unsafe "mr_backend_parse" c_backend_parse :: CString -> Ptr CInt -> IO CInt

foreign import ccall unsafe "mrh_epoch" c_epoch :: IO Int64

foreign import ccall unsafe "mrh_reset_after_fork" c_reset_after_fork :: IO ()

foreign import ccall unsafe "mrh_create_loop" c_create_loop :: Ptr (Ptr Loop) -> IO CInt

foreign import ccall unsafe "mrh_capability" c_capability :: IO (Ptr Capability)

foreign import ccall unsafe "mrh_attach" c_attach :: Ptr Loop -> CUInt -> Ptr Capability -> IO ()

foreign import ccall unsafe "mrh_check_layout"
  c_check_layout :: ThreadId# -> Ptr Capability -> CUInt -> IO ()

foreign import ccall unsafe "mrh_knows_layout" c_knows_layout :: IO CInt

foreign import ccall unsafe "mrh_poll" c_poll :: Ptr Loop -> Ptr Completion -> CInt -> IO CInt

foreign import ccall unsafe "mrh_prepare_wait" c_prepare_wait :: Ptr Loop -> IO CInt

foreign import ccall safe "mr_loop_wait" c_wait :: Ptr Loop -> IO ()

foreign import ccall "&mrh_wake_all" c_wake_all :: FinalizerPtr ()

foreign import ccall unsafe "mr_loop_index" c_loop_index :: Ptr Loop -> IO CUInt

foreign import ccall unsafe "mr_loop_counters" c_counters :: Ptr Loop -> Ptr Word64 -> IO ()

foreign import ccall unsafe "mrh_adopt" c_adopt :: CInt -> IO Int64

foreign import ccall unsafe "mrh_is_open" c_is_open :: Word64 -> IO CInt

foreign import ccall unsafe "mrh_hold" c_hold :: Word64 -> IO CInt

foreign import ccall unsafe "mrh_let_go" c_let_go :: Word64 -> IO ()

foreign import ccall unsafe "mrh_set_deadline" c_set_deadline :: Word64 -> CInt -> Word64 -> IO CInt

foreign import ccall unsafe "mrh_recall" c_recall :: Word64 -> IO ()

foreign import ccall unsafe "mrh_submit"
  c_submit ::
    CInt -> CUInt -> Word64 -> Ptr a -> Word64 -> Word64 -> CInt -> Word64 -> IO Int64

foreign import ccall unsafe "mr_is_error_of_file" c_is_error_of_file :: Int64 -> CInt

foreign import ccall unsafe "mrh_reserve" c_reserve :: CInt -> IO Int64

foreign import ccall unsafe "mrh_start" c_start :: Word64 -> CInt -> Word64 -> IO ()

foreign import ccall unsafe "mrh_cancel" c_cancel :: Word64 -> IO ()

foreign import ccall unsafe "mrh_release" c_release :: Word64 -> IO ()

foreign import ccall unsafe "mrh_lend" c_lend :: IO (Ptr LentBuffer)

foreign import ccall unsafe "mrh_give_back" c_give_back :: Ptr LentBuffer -> IO ()

foreign import ccall unsafe "mrh_start_after" c_start_after :: Word64 -> Int64 -> IO ()

foreign import ccall unsafe "mrh_move_after" c_move_after :: Word64 -> Int64 -> IO ()

foreign import ccall unsafe "mrh_stop" c_stop :: Word64 -> IO CInt

foreign import ccall unsafe "mrh_deadline_after" c_deadline_after :: Int64 -> IO Word64

foreign import ccall unsafe "mrh_socket" c_socket :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_socketpair" c_socketpair :: CInt -> CInt -> CInt -> Ptr CInt -> IO CInt

foreign import ccall unsafe "mrh_make_ours" c_make_ours :: CInt -> IO CInt

foreign import ccall unsafe "mrh_duplicate" c_duplicate :: CInt -> IO CInt

foreign import ccall unsafe "mrh_linger_seconds" c_linger :: CInt -> IO CInt

foreign import ccall unsafe "mrh_set_linger_seconds" c_set_linger :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_bind" c_bind :: CInt -> Ptr a -> CUInt -> IO CInt

foreign import ccall unsafe "mrh_listen" c_listen :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_getsockname" c_getsockname :: CInt -> Ptr a -> Ptr CUInt -> IO CInt

foreign import ccall unsafe "mrh_getpeername" c_getpeername :: CInt -> Ptr a -> Ptr CUInt -> IO CInt

foreign import ccall unsafe "mrh_setsockopt" c_setsockopt :: CInt -> CInt -> CInt -> Ptr a -> CUInt -> IO CInt

foreign import ccall unsafe "mrh_getsockopt" c_getsockopt :: CInt -> CInt -> CInt -> Ptr a -> Ptr CUInt -> IO CInt

foreign import ccall unsafe "mrh_ended" c_ended :: CInt -> IO CInt

foreign import ccall unsafe "mrh_has_error" c_has_error :: CInt -> IO CInt

foreign import ccall unsafe "mrh_send_to" c_send_to :: CInt -> Ptr a -> CSize -> Ptr b -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_receive_from"
  c_receive_from ::
    CInt -> Ptr a -> CSize -> Ptr b -> Ptr CUInt -> IO Int64

foreign import ccall unsafe "mrh_send_descriptor" c_send_descriptor :: CInt -> CInt -> IO Int64

foreign import ccall unsafe "mrh_receive_descriptor" c_receive_descriptor :: CInt -> IO Int64

foreign import ccall unsafe "mrh_close" c_close :: CInt -> IO CInt

foreign import ccall unsafe "mrh_now_ns" c_now :: IO Word64
