-- | Jobs: calls that may wait, and for which there is no operation. The helper threads of @cbits\/posix\/pool.h@ make
-- them, while the green thread that asked is parked.
--
-- 1. A job is freed exactly once: by the thread that waits for it, or by its keeper.
-- 2. A thread that stops waiting leaves a job that has begun to a keeper: a green thread that keeps the job's memory
--    alive, waits for its end and disposes of the result. So nothing leaks, and no helper uses freed memory. If the
--    memory belongs to the caller, the thread waits itself.
-- 3. A job that no helper has begun is withdrawn.
-- 4. Within a simulation, jobs on files and directories are done on the machine (@cbits\/posix\/simulated_files.h@),
--    and others refused.
module Millrace.Internal.HelperJob
  ( Job (..),
    job,
    meaning,
    Lifetime (..),
    HelperPool (..),
    Work,
    Output (..),
    runJob,
    runJobBefore,
    keptAlive,
    refuseSimulation,
  )
where

import Control.Concurrent (forkIOWithUnmask)
import qualified Control.Concurrent as Base (threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, takeMVar)
import Control.Exception (SomeException, catch, finally, mask_, onException, throwIO, try, uninterruptibleMask_)
import Control.Monad (unless, void, when, zipWithM_)
import Data.ByteString (ByteString, useAsCString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eNOMEM, eNOSYS, eTIMEDOUT)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (ForeignPtr, touchForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (FunPtr, Ptr, nullPtr)
import GHC.Conc (labelThread, myThreadId)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Constants.Jobs (statusBytes)
import Millrace.Internal.CoreCalls (Token (..), isSimulatedHere)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Timer (Timer (..), microsUntil, startTimer, stopTimer, withTimer)
import Millrace.Internal.TimerTable (Action (..))
import System.IO.Error (illegalOperationErrorType, ioeSetErrorString, mkIOError)

-- | An @mr_work@.
data Work

-- | An @mrh_job@.
data RunningJob

-- | The pool of helpers that does the job.
data HelperPool = Files | Names
  deriving (Eq, Enum)

-- | The work, and what it needs.
data Job r = Job
  { jobWork :: !(FunPtr Work),
    jobPool :: !HelperPool,
    jobNumbers :: [Int64],
    -- | At most two, without NULs.
    jobTexts :: [ByteString],
    -- | Memory that the helper reads or writes.
    jobMemory :: !(Maybe (ForeignPtr Word8)),
    jobLifetime :: !Lifetime,
    -- | Releases what the job uses, for instance a descriptor. Runs once, when the job has ended or was not begun.
    jobRelease :: IO (),
    -- | Disposes of a result for which no thread waits any more. Runs masked, before 'jobRelease'.
    jobDispose :: Int64 -> IO (),
    -- | Converts the result, and the output while it exists. It runs masked.
    jobMeaning :: Int64 -> Output -> IO r,
    -- | Gets the error of a job that has failed, and the output while it exists, which may be empty. It may throw an
    -- error that says more.
    jobFailing :: Errno -> Output -> IO ()
  }

-- | What becomes of a job that a helper has begun when its caller is interrupted.
data Lifetime
  = -- | It continues without its caller.
    MayOutliveCaller
  | -- | The caller waits for its end, because it may use the memory for something else afterwards.
    EndsBeforeCaller
  deriving (Eq)

-- | The memory that a job's work has allocated: its address, and its size in bytes.
data Output = Output !(Ptr Word8) !Int

-- | A job for files that needs numbers and texts only, and whose result needs no disposal.
job :: FunPtr Work -> [Int64] -> [ByteString] -> Job Int64
job work numbers texts =
  Job
    { jobWork = work,
      jobPool = Files,
      jobNumbers = numbers,
      jobTexts = texts,
      jobMemory = Nothing,
      jobLifetime = MayOutliveCaller,
      jobRelease = return (),
      jobDispose = \_ -> return (),
      jobMeaning = \result _ -> return result,
      jobFailing = \_ _ -> return ()
    }

-- | Replaces the meaning of a job's result.
meaning :: Job r -> (Int64 -> Output -> IO s) -> Job s
meaning what means =
  Job
    { jobWork = jobWork what,
      jobPool = jobPool what,
      jobNumbers = jobNumbers what,
      jobTexts = jobTexts what,
      jobMemory = jobMemory what,
      jobLifetime = jobLifetime what,
      jobRelease = jobRelease what,
      jobDispose = jobDispose what,
      jobMeaning = means,
      jobFailing = jobFailing what
    }

foreign import ccall unsafe "mrh_job_create"
  c_create :: FunPtr Work -> CInt -> CString -> CString -> IO (Ptr RunningJob)

foreign import ccall unsafe "mrh_job_set" c_set :: Ptr RunningJob -> CInt -> Int64 -> IO ()

foreign import ccall unsafe "mrh_job_set_memory" c_lend :: Ptr RunningJob -> Ptr Word8 -> IO ()

foreign import ccall unsafe "mrh_do_in_place"
  c_do_in_place :: FunPtr Work -> CString -> CSize -> Int64 -> Ptr Word8 -> IO Int64

foreign import ccall unsafe "mrh_job_submit" c_submit_job :: Ptr RunningJob -> Token -> IO CInt

foreign import ccall unsafe "mrh_job_is_done" c_is_done :: Ptr RunningJob -> IO CInt

foreign import ccall unsafe "mrh_job_watch" c_watch :: Ptr RunningJob -> Token -> IO CInt

foreign import ccall unsafe "mrh_job_withdraw" c_withdraw :: Ptr RunningJob -> IO CInt

foreign import ccall unsafe "mrh_job_result" c_result :: Ptr RunningJob -> IO Int64

foreign import ccall unsafe "mrh_job_output" c_output :: Ptr RunningJob -> IO (Ptr Word8)

foreign import ccall unsafe "mrh_job_output_bytes" c_output_bytes :: Ptr RunningJob -> IO Int64

foreign import ccall unsafe "mrh_job_free" c_free :: Ptr RunningJob -> IO ()

foreign import ccall unsafe "mrh_job_simulate_begin" c_simulate_begin :: Ptr RunningJob -> IO Int64

foreign import ccall unsafe "mrh_job_simulate" c_simulate :: Ptr RunningJob -> IO ()

-- | Has a job done, and returns the meaning of its result, or the error that it failed with. Interruptible: the job
-- then continues without its caller. @keptAlive dispose@ around it makes sure that a result is not lost between the job
-- and its caller.
runJob :: Job r -> IO (Either Errno r)
runJob = runJobBefore noDeadline
{-# INLINE runJob #-}

-- | Has a job done, as 'runJob' does. After the deadline the result is @ETIMEDOUT@, and the job continues without its
-- caller.
runJobBefore :: Deadline -> Job r -> IO (Either Errno r)
runJobBefore deadline what = mask_ $ do
  isSimulated <- isSimulatedHere
  if isSimulated
    then created what (simulated deadline)
    else inPlace what >>= maybe (created what (waitAtMost deadline)) return
{-# INLINE runJobBefore #-}

-- Does a job at once that need not wait (@cbits\/posix\/in_place.h@); another is left to a helper.
inPlace :: Job r -> IO (Maybe (Either Errno r))
inPlace what = allocaBytes statusBytes $ \memory -> do
  result <- unsafeUseAsCStringLen text $ \(bytes, count) ->
    c_do_in_place (jobWork what) bytes (fromIntegral count) number memory
  if codeOf result == eAGAIN
    then return Nothing
    else Just <$> interpreted what result (output memory result) `finally` jobRelease what
  where
    text = fromMaybe ByteString.empty (listToMaybe (jobTexts what))
    number = fromMaybe 0 (listToMaybe (jobNumbers what))
    output memory result = Output memory (if result < 0 then 0 else statusBytes)
{-# INLINE inPlace #-}

-- Makes the job for others, who free it.
created :: Job r -> (Ptr RunningJob -> Job r -> IO (Either Errno r)) -> IO (Either Errno r)
created what begin = do
  running <- create what `onException` jobRelease what
  if running == nullPtr then Left eNOMEM <$ jobRelease what else begin running what

-- What a job has returned, or its error.
interpreted :: Job r -> Int64 -> Output -> IO (Either Errno r)
interpreted what result output
  | result < 0 = Left (codeOf result) <$ jobFailing what (codeOf result) output
  | otherwise = Right <$> jobMeaning what result output
{-# INLINE interpreted #-}

codeOf :: Int64 -> Errno
codeOf result = Errno (fromIntegral (negate result))

-- Does a job on a simulated machine: within this thread, after its delay. If the thread is interrupted before, or its
-- deadline passes, the job is not done.
simulated :: Deadline -> Ptr RunningJob -> Job r -> IO (Either Errno r)
simulated deadline running what = do
  begun <- c_simulate_begin running
  let refusal = codeOf begun
  if begun < 0
    then do
      neverBegun running what
      when (refusal == eNOSYS) refuse
      return (Left refusal)
    else do
      let delay = fromIntegral ((begun + 999) `div` 1000)
      left <- microsUntil deadline
      when (delay > 0) $ waitMicros (min delay left) `onException` neverBegun running what
      if delay > left
        then Left eTIMEDOUT <$ neverBegun running what
        else c_simulate running >> takeResult running what

waitMicros :: Int -> IO ()
waitMicros delay = do
  woken <- newEmptyMVar
  withTimer delay (Wake woken) (takeMVar woken)

neverBegun :: Ptr RunningJob -> Job r -> IO ()
neverBegun running what = c_free running >> jobRelease what

-- | A result that the caller must have or dispose of, such as a descriptor: see 'handOver'.
keptAlive :: (r -> IO ()) -> IO (Either e r) -> IO (Either e r)
keptAlive dispose = handOver (either (const (return ())) dispose)

-- | Throws within a simulation: the call would act on the real system, in an order that does not depend on the seed.
refuseSimulation :: IO ()
refuseSimulation = do
  isSimulated <- isSimulatedHere
  when isSimulated refuse

refuse :: IO a
refuse =
  throwIO $
    mkIOError illegalOperationErrorType "Millrace" Nothing Nothing
      `ioeSetErrorString` "this function has no simulation: within Millrace.Simulation there are files, directories \
                          \and sockets; use sockets in memory of pipes and processes"

create :: Job r -> IO (Ptr RunningJob)
create what = withTexts (jobTexts what) $ \first second -> do
  fresh <- c_create (jobWork what) (fromIntegral (fromEnum (jobPool what))) first second
  unless (fresh == nullPtr) $ do
    zipWithM_ (c_set fresh) [0 ..] (jobNumbers what)
    maybe (return ()) (c_lend fresh . unsafeForeignPtrToPtr) (jobMemory what)
  return fresh

withTexts :: [ByteString] -> (CString -> CString -> IO a) -> IO a
withTexts texts use = case texts of
  [] -> use nullPtr nullPtr
  [one] -> useAsCString one (`use` nullPtr)
  one : other : _ -> useAsCString one (useAsCString other . use)

-- Submits it and waits for its end or the deadline.
waitAtMost :: Deadline -> Ptr RunningJob -> Job r -> IO (Either Errno r)
waitAtMost deadline running what = do
  woken <- newEmptyMVar
  delay <- microsUntil deadline `onException` neverBegun running what
  timer@(Timer token) <- startTimer delay (Wake woken) `onException` neverBegun running what
  refusal <- c_submit_job running token
  if refusal < 0
    then stopTimer timer >> neverBegun running what >> return (Left (Errno (negate refusal)))
    else do
      takeMVar woken `catch` \exception -> do
        void (stopTimer timer)
        leave running what
        throwIO (exception :: SomeException)
      isDone <- c_is_done running
      if isDone /= 0 then takeResult running what else Left eTIMEDOUT <$ leave running what

-- For a job that has ended.
takeResult :: Ptr RunningJob -> Job r -> IO (Either Errno r)
takeResult running what = taken `finally` (c_free running >> touchMemory what >> jobRelease what)
  where
    taken = do
      result <- c_result running
      Output <$> c_output running <*> (fromIntegral <$> c_output_bytes running) >>= interpreted what result

-- The caller stops waiting: withdraws the job or, if a helper has begun it and it may continue alone, leaves it to a
-- keeper.
leave :: Ptr RunningJob -> Job r -> IO ()
leave running what = uninterruptibleMask_ $ do
  isWithdrawn <- c_withdraw running
  if isWithdrawn /= 0
    then c_free running >> jobRelease what
    else case jobLifetime what of
      MayOutliveCaller -> void $ forkIOWithUnmask (\_ -> labelled >> keep)
      EndsBeforeCaller -> keep
  where
    labelled = myThreadId >>= (`labelThread` "Millrace keeper of a job")
    keep = keepUntilItEnds running what

keepUntilItEnds :: Ptr RunningJob -> Job r -> IO ()
keepUntilItEnds running what = uninterruptibleMask_ $ do
  woken <- newEmptyMVar
  armed <- try (startTimer maxBound (Wake woken))
  case armed of
    Right timer@(Timer token) -> do
      isDone <- c_watch running token
      if isDone /= 0 then void (stopTimer timer) else takeMVar woken
    Left problem -> askUntilItEnds problem
  result <- c_result running
  c_free running
  (unless (result < 0) (jobDispose what result) `catch` ignore) `finally` (touchMemory what >> jobRelease what)
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()
    -- Without memory or descriptors there may be no timer. The job ends nevertheless, and its memory and descriptors
    -- must be released.
    askUntilItEnds :: SomeException -> IO ()
    askUntilItEnds problem = do
      isDone <- c_is_done running
      when (isDone == 0) $ Base.threadDelay 10000 >> askUntilItEnds problem

touchMemory :: Job r -> IO ()
touchMemory = maybe (return ()) touchForeignPtr . jobMemory
