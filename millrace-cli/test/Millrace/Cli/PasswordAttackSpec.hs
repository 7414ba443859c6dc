{-# LANGUAGE OverloadedStrings #-}

-- | Attacks on passwords: by guessing, and by measuring time.
module Millrace.Cli.PasswordAttackSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (evaluate)
import Control.Monad (forM, replicateM)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (partition, sort)
import GHC.Clock (getMonotonicTimeNSec)
import Millrace.Cli.Middleware.BasicAuthentication (asking, readUsers, sameBytes, waitingMax)
import Network.HTTP.Types (status200, statusCode)
import Network.Wai (defaultRequest, requestHeaders, responseHeaders, responseLBS, responseStatus)
import Network.Wai.Internal (ResponseReceived (..))
import Program
import ProgramClients (answerTo)
import Site (withDirectory, write)
import System.FilePath ((</>))
import System.Process (readProcess)
import Test.Hspec

spec :: Spec
spec = do
  it "takes as long to refuse a name that does not exist as a wrong password" . withDirectory $ \folder -> do
    write folder "site/index.html" "one"
    hashes <- forM ["somebody", "another"] $ \name ->
      (\hash -> name <> ":" <> hash)
        <$> readProcess "openssl" ["passwd", "-6", "-salt", "rounds=50000$abcdefgh", "secret"] ""
    writeFile (folder </> "users") (concat hashes)
    writeFile
      (folder </> "m.yaml")
      (unlines ["listen: {http: 127.0.0.1:0}", "sites: {users: " <> folder </> "users, files: " <> folder </> "site}"])
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let refusing credentials = do
            start <- getMonotonicTimeNSec
            answer <-
              answerTo
                server
                ("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic " <> credentials <> "\r\nConnection: close\r\n\r\n")
            end <- getMonotonicTimeNSec
            answer `shouldSatisfy` ByteString.isPrefixOf "HTTP/1.1 401 "
            pure (fromIntegral (end - start) :: Double)
      -- In turn, so that a busy machine concerns both. Without the care for unknown names the ratio is a twentieth.
      ratio <- middle <$> replicateM 15 ((/) <$> refusing "bm9ib2R5OndvbmRlcg==" <*> refusing "c29tZWJvZHk6d29uZGVy")
      ratio `shouldSatisfy` \found -> found > 0.5 && found < 2
  it "lets no crowd that guesses make a queue without end" $ do
    hash <- readProcess "openssl" ["passwd", "-6", "-salt", "rounds=20000$abcdefgh", "secret"] ""
    users <- readUsers (Char8.pack ("somebody:" <> hash)) >>= either fail pure
    guarded <- asking "here" users
    let login secret = do
          answer <- newEmptyMVar
          let from = defaultRequest {requestHeaders = [("Authorization", "Basic c29tZWJvZHk6" <> secret)]}
          ResponseReceived <-
            guarded
              (\_ respond -> respond (responseLBS status200 [] ""))
              from
              (\response -> ResponseReceived <$ putMVar answer response)
          (\response -> (statusCode (responseStatus response), lookup "Retry-After" (responseHeaders response)))
            <$> takeMVar answer
        atOnce = mapM (\secret -> newEmptyMVar >>= \end -> end <$ forkIO (login secret >>= putMVar end))
        right = "c2VjcmV0"
    -- One user with many requests waits for one turn.
    atOnce (replicate 300 right) >>= mapM takeMVar >>= (`shouldBe` replicate 300 (200, Nothing))
    crowd <- atOnce [Char8.pack (show number) | number <- [1000 .. 1299 :: Int]]
    -- Who has logged in before does not wait for them.
    login right `shouldReturn` (200, Nothing)
    answers <- mapM takeMVar crowd
    let (refused, others) = partition ((== 401) . fst) answers
    -- A few more than fit into the queue, if the first ones are done before the last ones have come.
    length refused `shouldSatisfy` \count -> count > waitingMax && count < 200
    others `shouldSatisfy` all (== (503, Just "5"))
    -- The queue is empty again.
    atOnce [Char8.pack (show number) | number <- [2000 .. 2000 + waitingMax]]
      >>= mapM takeMVar
      >>= (`shouldSatisfy` all ((== 401) . fst))
  it "compares a password that was right before in a time that does not tell where it differs" $ do
    let password = ByteString.replicate 200000 0x61
        differingAt position =
          ByteString.concat [ByteString.take position password, "b", ByteString.drop (position + 1) password]
        comparing other = do
          start <- getMonotonicTimeNSec
          same <- evaluate (sameBytes password other)
          end <- getMonotonicTimeNSec
          same `shouldBe` False
          pure (fromIntegral (end - start) :: Double)
        (early, late) = (differingAt 0, differingAt 199999)
    mapM_ evaluate [early, late]
    -- A comparison that stops at the first difference has a ratio of a thousandth.
    ratio <- middle <$> replicateM 21 ((/) <$> comparing early <*> comparing late)
    ratio `shouldSatisfy` \found -> found > 0.5 && found < 2
  where
    middle found = sort found !! (length found `div` 2)
