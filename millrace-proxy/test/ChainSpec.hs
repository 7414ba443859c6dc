{-# LANGUAGE OverloadedStrings #-}

-- | Requests that go through several proxies, or through one of them again, and how far they may go.
module ChainSpec (spec) where

import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Proxy
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace (testWithApplication)
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "a request that comes back is answered with 508 when it comes" $ do
    forM_ [Http, H2c] $ \scheme ->
      it ("from the proxy itself, over " ++ show scheme) $
        withPlace $ \port begin ->
          withProxy quiet [Target scheme (AtHost "127.0.0.1" port)] $ \proxy -> do
            count <- begin proxy
            statusOf <$> ask port (get "a") `shouldReturn` "508"
            readIORef count `shouldReturn` 2
    it "through another proxy" $
      withPlace $ \port begin ->
        withProxy quiet [Target Http (AtHost "127.0.0.1" port)] $ \other ->
          testWithApplication (return other) $ \behind ->
            withProxy quiet [Target Http (AtHost "127.0.0.1" behind)] $ \proxy -> do
              count <- begin proxy
              statusOf <$> ask port (get "a") `shouldReturn` "508"
              readIORef count `shouldReturn` 2
  describe "is passed on" $ do
    it "through one proxy behind the other" $
      withTarget (answering (\_ _ -> "end")) $ \target ->
        withFront quiet [target] $ \second -> withFront quiet [Target Http (AtHost "127.0.0.1" second)] $ \first ->
          bodyOf <$> ask first (get "a") `shouldReturn` "end"
    it "by two routes of a server, of which one leads to the other by name" $
      withPlace $ \port begin ->
        withTarget (answering (\_ _ -> "end")) $ \target ->
          withProxy quiet [target] $ \inner ->
            withProxy quiet {hostField = FixedHost "inner"} [Target Http (AtHost "127.0.0.1" port)] $ \outer -> do
              count <- begin (\request -> (if requestHeaderHost request == Just "inner" then inner else outer) request)
              bodyOf <$> ask port (get "outer") `shouldReturn` "end"
              readIORef count `shouldReturn` 2
  describe "Max-Forwards" $ do
    it "0 has the proxy answer OPTIONS" $
      asking "OPTIONS" ["0"] $ \answer seen -> do
        statusOf answer `shouldBe` "200"
        answer `shouldSatisfy` ("\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n" `ByteString.isInfixOf`)
        seen `shouldBe` Nothing
    forM_ [("1", "0"), ("010", "9"), ("99999999999999999999", "999999998")] $ \(given, passed) ->
      it (show given ++ " becomes " ++ show passed) $
        asking "OPTIONS" [given] $ \answer seen ->
          (statusOf answer, seen) `shouldBe` ("200", Just (Just passed))
    forM_ [["a"], [""], ["-1"], ["1", "1"]] $ \given ->
      it (show given ++ " is no number") $
        asking "OPTIONS" given $ \answer seen ->
          (statusOf answer, seen) `shouldBe` ("400", Nothing)
    it "is not looked at with other methods" $
      asking "GET" ["0"] $ \answer seen ->
        (statusOf answer, seen) `shouldBe` ("200", Just (Just "0"))
    it "does not let TRACE through" $
      asking "TRACE" ["1"] $ \answer seen ->
        (statusOf answer, seen) `shouldBe` ("405", Nothing)

get :: ByteString -> ByteString
get host = "GET / HTTP/1.1\r\nHost: " <> host <> "\r\nConnection: close\r\n\r\n"

-- | A server whose port is known before its application. Beginning it gives the number of its requests so far.
withPlace :: (Int -> (Application -> IO (IORef Int)) -> IO a) -> IO a
withPlace use = do
  application' <- newIORef (\_ respond -> respond (responseLBS status200 [] "nothing yet"))
  testWithApplication
    (return (\request respond -> readIORef application' >>= \application -> application request respond))
    $ \port ->
      use port $ \application -> do
        count <- newIORef 0
        writeIORef
          application'
          ( \request respond ->
              atomicModifyIORef' count (\known -> (known + 1 :: Int, ())) >> application request respond
          )
        return count

-- | The answer to a request with these values of Max-Forwards, and the value that the target has got, if it has got the
-- request.
asking :: ByteString -> [ByteString] -> (ByteString -> Maybe (Maybe ByteString) -> Expectation) -> Expectation
asking method values check = do
  seen <- newIORef Nothing
  let behind request respond =
        writeIORef seen (Just (lookup "Max-Forwards" (requestHeaders request))) >> respond (responseLBS status200 [] "")
  withApplicationBehind behind $ \target -> withFront quiet [target] $ \port -> do
    answer <-
      ask
        port
        ( method
            <> " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            <> Char8.concat ["Max-Forwards: " <> value <> "\r\n" | value <- values]
            <> "\r\n"
        )
    readIORef seen >>= check answer
