{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE CPP #-}

-- | The Haskell sides of the workloads of files, packets, processes and names. One source serves three sides: with
-- MILLRACE defined it uses Millrace, with SAFE_CALLS it reads by @pread@ through @safe@ foreign calls, and otherwise it
-- uses base's Handles and the packages of GHC. @toolkit.c@ measures, and prints the seconds and the processor time.
--
-- > toolkit read FILE READERS READS      each of READERS threads reads READS blocks of 4 KiB at random offsets
-- > toolkit direct FILE READERS READS    the same past the system's memory
-- > toolkit read-all FILE 1 MEGABYTES    reads so much of a file from its beginning
-- > toolkit write-all FILE 1 MEGABYTES   writes so much to a new file and syncs it
-- > toolkit copy-all FILE 1 MEGABYTES    copies a file to FILE.copy and syncs that
-- > toolkit processes - CALLERS TIMES      each of CALLERS threads runs the program true, TIMES times
-- > toolkit walk DIRECTORY 1 1           visits all names below a directory
-- > toolkit echo - BURST PACKETS         answers UDP packets, which arrive in bursts
-- > toolkit watch DIRECTORY 1 EVENTS     makes files, and waits for the report of each
-- > toolkit names - CALLERS LOOKUPS      each of CALLERS threads looks a name up, LOOKUPS times
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, replicateM_, unless)
import Data.Bits (shiftL, shiftR, xor)
import Data.Int (Int64)
import Data.Word (Word64)
import System.Environment (getArgs)
#ifdef MILLRACE
import Foreign.C.Types (CInt (..), CLong (..))
import Control.Monad (forM_, void, when)
import Data.IORef
import Millrace.Directory (Follow (..), walk)
import Millrace.File
import Millrace.File.Access
import Millrace.Name
import Millrace.Process
import Millrace.Socket (mkSocket)
import Millrace.Socket.Batch
import Millrace.Watch
#else
import Foreign (Ptr, Word8)
import qualified System.Process as Process
#ifdef SAFE_CALLS
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..), CSize (..))
import System.Posix.Types (COff (..), CSsize (..))

foreign import ccall safe "pread" pread :: CInt -> Ptr Word8 -> CSize -> COff -> IO CSsize

foreign import ccall unsafe "toolkit_open" openBlocks :: CString -> CInt -> IO CInt

foreign import ccall unsafe "toolkit_size" sizeOf :: CInt -> IO Int64
#else
import System.IO
#endif

foreign import ccall unsafe "toolkit_block" newBlock :: IO (Ptr Word8)
#endif

foreign import ccall unsafe "toolkit_begin" begin :: IO ()

foreign import ccall unsafe "toolkit_end" end :: IO ()

#ifdef MILLRACE
foreign import ccall unsafe "toolkit_udp_server" udpServer :: IO CInt

foreign import ccall unsafe "toolkit_udp_load" udpLoad :: CInt -> CLong -> CInt -> IO ()
#endif

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    [work, path, n, m] -> run work path (read n) (read m)
    _ -> error "usage: toolkit WORK PATH CALLERS TIMES"

callers :: Int -> (Int -> IO ()) -> IO ()
callers count work = do
  begin
  ends <- forM [1 .. count] $ \i -> do
    over <- newEmptyMVar
    over <$ forkIO (work i >> putMVar over ())
  mapM_ takeMVar ends
  end

-- | This many random offsets of blocks in a file of this size.
{-# INLINE atRandomBlocks #-}
atRandomBlocks :: Int64 -> Int -> Int -> (Int64 -> IO ()) -> IO ()
atRandomBlocks size seed count use = go count (fromIntegral seed * 0x9e3779b97f4a7c15)
  where
    blocks = fromIntegral (size `div` fromIntegral blockBytes) :: Word64
    go :: Int -> Word64 -> IO ()
    go 0 _ = return ()
    go left !x0 = do
      let x1 = x0 `xor` (x0 `shiftL` 13)
          x2 = x1 `xor` (x1 `shiftR` 7)
          x3 = x2 `xor` (x2 `shiftL` 17)
      use (fromIntegral ((x3 `shiftR` 11) `mod` blocks) * fromIntegral blockBytes)
      go (left - 1) x3

blockBytes :: Int
blockBytes = 4096

run :: String -> FilePath -> Int -> Int -> IO ()
#ifdef MILLRACE
run work path n m = case work of
  "read" -> withFile path ForReading (readers n m)
  "direct" -> withFileWith path ReadOnly [Direct] (readers n m)
  "read-all" -> withFile path ForReading $ \file -> do
    memory <- directMemory pieceBytes
    callers 1 $ \_ -> forM_ [0 .. m - 1] $ \i -> readIntoMemory file (fromIntegral (i * pieceBytes)) memory pieceBytes
  "write-all" -> withFile path ForWriting $ \file -> do
    memory <- directMemory pieceBytes
    callers 1 $ \_ -> do
      forM_ [0 .. m - 1] $ \i -> writeFromMemory file (fromIntegral (i * pieceBytes)) memory pieceBytes
      sync file
  "copy-all" -> callers 1 $ \_ -> do
    copyFile path (path ++ ".copy")
    withFile (path ++ ".copy") ForUpdating sync
  "processes" -> callers n $ \_ -> replicateM_ m $ do
    exit <- runProcess (command "true" [])
    unless (exit == Exited 0) (fail (show exit))
  "walk" -> do
    count <- newIORef (0 :: Int)
    callers 1 (\_ -> walk path Never (\_ -> modifyIORef' count (+ 1)))
  "echo" -> do
    descriptor <- udpServer
    server <- mkSocket descriptor
    udpLoad descriptor (fromIntegral m) (fromIntegral n)
    callers 1 (\_ -> echo server m)
  "watch" -> withWatch [path] Flat $ \watch -> callers 1 $ \_ -> forM_ [1 .. m] $ \i -> do
    withFile (path ++ "/" ++ show i) ForWriting (\_ -> return ())
    void (nextEvents watch)
  "names" -> callers n $ \_ -> replicateM_ m (lookUp (host "localhost" "80"))
  _ -> error ("there is no work " ++ work)
  where
    echo server left = when (left > 0) $ do
      packets <- receiveBatch server 64 2048
      sendBatch server packets
      echo server (left - length packets)

pieceBytes :: Int
pieceBytes = 1048576

readers :: Int -> Int -> File -> IO ()
readers n m file = do
  size <- fileSize file
  callers n $ \seed -> do
    memory <- directMemory blockBytes
    atRandomBlocks size seed m $ \offset -> do
      count <- readIntoMemory file offset memory blockBytes
      unless (count == blockBytes) (fail "a short read")
#else
run work path n m = case work of
  "processes" -> callers n $ \_ -> replicateM_ m (Process.callProcess "true" [])
#ifdef SAFE_CALLS
  "read" -> withCString path (`openBlocks` 0) >>= readers
  "direct" -> withCString path (`openBlocks` 1) >>= readers
#else
  "read" -> do
    handles <- mapM (const (openBinaryFile path ReadMode)) [1 .. n]
    size <- mapM hFileSize (take 1 handles)
    callers n $ \seed -> do
      memory <- newBlock
      let handle = handles !! (seed - 1)
      atRandomBlocks (fromIntegral (sum size)) seed m $ \offset -> do
        hSeek handle AbsoluteSeek (fromIntegral offset)
        count <- hGetBuf handle memory blockBytes
        unless (count == blockBytes) (fail "a short read")
#endif
  _ -> error ("there is no work " ++ work ++ " on " ++ path)
#ifdef SAFE_CALLS
  where
    readers descriptor = do
      size <- sizeOf descriptor
      callers n $ \seed -> do
        memory <- newBlock
        atRandomBlocks size seed m $ \offset -> do
          count <- pread descriptor memory (fromIntegral blockBytes) (fromIntegral offset)
          unless (fromIntegral count == blockBytes) (fail "a short read")
#endif
#endif
