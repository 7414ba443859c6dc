-- | The memory of clients that wait for a line: so many threads in @linesOf 1000 (fromSocket s)@, each of which has had
-- one line. It prints the bytes of the heap that are live and the bytes of the process, for each client, without what
-- the kernel has for the sockets. Fails if one of them exceeds 5,000.
--
-- > millrace-idle-lines 4000
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Monad (forM, replicateM, replicateM_, unless, void)
import qualified Data.ByteString.Char8 as Char8
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Stream
import System.Environment (getArgs)
import System.Exit (exitFailure)
import System.Mem (performMajorGC)

main :: IO ()
main = do
  [count] <- map read <$> getArgs
  -- What the library has for itself, and what is there once for all clients.
  void (waitingClients 100)
  pairs <- replicateM count (socketPair AF_UNIX Stream defaultProtocol)
  before <- memory
  waiting <- waitingPairs pairs
  after <- memory
  let each f = (f after - f before) `div` count
  putStrLn ("live heap: " ++ show (each fst) ++ " bytes for each client; process: " ++ show (each snd) ++ " bytes")
  unless (each fst <= limit && each snd <= limit) exitFailure
  mapM_ (close . fst) waiting
  where
    limit = 5000
    waitingClients count = replicateM count (socketPair AF_UNIX Stream defaultProtocol) >>= waitingPairs

-- Serves one end of each, and returns when each client has had its line and waits for the next one.
waitingPairs :: [(Socket, Socket)] -> IO [(Socket, Socket)]
waitingPairs pairs = do
  had <- newEmptyMVar
  clients <- forM pairs $ \(peer, client) -> do
    void . forkIO $ do
      next <- linesOf 1000 (fromSocket client)
      let go = next >>= mapM_ (\_ -> putMVar had () >> go)
      go
    (peer, client) <$ sendAll peer (Char8.pack "a line\n")
  replicateM_ (length pairs) (takeMVar had)
  return clients

-- Live bytes of the heap, and resident bytes of the process.
memory :: IO (Int, Int)
memory = do
  replicateM_ 3 performMajorGC
  live <- fromIntegral . gcdetails_live_bytes . gc <$> getRTSStats
  pages <- readFile "/proc/self/statm" >>= readIO . (!! 1) . words
  return (live, pages * 4096)
