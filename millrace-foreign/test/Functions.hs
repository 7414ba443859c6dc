-- | The C functions that the tests call, by address, and pipes for them to wait on.
module Functions
  ( -- * Values
    Weigh,
    c_weigh,
    c_int8,
    c_int16,
    c_int32,
    c_int64,
    c_word8,
    c_word16,
    c_word32,
    c_word64,
    c_float,
    c_double,
    c_pointer,
    c_use_stack,

    -- * Waiting
    c_usleep,
    c_poll,
    c_read,
    c_write,
    c_read_noting,
    c_inside,
    c_read_stubbornly,

    -- * Callbacks
    Counting,
    c_call_often,
    c_call_then_read,
    WithAll,
    c_call_with_all,
    c_call_for_int8,
    c_call_from_thread,
    c_call_from_fiber_of_c,
    c_qsort,
    wrapCounting,

    -- * Pipes
    withPipe,
    feed,

    -- * The process
    osThreads,
  )
where

import Control.Exception (bracket)
import Control.Monad (void)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..), CUSeconds (..))
import Foreign.Ptr (FunPtr, Ptr)
import System.Directory (listDirectory)
import System.Posix.IO (closeFd, createPipe, fdWrite)
import System.Posix.Types (CNfds (..), CSsize (..), Fd (..))

type Weigh =
  Int8 -> Word16 -> Int32 -> Word64 -> Float -> Double -> CString -> Int64 -> Word8 -> Int16 -> Word32 -> IO Double

foreign import ccall "&test_weigh" c_weigh :: FunPtr Weigh

foreign import ccall "&test_int8" c_int8 :: FunPtr (Int8 -> IO Int8)

foreign import ccall "&test_int16" c_int16 :: FunPtr (Int16 -> IO Int16)

foreign import ccall "&test_int32" c_int32 :: FunPtr (Int32 -> IO Int32)

foreign import ccall "&test_int64" c_int64 :: FunPtr (Int64 -> IO Int64)

foreign import ccall "&test_word8" c_word8 :: FunPtr (Word8 -> IO Word8)

foreign import ccall "&test_word16" c_word16 :: FunPtr (Word16 -> IO Word16)

foreign import ccall "&test_word32" c_word32 :: FunPtr (Word32 -> IO Word32)

foreign import ccall "&test_word64" c_word64 :: FunPtr (Word64 -> IO Word64)

foreign import ccall "&test_float" c_float :: FunPtr (Float -> IO Float)

foreign import ccall "&test_double" c_double :: FunPtr (Double -> IO Double)

foreign import ccall "&test_pointer" c_pointer :: FunPtr (Ptr () -> IO (Ptr ()))

foreign import ccall "&test_use_stack" c_use_stack :: FunPtr (CSize -> IO CInt)

foreign import ccall "&usleep" c_usleep :: FunPtr (CUSeconds -> IO CInt)

foreign import ccall "&poll" c_poll :: FunPtr (Ptr () -> CNfds -> CInt -> IO CInt)

foreign import ccall "&read" c_read :: FunPtr (Fd -> Ptr Word8 -> CSize -> IO CSsize)

foreign import ccall "&write" c_write :: FunPtr (Fd -> Ptr Word8 -> CSize -> IO CSsize)

foreign import ccall "&test_read_noting"
  c_read_noting :: FunPtr (Fd -> Ptr Word8 -> CSize -> Ptr CInt -> IO CSsize)

foreign import ccall unsafe "test_inside" c_inside :: IO CInt

foreign import ccall "&test_read_stubbornly" c_read_stubbornly :: FunPtr (Fd -> IO CInt)

-- | A callback of the tests.
type Counting = Int64 -> IO Int64

type WithAll = Int8 -> Word16 -> Int32 -> Word64 -> Float -> Double -> CString -> IO Double

foreign import ccall "&test_call_often" c_call_often :: FunPtr (FunPtr Counting -> Int64 -> IO Int64)

foreign import ccall "&test_call_then_read" c_call_then_read :: FunPtr (FunPtr Counting -> Fd -> IO Int64)

foreign import ccall "&test_call_with_all" c_call_with_all :: FunPtr (FunPtr WithAll -> IO Double)

foreign import ccall "&test_call_for_int8" c_call_for_int8 :: FunPtr (FunPtr (Int8 -> IO Int8) -> CInt -> IO CInt)

foreign import ccall "&test_call_from_thread" c_call_from_thread :: FunPtr (FunPtr Counting -> IO Int64)

foreign import ccall "&test_call_from_fiber_of_c" c_call_from_fiber_of_c :: FunPtr (FunPtr Counting -> IO Int64)

foreign import ccall "&qsort"
  c_qsort :: FunPtr (Ptr CInt -> CSize -> CSize -> FunPtr (Ptr CInt -> Ptr CInt -> IO CInt) -> IO ())

-- | GHC's own way to make a function pointer.
foreign import ccall "wrapper" wrapCounting :: Counting -> IO (FunPtr Counting)

-- | The end to read from and the end to write to.
withPipe :: (Fd -> Fd -> IO a) -> IO a
withPipe = bracket createPipe (\(one, other) -> closeFd one >> closeFd other) . uncurry

-- | Writes this many bytes into a pipe.
feed :: Fd -> Int -> IO ()
feed end count = void (fdWrite end (replicate count 'x'))

-- | The number of operating system threads of the process.
osThreads :: IO Int
osThreads = length <$> listDirectory "/proc/self/task"
