-- | Events that the peer and the system cause on a connection: resets, half-closing, signals, short sends.
module PeerSpec (spec) where

import Control.Exception (bracket, bracket_)
import Control.Monad (forM, forM_, void)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.Error (eCONNREFUSED, eCONNRESET, eINVAL, ePIPE)
import Foreign.C.Types (CInt (..), CLong)
import Foreign.Marshal.Array (withArray)
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Millrace.Timer as Timer
import qualified Network.Socket as Network
import Scenario (scenarioPasses)
import Support
import System.Posix.Signals (Handler (..), installHandler, sigALRM)
import Test.Hspec

-- Not by capi: C compilers since gcc 14 insist on a pointer to its structure.
foreign import ccall unsafe "setitimer" c_setitimer :: CInt -> Ptr CLong -> Ptr CLong -> IO CInt

spec :: Spec
spec = describe "the peer and the system" $ do
  describe "reset" $ do
    it "ends a waiting receive with ECONNRESET" $
      withResettingPeer $ \s reset -> do
        reader <- start (recv s 100)
        pause 20000
        reset
        within 5 "the receive" (outcomeOf reader) >>= (`shouldSatisfy` isErrno eCONNRESET)
    it "ends a waiting send" $
      withResettingPeer $ \s reset -> do
        writer <- start (sendAll s (ByteString.replicate 40000000 0))
        pause 50000
        reset
        outcome <- within 5 "the send" (outcomeOf writer)
        outcome `shouldSatisfy` \o -> isErrno eCONNRESET o || isErrno ePIPE o
    it "ends both when both wait" $
      withResettingPeer $ \s reset -> do
        reader <- start (recv s 100)
        writer <- start (sendAll s (ByteString.replicate 40000000 0))
        pause 50000
        reset
        a <- within 5 "the receive" (outcomeOf reader)
        b <- within 5 "the send" (outcomeOf writer)
        -- One of them gets the error, which the system reports once; the other one then sees a dead connection.
        void a `shouldSatisfy` \o -> isErrno eCONNRESET o || either (const False) (const True) o
        b `shouldSatisfy` \o -> isErrno eCONNRESET o || isErrno ePIPE o
  it "half-close: the end of the stream arrives, and the other direction works on" $
    forM_ [withTcpPair, withUnixPair] $ \withPair -> withPair $ \one other -> do
      void (sendStream one 0 5000)
      shutdown one ShutdownSend
      receiveStream other 1000 0 `shouldReturn` 5000
      recv other 10 `shouldReturn` ByteString.empty
      void (sendStream other 0 100000)
      receiveExactly one 0 100000 `shouldReturn` 100000
      close other
      recv one 10 `shouldReturn` ByteString.empty
  it "half-close wakes a waiting receive" $
    withTcpPair $ \one other -> do
      reader <- start (recv other 10)
      pause 20000
      shutdown one ShutdownSend
      within 5 "the receive" (finish reader) `shouldReturn` ByteString.empty
  it "shutdown of receiving wakes the own waiting receive" $
    withTcpPair $ \one _ -> do
      reader <- start (recv one 10)
      pause 20000
      shutdown one ShutdownReceive
      within 5 "the receive" (finish reader) `shouldReturn` ByteString.empty
  it "shutdown of sending ends the own waiting sends, on all capabilities" $
    forM_ [withTcpPair, withUnixPair] $ \withPair -> withPair $ \one _ -> do
      senders <- forM [0, 1] $ \capability -> startOn capability (sendAll one (ByteString.replicate 40000000 0))
      pause 50000
      shutdown one ShutdownSend
      within 5 "the sends" (mapM outcomeOf senders) >>= mapM_ (`shouldSatisfy` isErrno ePIPE)
  it "shutdown of a listener ends its accepts" $
    withListener $ \tcp _ -> withAbstractSockets Stream $ \unix _ _ _ -> do
      listen unix 1
      forM_ [tcp, unix] $ \listener -> do
        waiting <- forM [0, 1] $ \capability -> startOn capability (void (accept listener))
        pause 20000
        shutdown listener ShutdownBoth
        within 5 "the accepts" (mapM outcomeOf waiting) >>= mapM_ (`shouldSatisfy` isErrno eINVAL)
  it "sending to a peer that is gone throws, and SIGPIPE never comes" $ scenarioPasses "broken-pipe"
  it "connecting to a port where nobody listens throws ECONNREFUSED" $ do
    address <- withListener (\_ address -> return address)
    problem <- failsWith (void (connectTo address))
    problem `shouldSatisfy` hasCode eCONNREFUSED
  it "8 MB by sendAll arrive through small buffers" $ manyBytes (\s size -> void (sendStream s 0 size))
  it "8 MB by sendMany in pieces of all sizes arrive through small buffers" $
    manyBytes $ \s size -> do
      random <- newRandom 9
      let pieces position
            | position == size = return []
            | otherwise = do
              kind <- below random 20
              piece <-
                min (size - position) <$> case kind of
                  0 -> between random 1 400000
                  1 -> return 0
                  _ -> between random 1 3000
              (bytesAt position piece :) <$> pieces (position + piece)
      pieces 0 >>= sendMany s
  it "send sends a part and says how much" $
    withSmallBuffers unixPair $ \one other -> do
      let bytes = bytesAt 0 5000000
      sent <- send one bytes
      sent `shouldSatisfy` (\n -> n > 0 && n < 5000000)
      receiveExactly other 0 sent `shouldReturn` sent
  it "several senders and receivers share a connection without tearing an operation" severalSenders
  it "signals at all times disturb nothing" underSignals

-- | One of our sockets, and an action by which its peer resets the connection.
withResettingPeer :: (Socket -> IO () -> IO a) -> IO a
withResettingPeer use = withListener $ \listener address -> do
  peer <- Network.socket AF_INET Stream defaultProtocol
  Network.connect peer address
  bracket (fst <$> accept listener) close $ \s ->
    use s (Network.setSockOpt peer Network.Linger (Network.StructLinger 1 0) >> Network.close peer)

-- | A connection on which every long send is short. (TCP with still smaller buffers waits for delayed
-- acknowledgements.)
withSmallBuffers :: IO (Socket, Socket) -> (Socket -> Socket -> IO a) -> IO a
withSmallBuffers create use = withPairOf create $ \one other -> setSocketOption one SendBuffer 65536 >> use one other

manyBytes :: (Socket -> Int -> IO ()) -> IO ()
manyBytes sendAllOf = forM_ [tcpPair, unixPair] $ \create -> within 30 "8 MB" $
  withSmallBuffers create $ \one other -> do
    sender <- start (sendAllOf one size >> shutdown one ShutdownSend)
    receiveStream other 20000 0 `shouldReturn` size
    finish sender
  where
    size = 8000000

-- Receivers get whole bytes, each once: sums by value tell.
severalSenders :: IO ()
severalSenders = within 30 "all bytes" $
  withTcpPair $ \one other -> do
    senders <- forM [1 .. 8] $ \value -> start $
      forM_ [1 .. 50 :: Int] $ \_ -> sendAll one (ByteString.replicate 5000 value)
    tallies <- newIORef (replicate 9 (0 :: Int))
    receivers <- forM [1 .. 4 :: Int] $ \_ -> start (tally other tallies)
    mapM_ finish senders
    shutdown one ShutdownSend
    mapM_ finish receivers
    readIORef tallies `shouldReturn` (0 : replicate 8 250000)
  where
    tally s tallies = do
      bytes <- recv s 7000
      if ByteString.null bytes
        then return ()
        else do
          let counts = [ByteString.count value bytes | value <- [0 .. 8]]
          atomicModifyIORef' tallies (\old -> let new = zipWith (+) old counts in (foldr seq new new, ()))
          tally s tallies

underSignals :: IO ()
underSignals = within 30 "the traffic" $ do
  signals <- newIORef (0 :: Int)
  old <- installHandler sigALRM (Catch (atomicModifyIORef' signals (\n -> (n + 1, ())))) Nothing
  let restore = every 0 >> pause 10000 >> void (installHandler sigALRM old Nothing)
  bracket_ (every 1000) restore $
    withoutLeaks $ do
      jobs <- forM [withTcpPair, withUnixPair, withSmallBuffers tcpPair] $ \withPair -> start $
        withPair $ \one other -> do
          sender <- start (sendStream one 0 1000000 >> shutdown one ShutdownSend)
          received <- receiveStream other 3000 0
          received <$ finish sender
      sleepers <- forM [1 .. 50] $ \n -> start (Timer.threadDelay (n * 5000))
      connections <- start $
        withListener $ \listener address -> forM_ [1 .. 300 :: Int] $ \_ -> do
          server <- start (bracket (fst <$> accept listener) close (`recv` 10))
          bracket (connectTo address) close $ \s -> sendAll s (bytesAt 0 10)
          finish server
      mapM finish jobs `shouldReturn` [1000000, 1000000, 1000000]
      mapM_ finish sleepers
      finish connections
  count <- readIORef signals
  count `shouldSatisfy` (> 50)
  where
    -- ITIMER_REAL; interval and first value, each in seconds and microseconds
    every micros = withArray [0, micros, 0, micros] $ \value -> void (c_setitimer 0 value nullPtr)
