-- | What the tests share: random sizes and bytes, servers, folders, and what a process has open.
module Support
  ( -- * Bytes
    randoms,
    sizes,
    bytesOf,
    readAll,
    readExactly,

    -- * Servers
    withTCP,
    withUnix,
    withThread,
    tellPort,

    -- * Others
    withFolder,
    within,
    withoutLeaks,
    liveBytes,
  )
where

import Control.Concurrent (ThreadId, forkIOWithUnmask, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (bracket, finally)
import Control.Monad (when, (>=>))
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Word (Word64)
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Millrace.Streaming.Network
import qualified Millrace.Timer as Timer
import qualified Network.Socket as Network
import System.Directory (createDirectory, getTemporaryDirectory, listDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)
import Test.Hspec (expectationFailure)

-- | Pseudo-random numbers: the same ones for the same seed.
randoms :: Word64 -> [Int]
randoms seed =
  map (fromIntegral . (`shiftR` 33)) (drop 1 (iterate (\n -> n * 6364136223846793005 + 1442695040888963407) (seed + 1)))

-- | Sizes of pieces, from small to larger than the system takes at once.
sizes :: Word64 -> Int -> [Int]
sizes seed count =
  take
    count
    [ if kind `mod` 4 == 0 then n `mod` 400000 else n `mod` 2000
      | (kind, n) <-
          zip (randoms seed) (randoms (seed + 1000))
    ]

-- | This many bytes of an endless text, from an offset on.
bytesOf :: Int -> Int -> ByteString
bytesOf offset size = ByteString.take size (ByteString.drop (offset `mod` ByteString.length text) repeated)
  where
    repeated = ByteString.concat (replicate (size `div` ByteString.length text + 2) text)
    text = Char8.pack (concatMap show [1000 .. 1999 :: Int])

-- | Everything until the end.
readAll :: IO ByteString -> IO ByteString
readAll next = go []
  where
    go before = do
      piece <- next
      if ByteString.null piece then return (ByteString.concat (reverse before)) else go (piece : before)

-- | This many bytes, or fewer at the end.
readExactly :: Int -> IO ByteString -> IO ByteString
readExactly total next = ByteString.concat <$> go total
  where
    go 0 = return []
    go left = do
      piece <- next
      if ByteString.null piece then return [] else (piece :) <$> go (left - ByteString.length piece)

-- | Runs a server of ours on a port of the system's choice, and settings for a client.
withTCP :: (ServerSettings -> ServerSettings) -> (AppData -> IO ()) -> (ClientSettings -> IO a) -> IO a
withTCP change serve use = do
  port <- newEmptyMVar
  withThread (runTCPServer (change (tellPort port (serverSettingsTCP 0 (hostOf "127.0.0.1")))) serve) $ \_ -> do
    number <- within 10 "the server's start" (takeMVar port)
    use (clientSettingsTCP number (Char8.pack "127.0.0.1"))
  where
    hostOf = read . ("Host " ++) . show :: String -> HostPreference

-- | Arranges that a server tells its port.
tellPort :: MVar Int -> ServerSettings -> ServerSettings
tellPort port = setAfterBind (Network.socketPort >=> putMVar port . fromIntegral)

withUnix :: (AppDataUnix -> IO ()) -> (ClientSettingsUnix -> IO a) -> IO a
withUnix serve use = withFolder $ \folder -> do
  listens <- newEmptyMVar
  let path = folder </> "socket"
  withThread (runUnixServer (setAfterBind (\_ -> putMVar listens ()) (serverSettingsUnix path)) serve) $ \_ -> do
    within 10 "the server's start" (takeMVar listens)
    use (clientSettingsUnix path)

-- | Runs an action in another thread, which is ended afterwards.
withThread :: IO () -> (ThreadId -> IO a) -> IO a
withThread action use = do
  ended <- newEmptyMVar
  bracket
    (forkIOWithUnmask (\unmask -> unmask action `finally` putMVar ended ()))
    (\thread -> killThread thread >> takeMVar ended)
    use

folders :: IORef Int
folders = unsafePerformIO (newIORef 0)
{-# NOINLINE folders #-}

withFolder :: (FilePath -> IO a) -> IO a
withFolder = bracket create removeDirectoryRecursive
  where
    create = do
      temporary <- getTemporaryDirectory
      process <- getProcessID
      number <- atomicModifyIORef' folders (\n -> (n + 1, n))
      let folder = temporary </> ("millrace-streaming-" ++ show process ++ "-" ++ show number)
      folder <$ createDirectory folder

-- | Fails when it takes longer than this many seconds.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  Timer.timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

-- | Checks that no more descriptors are open after an action than before it. Connections may close a little later than
-- their action ends. Managers open some when they start, but only once; so if there are more, the action runs again.
withoutLeaks :: IO () -> IO ()
withoutLeaks action = do
  hasMore <- leaves
  hasMoreAgain <- if hasMore then leaves else return False
  when hasMoreAgain (expectationFailure "more descriptors are open than before")
  where
    leaves = do
      before <- openCount
      action
      wait before (250 :: Int)
    wait before tries = do
      now <- openCount
      if now <= before || tries == 0 then return (now > before) else threadDelay 20000 >> wait before (tries - 1)
    openCount = length <$> listDirectory "/proc/self/fd"

-- | How many bytes are alive now.
liveBytes :: IO Int
liveBytes = performMajorGC >> fromIntegral . gcdetails_live_bytes . gc <$> getRTSStats
