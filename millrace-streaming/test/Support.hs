-- | What the tests share: random sizes, and servers of the package.
module Support
  ( randoms,
    sizes,
    withTCP,
    withUnix,
    tellPort,
    withFolder,
  )
where

import Control.Concurrent.MVar
import Control.Monad ((>=>))
import Data.Bits (shiftR)
import qualified Data.ByteString.Char8 as Char8
import Data.Word (Word64)
import Millrace.Streaming.Network
import qualified Network.Socket as Network
import System.FilePath ((</>))
import TestSupport.Folder (withTemporaryFolder)
import TestSupport.Job (withThread)
import TestSupport.Time (within)

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

-- | Runs a server of this package on a free port while the action runs, which gets settings for a client.
withTCP :: (ServerSettings -> ServerSettings) -> (AppData -> IO ()) -> (ClientSettings -> IO a) -> IO a
withTCP change serve use = do
  port <- newEmptyMVar
  withThread (runTCPServer (change (tellPort port (serverSettingsTCP 0 (hostOf "127.0.0.1")))) serve) $ \_ -> do
    number <- within 10 "the server's start" (takeMVar port)
    use (clientSettingsTCP number (Char8.pack "127.0.0.1"))
  where
    hostOf = read . ("Host " ++) . show :: String -> HostPreference

-- | Settings with which a server puts its port into a variable.
tellPort :: MVar Int -> ServerSettings -> ServerSettings
tellPort port = setAfterBind (Network.socketPort >=> putMVar port . fromIntegral)

-- | Runs a server of this package on a Unix socket while the action runs, which gets settings for a client.
withUnix :: (AppDataUnix -> IO ()) -> (ClientSettingsUnix -> IO a) -> IO a
withUnix serve use = withFolder $ \folder -> do
  listens <- newEmptyMVar
  let path = folder </> "socket"
  withThread (runUnixServer (setAfterBind (\_ -> putMVar listens ()) (serverSettingsUnix path)) serve) $ \_ -> do
    within 10 "the server's start" (takeMVar listens)
    use (clientSettingsUnix path)

-- | Makes an empty folder for the time of an action.
withFolder :: (FilePath -> IO a) -> IO a
withFolder = withTemporaryFolder "millrace-streaming"
