-- Must not know: sockets.

-- | Jobs on paths and open files, with the errors of the functions that ask for them.
module Millrace.Internal.FileJob
  ( onPath,
    onPaths,
    failingAt,
    onFile,
    onFileKeeping,
    onFileStaying,
    JobEnd,
    endingBeforeCaller,
    onFileUntil,
    outputBytes,
    outputNumbers,
    openFor,
    named,
    closeNumber,
    askUntil,
    Work,
    Job (..),
    job,
    runJob,
    closing,
    handOver,
    refuseSimulation,
  )
where

import Control.Exception (mask_, onException, throwIO, uninterruptibleMask_)
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno, eTIMEDOUT)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (ForeignPtr)
import Foreign.Marshal.Array (peekArray)
import Foreign.Ptr (FunPtr, castPtr)
import Millrace.Deadline (Deadline)
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File
import Millrace.Internal.HelperJob
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Timer (microsUntil)
import Millrace.Operation (adopt)
import Millrace.Timer (threadDelay)

foreign import ccall unsafe "mrh_close" c_close_number :: CInt -> IO CInt

-- | Closes a descriptor that was not adopted.
closeNumber :: CInt -> IO ()
closeNumber number = void (c_close_number number)

-- | @askUntil deadline function object ask@ asks again after 1 to 50 milliseconds until there is an answer. Use it
-- where only a blocked operating system thread could wait in the system. It asks at least once, and at the deadline
-- once more.
askUntil :: Deadline -> String -> String -> IO (Maybe a) -> IO a
askUntil deadline function object ask = go 1000
  where
    go pauseMicros = do
      left <- microsUntil deadline
      let again
            | left <= 0 = throwIO (failure function object eTIMEDOUT)
            | otherwise = threadDelay (min pauseMicros left) >> go (min 50000 (pauseMicros * 2))
      ask >>= maybe again return

-- | Throws the error of a job, with the name of the function and the path.
named :: String -> FilePath -> Either Errno r -> IO r
named function path = either (throwIO . failure function path) return

-- | @onPath function path work numbers means@ has a job done that takes a path.
onPath :: String -> FilePath -> FunPtr Work -> [Int64] -> (Int64 -> Output -> IO r) -> IO r
onPath function path work numbers means = do
  name <- pathBytes function path
  runJob (job work numbers [name] `meaning` means) >>= named function path

-- | A job of several steps, which says about which path its error is (@mrh_fail_at@).
failingAt :: String -> Job r -> Job r
failingAt function what = what {jobFailing = failing}
  where
    failing code output@(Output _ count)
      | count == 0 = return ()
      | otherwise = outputBytes output >>= pathFrom >>= \path -> throwIO (failure function path code)

-- | Has a job done that takes two paths and has no result.
onPaths :: String -> FilePath -> FilePath -> FunPtr Work -> [Int64] -> IO ()
onPaths function from to work numbers = do
  names <- mapM (pathBytes function) [from, to]
  void (runJob (job work numbers names) >>= named function (from ++ ", " ++ to))

-- | Has a job done whose first number is the descriptor of an open file. The file stays open until the job's end.
onFile :: String -> File -> FunPtr Work -> [Int64] -> Maybe (ForeignPtr Word8) -> (Int64 -> Output -> IO r) -> IO r
onFile = onFileKeeping (return ())

-- | Has a job done as 'onFile' does, and runs an action when the job has ended or was not begun.
onFileKeeping ::
  IO () -> String -> File -> FunPtr Work -> [Int64] -> Maybe (ForeignPtr Word8) -> (Int64 -> Output -> IO r) -> IO r
onFileKeeping atEnd = onFileUntil (JobEnd MayOutliveCaller (\_ -> return ()) atEnd)

-- | Has a job done as 'onFile' does, with the caller's memory: when it returns or throws, no helper uses the memory any
-- more.
onFileStaying ::
  String -> File -> FunPtr Work -> [Int64] -> Maybe (ForeignPtr Word8) -> (Int64 -> Output -> IO r) -> IO r
onFileStaying = onFileUntil (endingBeforeCaller (\_ -> return ()) (return ()))

-- | What happens when a job on a file ends.
data JobEnd = JobEnd
  { endLifetime :: !Lifetime,
    -- | Gets the job's result if the caller is interrupted after the job has begun, unless the job has failed. The
    -- exception is thrown afterwards.
    endDispose :: !(Int64 -> IO ()),
    -- | Runs when the job has ended or was not begun.
    endRelease :: !(IO ())
  }

-- | The end of a job that ends before its caller continues: 'endDispose' and 'endRelease'.
endingBeforeCaller :: (Int64 -> IO ()) -> IO () -> JobEnd
endingBeforeCaller = JobEnd EndsBeforeCaller

-- | Has a job done as 'onFile' does, with this end.
onFileUntil ::
  JobEnd -> String -> File -> FunPtr Work -> [Int64] -> Maybe (ForeignPtr Word8) -> (Int64 -> Output -> IO r) -> IO r
onFileUntil end function file work numbers memory means = mask_ $ do
  (descriptor, release) <- useFile function file (curry return) `onException` endRelease end
  runJob
    (job work (fromIntegral descriptor : numbers) [] `meaning` means)
      { jobMemory = memory,
        jobLifetime = endLifetime end,
        jobDispose = endDispose end,
        jobRelease = release >> endRelease end
      }
    >>= checked function file

-- | Runs a job that opens this path and returns a descriptor, and makes a file of it. The job disposes of the
-- descriptor if its caller has stopped waiting. Call it masked, and close the file.
openFor :: String -> FilePath -> Memory -> Job Int64 -> IO File
openFor function path memory what = do
  descriptor <- fromIntegral <$> (runJob what >>= named function path)
  handle <- adopt descriptor `onException` uninterruptibleMask_ (closeNumber descriptor)
  return (File handle path memory)

-- | The job's result is a descriptor, which is closed if no thread waits for it any more.
closing :: Job r -> Job r
closing what = what {jobDispose = closeNumber . fromIntegral}

-- | A copy of the output.
outputBytes :: Output -> IO ByteString
outputBytes (Output target count) = ByteString.packCStringLen (castPtr target, count)

-- | The output as numbers of 64 bits.
outputNumbers :: Output -> IO [Int64]
outputNumbers (Output target count) = peekArray (count `div` 8) (castPtr target)
