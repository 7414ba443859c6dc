{-# LANGUAGE OverloadedStrings #-}

-- | Pipelined requests whose answers are not all ready at once.
module PipelineSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (async, wait, withAsync)
import Control.Concurrent.MVar
import Control.Concurrent.QSem (newQSem, signalQSem, waitQSem)
import Control.Exception (Exception, IOException, fromException, throwIO, try)
import Control.Monad (forM_, replicateM_, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.Maybe (isJust, isNothing)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Timeout (timeout)
import Test.Hspec

data GivenUp = GivenUp
  deriving (Eq, Show)

instance Exception GivenUp

spec :: Spec
spec = overSocketsAndMemory examples

examples :: Medium -> Spec
examples medium = describe "a slow request behind fast ones" $ do
  it "does not hold back their answers" $ do
    gate <- newEmptyMVar
    withServerOver medium id (waiting gate) $ \port -> withConnection port $ \client -> do
      send client (B.concat [get "/1", get "/2", get "/wait", get "/3"])
      early <- mapM (const (receiveResponse client)) [1, 2 :: Int]
      map replyBody early `shouldBe` ["/1", "/2"]
      receiveUntilTimeout 100000 client `shouldReturn` ("", False)
      putMVar gate ()
      late <- mapM (const (receiveResponse client)) [1, 2 :: Int]
      map replyBody late `shouldBe` ["/wait", "/3"]
  it "nor one that computes" $
    withServerOver medium id computing $ \port -> withConnection port $ \client -> do
      send client (B.concat [get "/1", get "/compute"])
      first <- receiveResponse client
      second <- receiveResponse client
      (replyBody first, B.length (replyBody second) > 0) `shouldBe` ("/1", True)
  it "nor a stream that waits before it has sent anything" $ do
    gate <- newEmptyMVar
    let streaming request respond
          | rawPathInfo request == "/1" = named request respond
          | otherwise =
            respond (responseStream status200 [] (\write _ -> write "early " >> takeMVar gate >> write "late"))
    withServerOver medium id streaming $ \port -> withConnection port $ \client -> do
      send client (B.concat [get "/1", get "/stream", get "/stream"])
      replyBody <$> receiveResponse client `shouldReturn` "/1"
      replicateM_ 2 $ do
        putMVar gate ()
        replyBody <$> receiveResponse client `shouldReturn` "early late"
  it "nor one whose response itself is made lazily" $ do
    gate <- newEmptyMVar
    let lazily request respond
          | rawPathInfo request == "/1" = named request respond
          | otherwise = unsafeInterleaveIO (responseLBS status200 [] "late" <$ takeMVar gate) >>= respond
    withServerOver medium id lazily $ \port -> withConnection port $ \client ->
      replicateM_ 2 $ do
        send client (B.concat [get "/1", get "/lazy"])
        replyBody <$> receiveResponse client `shouldReturn` "/1"
        putMVar gate ()
        replyBody <$> receiveResponse client `shouldReturn` "late"
  it "nor a response that is made lazily, and takes its time or fails" $ do
    gate <- newEmptyMVar
    let lazily request respond = do
          late <- unsafeInterleaveIO (takeMVar gate >>= either ioError return)
          respond
            ( responseLBS
                status200
                []
                (L.fromChunks [rawPathInfo request, if rawPathInfo request == "/lazy" then late else ""])
            )
    withServerOver medium id lazily $ \port -> withConnection port $ \client ->
      forM_ [(Right " late", (200, "/lazy late")), (Left (userError "late"), (500, "Something went wrong"))] $
        \(outcome, expected) ->
          do
            send client (B.concat [get "/1", get "/2", get "/lazy", get "/3"])
            early <- mapM (const (receiveResponse client)) [1, 2 :: Int]
            map replyBody early `shouldBe` ["/1", "/2"]
            receiveUntilTimeout 100000 client `shouldReturn` ("", False)
            putMVar gate outcome
            replies <- mapM (const (receiveResponse client)) [1, 2 :: Int]
            map (\reply -> (replyStatus reply, replyBody reply)) replies `shouldBe` [expected, (200, "/3")]
  -- The second one was woken by something else than I/O.
  forM_ [("", return ()), (", nor if it was asleep before", threadDelay 20000)] $ \(what, prepare) ->
    it ("nor does an application that goes on after it has responded" ++ what) $ do
      gate <- newEmptyMVar
      let lingering request respond = prepare >> named request respond <* takeMVar gate
      withServerOver medium id lingering $ \port -> withConnection port $ \client ->
        forM_ ["/1", "/2"] $ \path -> do
          send client (get path)
          replyBody <$> receiveResponse client `shouldReturn` path
          putMVar gate ()
  it "nor one that computes when it has responded, or responds in another thread" $ do
    isOver <- newIORef False
    steps <- newIORef (0 :: Int)
    -- It allocates: GHC interrupts nothing else.
    let untilOver = readIORef isOver >>= \over -> unless over (modifyIORef' steps (+ 1) >> untilOver)
        toiling request respond = named request respond <* untilOver
        elsewhere request respond = do
          responded <- async (named request respond)
          wait responded <* untilOver
    forM_ [toiling, elsewhere] $ \application -> do
      writeIORef isOver False
      withServerOver medium id application $ \port -> withConnection port $ \client -> do
        send client (get "/1")
        replyBody <$> receiveResponse client `shouldReturn` "/1"
        writeIORef isOver True
  it "answers in order when fast and slow ones alternate, again and again" $
    withServerOver medium id alternating $ \port -> withConnection port $ \client ->
      replicateM_ 20 $ do
        let paths = [C8.pack ('/' : show number) | number <- [1 .. 40 :: Int]]
        send client (B.concat (map get paths))
        forM_ paths $ \path -> replyBody <$> receiveResponse client `shouldReturn` path
  it "answers in order when responses are made lazily, quickly, slowly and too large for one piece" $ do
    let lazily request respond = do
          late <- unsafeInterleaveIO (B.empty <$ threadDelay 300)
          let size = 10 ^ (B.length (rawPathInfo request) + 1)
          respond
            (responseLBS status200 [] (L.fromChunks [rawPathInfo request, late, " ", C8.replicate size 'x', late]))
    withServerOver medium id lazily $ \port -> withConnection port $ \client ->
      forM_ [1 .. 10 :: Int] $ \_ -> do
        let paths = [C8.pack ('/' : show number) | number <- [1 .. 20] ++ [95 .. 105 :: Int]]
        send client (B.concat (map get paths))
        forM_ paths $ \path -> do
          reply <- receiveResponse client
          (C8.takeWhile (/= ' ') (replyBody reply), B.length (replyBody reply))
            `shouldBe` (path, B.length path + 1 + 10 ^ (B.length path + 1))
  it "lets a client that does not read go, and the server end" $
    withServerOver medium (setTimeout 1) large $ \port -> withConnection port $ \client -> do
      send client (B.concat (replicate 50 (get "/large")))
      threadDelay 3500000
      (_, ended) <- receiveUntilTimeout 5000000 client
      ended `shouldBe` True
  it "keeps every byte for a client that asks on and reads later" $ do
    asked <- newQSem 0
    withServerOver medium id (page asked) $ \port -> withSmallConnection port $ \client -> do
      count <- askUntilStuck asked client 0
      forM_ [1 .. count] $ \number -> do
        reply <- receiveResponse client
        (number, replyBody reply == pageOf number) `shouldBe` (number, True)
      send client (get "/1")
      replyBody <$> receiveResponse client `shouldReturn` pageOf 1
  describe "an application that stops waiting for a client that does not read" $
    forM_ [("and responds again", id), ("and throws", \_ -> throwIO GivenUp)] $ \(what, next) ->
      -- What waits is sent by another thread then.
      forM_
        [ ("", return (), False),
          (", when it has waited before it responded", threadDelay 300, False),
          (", when its responses take long to make", return (), True)
        ]
        $ \(when', prepare, isSlow) ->
          it
            ( what
                ++ when'
                ++ ": is told no fault of its own, and nothing is sent twice or in part before something else"
            )
            $ do
              (impatient, reports) <- (,) <$> newEmptyMVar <*> newIORef []
              let application request respond = do
                    prepare
                    let number = pageNumber request
                    stillPatient <- isEmptyMVar impatient
                    let body =
                          if isSlow && stillPatient && number `mod` 5 == 0
                            then computedFor number `seq` pageOf number
                            else pageOf number
                        answering = respond (responseLBS status200 [] (L.fromStrict body))
                    outcome <- timeout 300000 answering
                    maybe (tryPutMVar impatient () >> next answering) return outcome
              withServerOver medium (setOnException (\_ failure -> modifyIORef' reports (failure :))) application $
                \port ->
                  withSmallConnection port $ \client -> do
                    let count = 2000
                    withAsync
                      ( void
                          (try (send client (B.concat (map (get . nameOf) [1 .. count]))) :: IO (Either IOException ()))
                      )
                      $ \_ ->
                        do
                          early <- within "the application's patience" (receiveUntilFilled impatient client)
                          bodies <- replyBodies early client count
                          zip [1 ..] bodies
                            `shouldSatisfy` all
                              (\(number, body) -> body == pageOf number || body == "Something went wrong")
              faults <- readIORef reports
              filter (\failure -> isNothing (fromException failure :: Maybe IOException)) faults
                `shouldSatisfy` all ((== Just GivenUp) . fromException)
  it "survives a connection that is cut off while its answers are being sent" $ do
    gate <- newEmptyMVar
    withServerOver medium id (waiting gate) $ \port -> do
      -- The server may notice before it has asked the application for the second answer, and does not ask any more
      -- then.
      replicateM_ 20 . withConnection port $ \client -> send client (B.concat [get "/1", get "/wait"])
      replicateM_ 20 . withConnection port $ \client -> do
        send client (B.concat [get "/1", get "/wait"])
        replyBody <$> receiveResponse client `shouldReturn` "/1"
      putMVar gate ()
      withConnection port $ \client -> do
        send client (get "/1")
        replyBody <$> receiveResponse client `shouldReturn` "/1"
  where
    page asked request respond = do
      signalQSem asked
      respond (responseLBS status200 [] (L.fromStrict (pageOf (pageNumber request))))
    pageNumber request = read (C8.unpack (B.drop 1 (rawPathInfo request)))
    nameOf number = C8.pack ('/' : show (number :: Int))
    -- No part of it can stand for another part, or for another page.
    pageOf number =
      B.take 6000 (C8.unwords [C8.pack (show (number :: Int) ++ "." ++ show line) | line <- [1 .. 2000 :: Int]])
    -- Until a request is not looked at any more, because the responses to earlier ones are stuck. Returns how many were
    -- sent.
    askUntilStuck asked client sent = do
      send client (get (nameOf (sent + 1)))
      looked <- timeout 1000000 (waitQSem asked)
      if isJust looked && sent < 20000 then askUntilStuck asked client (sent + 1) else return (sent + 1 :: Int)
    -- The server may be stuck between two requests, where no application waits. It goes on when the client reads
    -- something.
    receiveUntilFilled filling client = do
      filled <- timeout 1000000 (takeMVar filling)
      if isJust filled then return B.empty else B.append <$> receive client <*> receiveUntilFilled filling client
    -- Of this many responses, or of those that are whole when the connection ends. They begin with bytes that were
    -- received already.
    replyBodies early client count = go (early, count :: Int)
      where
        go (_, 0) = return []
        go (got, left) = case parseReply got of
          Just (reply, rest) -> (replyBody reply :) <$> go (rest, left - 1)
          Nothing -> do
            bytes <- within "a response, or the end" (receive client)
            if B.null bytes then return [] else go (B.append got bytes, left)
    get path = B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"]
    waiting gate request respond = do
      when (rawPathInfo request == "/wait") (readMVar gate)
      named request respond
    computing request respond = do
      when (rawPathInfo request == "/compute") (computedFor 0 `seq` return ())
      named request respond
    -- Longer than a time slice, without a wait.
    computedFor number = length (show (product [1 .. 6000 + toInteger (number :: Int)]))
    alternating request respond = do
      when (B.length (rawPathInfo request) == 3 && even (B.last (rawPathInfo request))) (threadDelay 300)
      named request respond
    large _ respond = respond (responseLBS status200 [] (L.replicate 500000 0x78))
    named request respond = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))
