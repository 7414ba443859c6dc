{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Calls blocking C functions without blocking an operating system thread.
--
-- 'fiberCall' makes a Haskell function of a C function. The C function runs on a /fiber/, which has its own C stack.
-- Fibers run on a few operating system threads, the /carriers/. When it would block in libc (@recv@, @connect@, @poll@,
-- @nanosleep@, @getaddrinfo@, @pthread_mutex_lock@, ...), the fiber parks and its carrier continues with others. C
-- libraries need no change. In Haskell only the calling thread waits, as on an 'Control.Concurrent.MVar.MVar'.
--
-- > foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)
-- >
-- > main = forConcurrently_ [1 .. 1000] (\_ -> fiberCall c_sleep 1)   -- takes a second, on a few threads
--
-- == Exceptions
--
-- An asynchronous exception ('Control.Concurrent.killThread', 'System.Timeout.timeout') reaches into the call: the wait
-- in which the C code is parked, or else its next one, fails with @EINTR@, or with @ETIMEDOUT@ if the exception is a
-- timeout. The C code handles this as any error. When it has returned, the exception is thrown.
--
-- * If C code ignores the error and waits again, or computes, the call waits for it, however long that takes. Further
--   exceptions stay pending meanwhile.
-- * Waits for locks, files, names (@getaddrinfo@), threads (@pthread_join@), and for @system@, @posix_spawn@, @popen@
--   and
--   @pclose@ are not interrupted.
-- * The result of an interrupted call is dropped. If that would lose something, such as an opened descriptor, make the
--   call in 'Control.Exception.uninterruptibleMask_' and limit it with 'callDeadline'.
--
-- == errno
--
-- The calling thread gets the errno of the C function, as after any foreign call:
--
-- > throwErrnoIfMinus1 "read" (fiberCall c_read descriptor buffer 4096)
--
-- == Rules
--
-- * Link with @-threaded@; otherwise calls throw 'Millrace.Manager.NotThreaded'.
-- * Memory whose address is passed must not move and must outlive the call, as with @safe@ foreign calls:
--   'Foreign.Marshal.Alloc.alloca', 'Foreign.ForeignPtr.withForeignPtr', pinned byte arrays. (GHC 9.0 frees the memory
--   of 'Foreign.Marshal.Alloc.alloca' early if it finds that the action never returns, for example because it ends in
--   'Control.Monad.forever'.)
-- * A fiber stays on its carrier, so thread-local variables of C keep their addresses. But the fibers of a carrier
--   share them, except errno. Two calls with the same C object may run on different threads.
-- * With @MILLRACE_FIBER_DEBUG=uncovered,locks,watchdog=100@ in its environment, a program reports on standard error:
--   calls that are not interposed, locks that are held during a wait, and fibers that hold a carrier for 100 ms.
-- * In GHCi and Template Haskell calls work, but block their carrier while they wait, and exceptions cannot interrupt
--   them. The reason is that libc is loaded before this package.
-- * A call costs a few microseconds. For functions that never wait, use an ordinary import.
--
-- == An example
--
-- >>> import Foreign.C.Types
-- >>> import Foreign.Ptr (FunPtr)
-- >>> foreign import ccall "&abs" c_abs :: FunPtr (CInt -> IO CInt)
-- >>> fiberCall c_abs (-42)
-- 42
module Millrace.Foreign
  ( -- * Calls
    fiberCall,
    fiberCallWith,
    CallOptions (..),
    defaultCall,

    -- * Callbacks
    Callback,
    newCallback,
    callbackPointer,
    freeCallback,
    withCallback,

    -- * Types
    Callable,
    Passable,

    -- * Carriers
    startCarriers,
    carrierCount,
  )
where

import Control.Exception (bracket)
import Data.Proxy (Proxy (..))
import Foreign.Ptr (FunPtr, Ptr, castPtr, plusPtr)
import Foreign.Storable (Storable (peek, poke, sizeOf))
import Millrace.Foreign.Internal.CType
import Millrace.Foreign.Internal.Call
import Millrace.Foreign.Internal.Callback

-- | Types of C functions: any number of 'Passable' arguments, and a 'Passable' result in 'IO'.
class Callable f where
  -- | A function of the remaining arguments. The arguments so far are in reverse order.
  calling :: ([Argument] -> Invocation) -> [Argument] -> f

  -- | Reads the arguments, makes the call, writes the result.
  serving :: f -> Handler

  -- | The kinds of the arguments, and that of the result.
  signature :: Proxy f -> ([CKind], CKind)

-- | Calls a C function whose result has some type.
newtype Invocation = Invocation (forall r. CKind -> (Ptr () -> IO r) -> IO r)

instance (Passable a, Callable f) => Callable (a -> f) where
  calling invoke given value = calling invoke (argument : given)
    where
      argument = value `seq` Argument (kindOf value) ((`poke` value) . castPtr)
  serving function arguments result = do
    value <- peek arguments >>= peek . castPtr
    serving (function value) (arguments `plusPtr` sizeOf arguments) result
  signature _ = (kindOf (undefined :: a) : rest, result)
    where
      (rest, result) = signature (Proxy :: Proxy f)

instance Passable r => Callable (IO r) where
  calling invoke given = run (kindOf (undefined :: r)) (peek . castPtr)
    where
      Invocation run = invoke (reverse given)
  serving action _ result = action >>= poke (castPtr result)
  signature _ = ([], kindOf (undefined :: r))

-- | Converts a C function, imported by its address, to a Haskell function that runs it on a fiber. The calling thread
-- waits, and no operating system thread does. Interruptible, see above. Throws an 'IOError' if there is no memory for a
-- fiber, and 'Millrace.Manager.NotThreaded'. A call adds some microseconds to the time of the C function.
--
-- > foreign import ccall "&recv" c_recv :: FunPtr (CInt -> Ptr Word8 -> CSize -> CInt -> IO CSsize)
-- >
-- > receive descriptor = allocaBytes 4096 $ \buffer -> do
-- >   count <- throwErrnoIfMinus1 "recv" (fiberCall c_recv descriptor buffer 4096 0)
-- >   ByteString.packCStringLen (castPtr buffer, fromIntegral count)
fiberCall :: Callable f => FunPtr f -> f
fiberCall = fiberCallWith defaultCall

-- | Converts a C function as 'fiberCall' does, with a deadline, another errno for interruptions, or a larger stack.
--
-- > deadline <- deadlineAfter (seconds 1)
-- > fiberCallWith defaultCall { callDeadline = deadline } c_recv descriptor buffer 4096 0   -- -1, ETIMEDOUT
fiberCallWith :: Callable f => CallOptions -> FunPtr f -> f
fiberCallWith options function = calling invocation []
  where
    invocation arguments = Invocation (perform options function arguments)

-- | A C function pointer for a Haskell function. C code that runs in 'fiberCall' can call it. The Haskell function runs
-- in the thread that made the call, while the fiber waits. It may block and call 'fiberCall', and it receives
-- exceptions thrown to its thread.
--
-- If it throws an exception, it returns 0 to C. The C code is interrupted, and when it has returned, the exception is
-- thrown again. After an exception has interrupted the call, callbacks still run, with exceptions masked
-- uninterruptibly. Exceptions that they throw are lost.
--
-- C may also call the pointer on OS threads. It then works like a pointer made by @foreign import \"wrapper\"@. Such
-- pointers can be called on fibers too, but block the carrier: one that waits for another fiber may wait for ever.
--
-- Does not block. Free it with 'freeCallback'.
newCallback :: forall f. Callable f => f -> IO (Callback f)
newCallback function = createCallback argumentKinds resultKind (serving function)
  where
    (argumentKinds, resultKind) = signature (Proxy :: Proxy f)

-- | A callback that exists while the action runs.
--
-- > foreign import ccall "&qsort"
-- >   c_qsort :: FunPtr (Ptr CInt -> CSize -> CSize -> FunPtr (Ptr CInt -> Ptr CInt -> IO CInt) -> IO ())
-- >
-- > sort numbers count = withCallback compareAt $ \compare -> fiberCall c_qsort numbers count 4 compare
-- >   where compareAt a b = (\x y -> fromIntegral (fromEnum (compare x y) - 1)) <$> peek a <*> peek b
withCallback :: Callable f => f -> (FunPtr f -> IO a) -> IO a
withCallback function action = bracket (newCallback function) freeCallback (action . callbackPointer)
