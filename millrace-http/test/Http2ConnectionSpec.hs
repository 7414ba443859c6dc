{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | How a connection of HTTP/2 begins, by its preface, how long it lives, and how it ends.
module Http2ConnectionSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, forever, join, replicateM_, void)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import Support hiding (exchange)
import qualified Support
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  it "alone refuses HTTP/1, and HTTP/1 alone refuses its preface" $ do
    withServer setHTTP1Disabled pong $ \port -> do
      statusOf <$> Support.exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` 505
      withHttp2 port $ \http2 -> (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    withServer setHTTP2Disabled pong $ \port ->
      statusOf <$> Support.exchange port "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" `shouldReturn` 400
  it "closes without an answer of HTTP/1 when the preface is wrong behind its first two lines, wherever it is cut" $
    withServer id pong $ \port -> forM_ [8, 16, 20, 24] $ \cut -> do
      let (first, second) = B.splitAt cut "PRI * HTTP/2.0\r\n\r\nXM\r\n\r\n"
      answer <- withConnection port $ \client ->
        send client first >> threadDelay 20000 >> closing (send client second) >> receiveAll client
      answer `shouldSatisfy` not . ("HTTP" `B.isInfixOf`)
  it "is what a connection speaks that begins with its preface, wherever that is cut" $
    withServer id pong $ \port -> forM_ [1 .. 23] $ \cut -> do
      let (first, second) = B.splitAt cut preface
      answer <- withConnection port $ \client -> do
        send client first >> threadDelay 2000
        send client (second <> encodeFrame (settingsFrame [])) >> sendEnd client
        receiveAll client
      B.drop 3 (B.take 4 answer) `shouldBe` "\4"
  it "is not what a connection speaks that begins like the preface, wherever that is cut" $
    withServer id pong $ \port ->
      forM_ ["PRI * HTTP/2.0\r\nHost: a\r\n\r\n", "PRI / HTTP/1.1\r\nHost: a\r\n\r\n"] $ \bytes -> do
        statuses <- forM [1, 4, 8, 16, 20] $ \cut -> do
          let (first, second) = B.splitAt cut bytes
          withConnection port $ \client -> do
            send client first >> threadDelay 20000
            closing (send client second) >> closing (sendEnd client)
            statusOf <$> receiveAll client
        statuses `shouldBe` replicate 5 (if "HTTP/2" `B.isInfixOf` bytes then 400 else 200)
  it "must be recognised within the time of a head, however slowly its bytes come" $
    withServer (setHTTP1Disabled . setHeaderTimeout (seconds 1)) pong $ \port -> withConnection port $ \client -> do
      let dribble = forM_ [1 .. 60 :: Int] $ \_ -> closing (send client "a") >> threadDelay 200000
      answer <- withAsync dribble (const (timeout 8000000 (receiveAll client)))
      (statusOf <$> answer) `shouldBe` Just 408
  it "ends a connection in an orderly way after setMaximumRequests, and answers what is on its way" $
    withServer (setMaximumRequests (Just 2)) pong $ \port -> withHttp2 port $ \http2 -> do
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      -- A notice may come before the end of an answer.
      second <- sendRequest http2 (get "/" []) ""
      notice <- last <$> eventsUntil isGoAway http2
      notice `shouldBe` GotGoAway 2147483647 NoError ""
      (answerStatus <$> awaitAnswer http2 second) `shouldReturn` Just 200
      third <- sendRequest http2 (get "/" []) ""
      rest <- within "the end" (eventsUntilEnd http2)
      (answerStatus <$> awaitAnswer http2 third) `shouldReturn` Just 200
      [(stream, code) | GotGoAway stream code _ <- rest] `shouldBe` [(5, NoError)]
  it "answers a client that has ended its side of the connection, and tells the application that it has" $ do
    (begun, told, gate) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
    connected <- newIORef []
    let application request respond = do
          onDisconnect request (putMVar told ()) (putMVar begun () >> takeMVar gate)
          isConnected request >>= \is -> atomicModifyIORef' connected (\others -> (is : others, ()))
          respond (responseLBS status200 [] (L.replicate 20000 97))
    withServer id application $ \port -> withConnection port $ \client -> do
      http2 <- http2OnClient polite client
      handshake http2 []
      stream <- openStream http2 [EndStream] (get "/" [])
      -- The rest of this body never comes, and its answer does.
      unfinished <- openStream http2 [] (post "/" [])
      replicateM_ 2 (takeMVar begun)
      sendEnd client
      within "the callbacks" (replicateM_ 2 (takeMVar told))
      replicateM_ 2 (putMVar gate ())
      forM_ [stream, unfinished] $ \asked -> do
        answer <- awaitAnswer http2 asked
        (answerEnd answer, answerStatus answer, B.length (answerBody answer)) `shouldBe` (Complete, Just 200, 20000)
      readIORef connected `shouldReturn` [False, False]
      (rest, elapsed) <- timed (within "the end" (eventsUntilEnd http2))
      (last rest, elapsed < 8) `shouldBe` (Closed, True)
  it "does not wait for a client that has ended its side and cannot take the rest of an answer" $
    withServer (setSendTimeout unlimited) (\_ respond -> respond (responseLBS status200 [] (L.replicate 80000 97))) $
      \port ->
        withConnection port $ \client -> do
          http2 <- http2OnClient silent client
          handshake http2 []
          stream <- openStream http2 [EndStream] (get "/" [])
          sendEnd client
          answer <- awaitAnswer http2 stream
          (answerEnd answer, B.length (answerBody answer)) `shouldBe` (ResetWith Cancel, 65535)
          last <$> within "the end" (eventsUntilEnd http2) `shouldReturn` Closed
  it "ends a connection also when its client sends something all the time" $
    withServer (setMaximumRequests (Just 1)) pong $ \port -> withHttp2 port $ \http2 -> do
      only <- sendRequest http2 (get "/" []) ""
      withAsync (closing (forever (sendFrame http2 (pingFrame "12345678") >> threadDelay 50000))) $ \_ -> do
        rest <- within "the end" (eventsUntilEnd http2)
        (answerStatus <$> awaitAnswer http2 only) `shouldReturn` Just 200
        [(stream, code) | GotGoAway stream code _ <- rest] `shouldBe` [(2147483647, NoError), (1, NoError)]
  it "gives a client its time to take what an application has written after a long pause" $ do
    let application _ respond = respond . responseStream status200 [] $ \write flush -> do
          write "first" >> flush
          threadDelay 2500000
          write (byteString (B.replicate 100000 97))
    -- The server looks every second whether a client has stopped taking what is sent. Nothing has moved since the pause
    -- began.
    withServer (setSendTimeout (seconds 2)) application $ \port -> withHttp2 port $ \http2 -> do
      stream <- openStream http2 [EndStream] (get "/" [])
      threadDelay 3300000
      answer <- awaitAnswer http2 stream
      (answerEnd answer, B.length (answerBody answer)) `shouldBe` (Complete, 100005)
  it "counts the time of an idle connection from the end of its last request" $ do
    let application request respond = threadDelay 700000 >> pong request respond
    -- Every half second the server looks whether clients take what is sent, and then it may find that nothing is served
    -- any more.
    withServer (setSendTimeout (seconds 1)) application $ \port -> withHttp2 port $ \http2 -> do
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      threadDelay 1000000
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
  it "keeps setIdleTimeout also after a request that another thread has answered, whatever the time for sending" $
    forM_ [unlimited, seconds 30] $ \sendLimit -> do
      let application request respond = threadDelay 300000 >> pong request respond
      withServer (setSendTimeout sendLimit . setIdleTimeout (seconds 1)) application $ \port ->
        withHttp2As silent [] port $ \http2 -> do
          (_, elapsed) <- timed $ do
            (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
            within "the end" (eventsUntilEnd http2)
          elapsed `shouldSatisfy` \value -> value > 1.2 && value < 9
  it "serves a request that comes when the idle time is over and the server has not looked yet" $ do
    -- Such as on a busy machine, where the server's thread runs late.
    afterWait <- newIORef (return ())
    let once = join (atomicModifyIORef' afterWait (return (),))
    withServerOver (overMemoryAfter once) (setIdleTimeout (seconds 1)) pong $ \server ->
      withHttp2As silent [] server $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
        late <- newEmptyMVar
        writeIORef afterWait (openStream http2 [EndStream] (get "/" []) >>= putMVar late)
        stream <- within "the end of the idle time" (takeMVar late)
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
  it "ends a connection in an orderly way, and loses no request" $ do
    stopping <- newEmptyMVar
    gate <- newEmptyMVar
    let application request respond = case rawPathInfo request of
          "/slow" -> readMVar gate >> pong request respond
          _ -> pong request respond
    withServer (setInstallShutdownHandler (putMVar stopping)) application $ \port -> withHttp2 port $ \http2 -> do
      slow <- openStream http2 [EndStream] (get "/slow" [])
      void (roundTrip http2)
      stop <- takeMVar stopping
      void (forkIO stop)
      notice <- last <$> eventsUntil isGoAway http2
      notice `shouldBe` GotGoAway 2147483647 NoError ""
      -- This request was on its way when the end was announced.
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      putMVar gate ()
      (answerStatus <$> awaitAnswer http2 slow) `shouldReturn` Just 200
      rest <- within "the end" (eventsUntilEnd http2)
      [code | GotGoAway _ code _ <- rest] `shouldBe` [NoError]
  where
    isGoAway (GotGoAway {}) = True
    isGoAway _ = False
