{-# LANGUAGE OverloadedStrings #-}

-- | Servers that end by signals.
module UntilSignalSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (async, wait)
import Control.Concurrent.MVar
import Control.Monad (forM_, void)
import Data.IORef
import Millrace.Signal (Signal (..), raiseSignal)
import Network.Wai.Handler.Millrace
import Network.Wai.Millrace.Shutdown
import Support
import System.Posix.Signals (Handler (..), installHandler, sigTERM)
import Test.Hspec

spec :: Spec
spec = describe "untilSignal" $ do
  forM_ [Terminate, Interrupt] $ \signal ->
    it ("ends a server in an orderly way at " ++ show signal) . onServer slow $ \port begun server ->
      withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        takeMVar begun
        raiseSignal signal
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
        within "the end" (wait server) `shouldReturn` Orderly
  it "interrupts at the second signal" . onServer hanging $ \port begun server ->
    withConnection port $ \client -> do
      send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      takeMVar begun
      raiseSignal Terminate
      -- Equal signals that come before the first is taken count as one.
      within "the first signal's effect" (untilRefused port)
      raiseSignal Terminate
      within "the end" (wait server) `shouldReturn` Interrupted
      receiveAll client `shouldReturn` ""
  it "says when the time of grace was too short" $ do
    reported <- newIORef []
    let noting = setOnException (\_ failure -> modifyIORef reported (show failure :))
        changed = setGracefulShutdownTimeout (Just 0) . noting
    onServerWith changed hanging $ \port begun server ->
      withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        takeMVar begun
        raiseSignal Terminate
        within "the end" (wait server) `shouldReturn` CutOff
    readIORef reported `shouldReturn` ["ConnectionsCutOff 1"]
  it "ends a server that begins after the signal" $ do
    called <- newEmptyMVar
    server <- async . untilSignal $ \ending -> do
      putMVar called ()
      threadDelay 100000
      (port, listener) <- openFreePort
      putMVar called ()
      void (return port)
      runSettingsSocket (ending (quiet defaultSettings)) listener pong
    takeMVar called
    raiseSignal Terminate
    takeMVar called
    within "the end" (wait server) `shouldReturn` Orderly
  it "returns when the servers end by themselves, and restores the signal's effect" $ do
    untilSignal (\_ -> return ()) `shouldReturn` Orderly
    handler <- installHandler sigTERM Default Nothing
    case handler of
      Default -> return ()
      _ -> expectationFailure "another handler is left"
  where
    slow begun request respond = putMVar begun () >> threadDelay 300000 >> pong request respond
    hanging begun request respond = putMVar begun () >> threadDelay 60000000 >> pong request respond
    onServer = onServerWith id
    onServerWith change application use = do
      begun <- newEmptyMVar
      listens <- newEmptyMVar
      (port, listener) <- openFreePort
      server <- async . untilSignal $ \ending ->
        runSettingsSocket
          (ending (change (setBeforeMainLoop (putMVar listens ()) (quiet defaultSettings))))
          listener
          (application begun)
      takeMVar listens
      use port begun server
