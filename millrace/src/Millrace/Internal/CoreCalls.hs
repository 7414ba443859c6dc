{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Every foreign import of the package, except those for simulations and files, and the types of their results.
--
-- An @unsafe@ call makes its caller the owner of the capability's loop (see @cbits\/capability.h@), so no @unsafe@
-- import may become @safe@. The one call that blocks, 'c_wait', is @safe@ and changes no state.
module Millrace.Internal.CoreCalls
  ( -- * Managers
    Loop,
    Capability,
    Completion,
    c_create_group,
    c_has_group,
    c_can_adopt,
    isSimulatedHere,
    c_backend,
    c_backend_probe,
    c_backend_parse,
    c_epoch,
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
    c_count_helpers,

    -- * Operations
    Token (..),
    Ticket (..),
    tokenOf,
    Value (..),
    Ended (..),
    ended,
    Submission (..),
    submission,
    reservation,
    c_adopt,
    c_is_open,
    c_hold,
    c_release_handle,
    c_set_deadline,
    c_retry_waiting,
    c_submit,
    c_is_error_of_file,
    c_file_cache_state,
    c_reserve,
    c_start,
    c_cancel,
    c_release,
    c_end_wait,
    c_end_receive,
    c_take_bytes,
    c_start_after,
    c_move_after,
    c_stop,
    Buffer,
    c_borrow,
    c_give_back,

    -- * Sockets
    c_socket,
    c_socketpair,
    c_set_socket_flags,
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

import Data.Bits (unsafeShiftR, (.&.))
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno (..))
import Foreign.C.String (CString)
import Foreign.C.Types (CBool (..), CInt (..), CSize (..), CUInt (..))
import Foreign.ForeignPtr (FinalizerPtr)
import Foreign.Ptr (Ptr)
import GHC.Exts (ThreadId#)
import Millrace.Internal.Constants (answerDone, answerNoLoop, answerPending, resultRetry, ticketStays)

-- | An @mr_loop@.
data Loop

-- | A @Capability@ of the run-time system.
data Capability

-- | An @mr_buffer@.
data Buffer

-- | An @mr_completion@.
data Completion

-- | Identifies an operation in flight: the loop, the slot and its generation.
newtype Token = Token Word64
  deriving (Eq, Ord)

-- | The token of an operation that the calling thread waits for, and whether the thread stays on its capability.
newtype Ticket = Ticket Word64

-- | The operation of a ticket.
tokenOf :: Ticket -> Token
tokenOf (Ticket ticket) = Token (ticket .&. (ticketStays - 1))
{-# INLINE tokenOf #-}

-- | A result as the core reports it: a count, an address or a descriptor, or a negative @errno@.
newtype Value = Value Int64

-- | How an operation has ended, with its value.
data Ended r
  = -- | The operation must be submitted again, because another thread kept something for it
    -- ('Millrace.Internal.Handle.retryWaiting').
    Retry
  | Failed !Errno
  | Ended r

-- | Converts a result. The function is applied to results that are not errors.
ended :: (Int64 -> r) -> Value -> Ended r
ended meaning (Value value)
  | value >= 0 = Ended (meaning value)
  | value == resultRetry = Retry
  | otherwise = Failed (Errno (fromIntegral (negate value)))
{-# INLINE ended #-}

-- | What 'c_submit' and 'c_reserve' return: see @capability.h@.
newtype Packed = Packed Int64

-- | The outcome of a submission.
data Submission
  = Pending !Ticket
  | Completed !Value
  | -- | This capability has no loop yet. Nothing was submitted.
    NoLoop
  | -- | This capability is switched off. Nothing was submitted.
    Disabled

-- | What 'c_submit' returned.
submission :: Packed -> Submission
submission (Packed word)
  | tag == answerDone = Completed (Value (word `unsafeShiftR` 2))
  | tag == answerPending = Pending (Ticket (fromIntegral (word `unsafeShiftR` 2)))
  | tag == answerNoLoop = NoLoop
  | otherwise = Disabled
  where
    tag = word .&. 3
{-# INLINE submission #-}

-- | What 'c_reserve' returned: a token where 'c_submit' has a result.
reservation :: Packed -> Either Submission (Ended Token)
reservation packed = case submission packed of
  Completed value -> Right (ended (Token . fromIntegral) value)
  other -> Left other
{-# INLINE reservation #-}

-- safe, because making a loop takes a millisecond.
foreign import ccall safe "mrh_create_group" c_create_group :: CInt -> CUInt -> IO CInt

foreign import ccall unsafe "mrh_has_group" c_has_group :: IO CBool

foreign import ccall unsafe "mrh_can_adopt" c_can_adopt :: IO CBool

foreign import ccall unsafe "mrh_is_simulated_here" c_is_simulated_here :: IO CBool

-- | Whether a simulation runs on this capability.
isSimulatedHere :: IO Bool
isSimulatedHere = (/= 0) <$> c_is_simulated_here
{-# INLINE isSimulatedHere #-}

foreign import ccall unsafe "mrh_backend" c_backend :: IO CInt

foreign import ccall unsafe "mr_backend_probe" c_backend_probe :: CInt -> CString -> CSize -> IO CInt

foreign import ccall unsafe "mr_backend_parse" c_backend_parse :: CString -> Ptr CInt -> IO CInt

foreign import ccall unsafe "mrh_epoch" c_epoch :: IO Int64

foreign import ccall unsafe "mrh_create_loop" c_create_loop :: Ptr (Ptr Loop) -> IO CInt

foreign import ccall unsafe "mrh_capability" c_capability :: IO (Ptr Capability)

foreign import ccall unsafe "mrh_attach" c_attach :: Ptr Loop -> CUInt -> Ptr Capability -> IO ()

foreign import ccall unsafe "mrh_check_layout"
  c_check_layout :: ThreadId# -> Ptr Capability -> CUInt -> IO ()

foreign import ccall unsafe "mrh_knows_layout" c_knows_layout :: IO CBool

foreign import ccall unsafe "mrh_poll" c_poll :: Ptr Loop -> Ptr Completion -> CInt -> IO CInt

foreign import ccall unsafe "mrh_prepare_wait" c_prepare_wait :: Ptr Loop -> IO CInt

foreign import ccall safe "mr_loop_wait" c_wait :: Ptr Loop -> IO ()

foreign import ccall "&mrh_wake_all" c_wake_all :: FinalizerPtr ()

foreign import ccall unsafe "mr_loop_index" c_loop_index :: Ptr Loop -> IO CUInt

foreign import ccall unsafe "mr_loop_counters" c_counters :: Ptr Loop -> Ptr Word64 -> IO ()

foreign import ccall unsafe "mrh_count_helpers" c_count_helpers :: Ptr Int64 -> IO ()

foreign import ccall unsafe "mrh_adopt" c_adopt :: CInt -> IO Int64

foreign import ccall unsafe "mrh_is_open" c_is_open :: Word64 -> IO CBool

foreign import ccall unsafe "mrh_hold" c_hold :: Word64 -> IO CInt

foreign import ccall unsafe "mrh_release_handle" c_release_handle :: Word64 -> IO ()

foreign import ccall unsafe "mrh_set_deadline" c_set_deadline :: Word64 -> CInt -> Word64 -> IO CInt

foreign import ccall unsafe "mrh_retry_waiting" c_retry_waiting :: Word64 -> IO ()

foreign import ccall unsafe "mrh_submit"
  c_submit ::
    CInt -> CUInt -> Word64 -> Ptr () -> Word64 -> Word64 -> CInt -> Word64 -> IO Packed

foreign import ccall unsafe "mr_is_error_of_file" c_is_error_of_file :: Int64 -> CInt

foreign import ccall unsafe "mr_file_cache_state" c_file_cache_state :: CInt -> Word64 -> Word64 -> IO CInt

foreign import ccall unsafe "mrh_reserve" c_reserve :: CInt -> IO Packed

foreign import ccall unsafe "mrh_start" c_start :: Token -> CInt -> Word64 -> IO ()

foreign import ccall unsafe "mrh_cancel" c_cancel :: Token -> IO ()

foreign import ccall unsafe "mrh_release" c_release :: Token -> IO ()

foreign import ccall unsafe "mrh_end_wait" c_end_wait :: Ticket -> IO ()

foreign import ccall unsafe "mrh_end_receive" c_end_receive :: Ticket -> Ptr Buffer -> Ptr Word8 -> IO ()

foreign import ccall unsafe "mrh_take_bytes" c_take_bytes :: Ptr Buffer -> Ptr Word8 -> IO ()

foreign import ccall unsafe "mrh_borrow_buffer" c_borrow :: IO (Ptr Buffer)

foreign import ccall unsafe "mrh_return_buffer" c_give_back :: Ptr Buffer -> IO ()

foreign import ccall unsafe "mrh_start_timer" c_start_after :: Token -> Int64 -> IO ()

foreign import ccall unsafe "mrh_move_timer" c_move_after :: Token -> Int64 -> IO ()

foreign import ccall unsafe "mrh_stop_timer" c_stop :: Token -> IO CBool

foreign import ccall unsafe "mrh_socket" c_socket :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_socketpair" c_socketpair :: CInt -> CInt -> CInt -> Ptr CInt -> IO CInt

foreign import ccall unsafe "mrh_set_socket_flags" c_set_socket_flags :: CInt -> IO CInt

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
