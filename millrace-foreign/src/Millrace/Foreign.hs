{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Blocking C functions that block no thread.
--
-- 'fiberCall' gives a C function the type that it has. The function runs on a /fiber/, a C stack of its own on one of a
-- few operating system threads, the /carriers/. Where it would block in libc (@recv@, @connect@, @poll@, @nanosleep@,
-- @getaddrinfo@, @pthread_mutex_lock@, ...), the fiber parks and its carrier goes on with others; the library that does
-- it need not know. Of Haskell only the calling thread waits, as on an 'Control.Concurrent.MVar.MVar'.
--
-- > foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)
-- >
-- > main = forConcurrently_ [1 .. 1000] (\_ -> fiberCall c_sleep 1)   -- takes a second, on a few threads
--
-- == Exceptions
--
-- An asynchronous exception ('Control.Concurrent.killThread', 'System.Timeout.timeout') reaches into the call: the wait
-- that the C code is parked in, or else its next one, fails with @EINTR@, or with @ETIMEDOUT@ if the exception is a
-- timeout. The C code unwinds as after any error, and when it has returned the exception is thrown.
--
-- * C code that ignores the error and waits again is waited for, however long that takes; exceptions that come
--   meanwhile stay pending. The same holds for C code that computes.
-- * Waits for locks, files, names (@getaddrinfo@), threads (@pthread_join@), and for @system@, @posix_spawn@, @popen@ and
--   @pclose@ are not interrupted.
-- * What an interrupted call returned is dropped. Where that would lose something (a descriptor that was opened), call
--   it in 'Control.Exception.uninterruptibleMask_' and bound it by 'callDeadline'.
--
-- == errno
--
-- Is left to the calling thread as by any foreign call:
--
-- > throwErrnoIfMinus1 "read" (fiberCall c_read descriptor buffer 4096)
--
-- == Rules
--
-- * Link with @-threaded@; otherwise calls throw 'Millrace.Manager.NotThreaded'.
-- * Memory whose address is passed must not move and must outlive the call, as with @safe@ foreign calls:
--   'Foreign.Marshal.Alloc.alloca', 'Foreign.ForeignPtr.withForeignPtr', pinned byte arrays.
--   (GHC 9.0 collects what 'Foreign.Marshal.Alloc.alloca' gave to an action that it sees will never return, such as one
--   that ends in 'Control.Monad.forever'.)
-- * A fiber stays on its carrier, so thread-local variables of C keep their addresses; but the fibers of a carrier share
--   them (errno excepted). Two calls for the same C object may run on different threads.
-- * What still blocks, a program tells on standard error with @MILLRACE_FIBER_DEBUG=uncovered,locks,watchdog=100@ in its
--   environment: calls that are not replaced, locks that are held while waiting, whatever holds a carrier for 100 ms.
-- * In GHCi and Template Haskell calls work, but hold their carrier while they wait, and exceptions wait for them: libc is
--   there before this package is loaded.
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
import Millrace.Foreign.Internal.Call
import Millrace.Foreign.Internal.Callback
import Millrace.Foreign.Internal.Type

-- | Types of C functions: any number of 'Passable' arguments, and a 'Passable' result in 'IO'.
--
-- @since 0.1.0
class Callable f where
  -- | A function of the arguments still to come. Those that were given are in reverse.
  calling :: ([Argument] -> Invocation) -> [Argument] -> f

  -- | Reads arguments, calls, writes the result.
  serving :: f -> Handler

  -- | The kinds of the arguments, and that of the result.
  signature :: Proxy f -> ([Kind], Kind)

-- | Calls a C function whose result has some type.
newtype Invocation = Invocation (forall r. Kind -> (Ptr () -> IO r) -> IO r)

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

-- | A C function, imported by its address, as a Haskell function that runs it on a fiber. The calling thread waits; no
-- operating system thread does. Interruptible, see above. Throws an 'IOError' when there is no memory for a fiber, and
-- 'Millrace.Manager.NotThreaded'. O(1) besides what C does: some microseconds.
--
-- > foreign import ccall "&recv" c_recv :: FunPtr (CInt -> Ptr Word8 -> CSize -> CInt -> IO CSsize)
-- >
-- > receive descriptor = allocaBytes 4096 $ \buffer -> do
-- >   count <- throwErrnoIfMinus1 "recv" (fiberCall c_recv descriptor buffer 4096 0)
-- >   ByteString.packCStringLen (castPtr buffer, fromIntegral count)
--
-- @since 0.1.0
fiberCall :: Callable f => FunPtr f -> f
fiberCall = fiberCallWith defaultCall

-- | The same with a deadline, another errno for interruptions, or a larger stack.
--
-- > deadline <- deadlineAfter 1000000
-- > fiberCallWith defaultCall { callDeadline = deadline } c_recv descriptor buffer 4096 0   -- -1, ETIMEDOUT
--
-- @since 0.1.0
fiberCallWith :: Callable f => CallOptions -> FunPtr f -> f
fiberCallWith options function = calling invocation []
  where
    invocation arguments = Invocation (perform options function arguments)

-- | A C function pointer for a Haskell function, to be called by C code that runs in 'fiberCall'. It is run by the
-- Haskell thread that made the call, while the fiber waits: it may block, call 'fiberCall', and meets exceptions that
-- are thrown to its thread.
--
-- An exception that it throws makes it return 0 to C, interrupts the C code, and is thrown again when that has returned.
-- After an exception has interrupted the call, callbacks still run, with exceptions masked uninterruptibly, so that one that
-- waits cannot be interrupted again; what they throw is lost.
--
-- C may also call the pointer on threads that are no fibers; it then is what @foreign import \"wrapper\"@ makes. Those
-- may be called on fibers too, but hold up the carrier: one that waits for another fiber may wait for ever.
--
-- Does not block. Free it with 'freeCallback'.
--
-- @since 0.1.0
newCallback :: forall f. Callable f => f -> IO (Callback f)
newCallback function = createCallback argumentKinds resultKind (serving function)
  where
    (argumentKinds, resultKind) = signature (Proxy :: Proxy f)

-- | A callback for as long as the action takes.
--
-- > foreign import ccall "&qsort"
-- >   c_qsort :: FunPtr (Ptr CInt -> CSize -> CSize -> FunPtr (Ptr CInt -> Ptr CInt -> IO CInt) -> IO ())
-- >
-- > sort numbers count = withCallback compareAt $ \compare -> fiberCall c_qsort numbers count 4 compare
-- >   where compareAt a b = (\x y -> fromIntegral (fromEnum (compare x y) - 1)) <$> peek a <*> peek b
--
-- @since 0.1.0
withCallback :: Callable f => f -> (FunPtr f -> IO a) -> IO a
withCallback function action = bracket (newCallback function) freeCallback (action . callbackPointer)
