-- | Maps whose entries expire, and shared resources.
module ExpiringSpec (spec) where

import Control.Concurrent (forkIO, killThread, yield)
import Control.Concurrent.MVar
import Control.Monad (forM_, when)
import Data.IORef
import Data.List (sort)
import GHC.Clock (getMonotonicTime)
import Millrace.Http.Expiring
import Millrace.Timer (threadDelay)
import Test.Hspec

spec :: Spec
spec = do
  describe "what expires" $ do
    it "is given back until then, by its key" $ do
      entries <- lasting
      remember entries "a" 1 'a'
      remember entries "b" 1 'b'
      mapM (recall entries) ["a", "b", "c"] `shouldReturn` [Just 'a', Just 'b', Nothing]
    it "is what was given last" $ do
      entries <- lasting
      forM_ "xyz" (remember entries "a" 20)
      recall entries "a" `shouldReturn` Just 'z'
    it "is forgotten after a time" $ do
      entries <- newExpiring 50000 32 (const (return ()))
      remember entries "a" 1 'a'
      threadDelay 60000
      recall entries "a" `shouldReturn` Nothing
    it "never weighs more than it may" $ do
      entries <- lasting
      forM_ keys $ \key -> remember entries key 1 'x'
      mapM (recall entries) keys `shouldReturn` replicate 32 Nothing ++ [Just 'x']
    it "is not remembered with a life of 0, and discarded at once" $ do
      (entries, discarded) <- noting 0
      remember entries "a" 1 'a'
      recall entries "a" `shouldReturn` Nothing
      discarded `shouldReturn` "a"
    it "is discarded when it is forgotten, whether or not anybody asks" $ do
      (entries, discarded) <- noting 50000
      remember entries "a" 1 'a'
      discarded `shouldReturn` ""
      discarded `shouldBecome` "a"
      remember entries "b" 1 'b'
      discarded `shouldBecome` "ba"
    it "is discarded when something takes its place, or all of the capacity" $ do
      (entries, discarded) <- noting 60000000
      remember entries "a" 16 'a'
      remember entries "a" 16 'b'
      discarded `shouldReturn` "a"
      remember entries "c" 17 'c'
      discarded `shouldReturn` "ba"
      forgetAll entries
      discarded `shouldReturn` "cba"
    it "is discarded, all of it, and nothing is kept for ever, when an exception comes meanwhile" $ do
      discarded <- newIORef ""
      begun <- newEmptyMVar
      entries <- newExpiring 50000 2 $ \value -> do
        first <- null <$> readIORef discarded
        atomicModifyIORef' discarded (\others -> (value : others, ()))
        -- Not with a wait, which could be interrupted.
        when first (putMVar begun () >> getMonotonicTime >>= \start -> yieldUntil (start + 0.05))
      remember entries "a" 1 'a'
      remember entries "b" 1 'b'
      remembering <- forkIO (remember entries "c" 1 'c')
      takeMVar begun
      killThread remembering
      (sort <$> readIORef discarded) `shouldBecome` "abc"
  describe "what several need" $ do
    it "is released by its last user, once" $ do
      gone <- newIORef (0 :: Int)
      thing <- share (modifyIORef' gone (+ 1)) 'x'
      retain thing `shouldReturn` True
      release thing
      readIORef gone `shouldReturn` 0
      sharedValue thing `shouldBe` 'x'
      release thing
      readIORef gone `shouldReturn` 1
    it "cannot be had any more then" $ do
      thing <- share (return ()) 'x'
      release thing
      retain thing `shouldReturn` False
  where
    lasting = newExpiring 60000000 32 (const (return ())) :: IO (Expiring String Char)
    keys = map show [1 .. 33 :: Int]

yieldUntil :: Double -> IO ()
yieldUntil end = getMonotonicTime >>= \now -> when (now < end) (yield >> yieldUntil end)

-- The content, and the discarded values, latest first.
noting :: Int -> IO (Expiring String Char, IO String)
noting life = do
  discarded <- newIORef ""
  entries <- newExpiring life 32 (\value -> atomicModifyIORef' discarded (\others -> (value : others, ())))
  return (entries, readIORef discarded)

-- Within two seconds.
shouldBecome :: IO String -> String -> IO ()
shouldBecome current expected = go (100 :: Int)
  where
    go left = do
      found <- current
      if found == expected || left == 0 then found `shouldBe` expected else threadDelay 20000 >> go (left - 1)
