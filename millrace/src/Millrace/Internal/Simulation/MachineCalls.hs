-- | The foreign imports for simulations, and nothing else. All are @unsafe@ (see "Millrace.Internal.CoreCalls"), except
-- 'c_pause', which blocks and uses no loop.
module Millrace.Internal.Simulation.MachineCalls
  ( Machine,
    Plan,
    c_simulation_begin,
    c_simulation_end,
    c_simulation_abandon,
    c_simulation_here,
    c_machine_skip,
    c_machine_chance,
    c_machine_close_all,
    c_machine_inspect,
    c_machine_trace,
    c_machine_line,
    c_machine_crash,
    c_machine_fail_power_after,
    c_machine_has_power,
    c_loop_list,
    c_loop_buffers_out,
    c_kind_name,
    c_nursery_is_low,
    c_others_can_run,
    c_calls_under_way,
    c_pause,
  )
where

import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.String (CString)
import Foreign.C.Types (CBool (..), CInt (..), CSize (..))
import Foreign.Ptr (Ptr)
import Millrace.Internal.CoreCalls (Loop)

-- | An @mr_machine@.
data Machine

-- | An @mr_machine_plan@.
data Plan

foreign import ccall unsafe "mrh_simulation_begin"
  c_simulation_begin ::
    Ptr Plan -> Ptr (Ptr Machine) -> Ptr (Ptr Loop) -> IO CInt

foreign import ccall unsafe "mrh_simulation_end" c_simulation_end :: IO ()

foreign import ccall unsafe "mrh_simulation_abandon" c_simulation_abandon :: IO ()

foreign import ccall unsafe "mrh_simulation_here" c_simulation_here :: IO (Ptr Machine)

foreign import ccall unsafe "mr_machine_skip" c_machine_skip :: Ptr Loop -> IO CInt

foreign import ccall unsafe "mrh_simulation_random" c_machine_chance :: Ptr Machine -> Word64 -> IO Word64

foreign import ccall unsafe "mr_machine_close_all" c_machine_close_all :: Ptr Machine -> IO ()

foreign import ccall unsafe "mr_machine_inspect" c_machine_inspect :: Ptr Machine -> Ptr Word64 -> IO ()

foreign import ccall unsafe "mr_machine_trace" c_machine_trace :: Ptr Machine -> Ptr CSize -> IO CString

foreign import ccall unsafe "mr_machine_crash" c_machine_crash :: Ptr Machine -> IO ()

foreign import ccall unsafe "mr_machine_fail_power_after" c_machine_fail_power_after :: Ptr Machine -> Word64 -> IO ()

foreign import ccall unsafe "mr_machine_has_power" c_machine_has_power :: Ptr Machine -> IO CBool

foreign import ccall unsafe "mrh_simulation_note" c_machine_line :: Ptr Machine -> CString -> IO ()

foreign import ccall unsafe "mr_loop_list" c_loop_list :: Ptr Loop -> Ptr a -> CSize -> IO CSize

foreign import ccall unsafe "mr_loop_buffers_in_use" c_loop_buffers_out :: Ptr Loop -> IO Int64

foreign import ccall unsafe "mr_kind_name" c_kind_name :: CInt -> IO CString

foreign import ccall unsafe "mrh_nursery_is_low" c_nursery_is_low :: IO CInt

foreign import ccall unsafe "mrh_others_can_run" c_others_can_run :: IO CInt

foreign import ccall unsafe "mrh_calls_under_way" c_calls_under_way :: IO CInt

foreign import ccall safe "mrh_simulation_pause" c_pause :: IO ()
