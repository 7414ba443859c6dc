{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Streams of bytes.
module StreamSpec (spec) where

import Control.Concurrent (ThreadId, forkIO, myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Exception
  ( AsyncException (StackOverflow, ThreadKilled),
    Exception (..),
    SomeException,
    mask_,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM, forM_, forever, join, replicateM, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Stream
import qualified Millrace.Timer as Timer
import StreamSupport
import Support
import System.Mem (getAllocationCounter, setAllocationCounter)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.Stream" $ do
    it "copies, reports, counts and stops" $ do
      received <- newIORef []
      reports <- newIORef []
      (source, count) <- fromPieces ["ab", "", "cde", "f"] >>= counting
      limited <- atMost 4 source
      copyReporting limited (\piece -> modifyIORef received (piece :)) (\n -> modifyIORef reports (n :))
        `shouldReturn` 4
      readIORef received `shouldReturn` ["cd", "ab"]
      readIORef reports `shouldReturn` [4, 2]
      count `shouldReturn` 5
    it "loses no piece that comes together with an exception" $ do
      taken <- newIORef 0
      got <- newIORef []
      let source = uninterruptibleMask_ $ do
            number <- atomicModifyIORef' taken (\n -> (n + 1, n))
            reader <- myThreadId
            when (number == 3) $ forkIO (throwTo reader ThreadKilled) >> pause 20000
            return (if number < 10 then ByteString.singleton number else "")
          readAll next = next >>= \piece -> unless (ByteString.null piece) (modifyIORef got (piece :) >> readAll next)
      (counted, count) <- counting source
      limited <- atMost 100 counted
      start (readAll limited) >>= outcomeOf >>= (`shouldSatisfy` either (const True) (const False))
      start (readAll limited) >>= finish
      ByteString.concat . reverse <$> readIORef got `shouldReturn` ByteString.pack [0 .. 9]
      count `shouldReturn` 10
    it "takes all that has come in one piece, up to 64 KiB, and then the end" $
      withUnixPair $ \one other -> do
        forM_ [1, 16383, 16384, 16385, 65535, 65536] $ \size -> do
          let sent = bytesAt 0 size
          sendAll other sent
          got <- fromSocket one
          rest <- ByteString.concat <$> takeRest (size - ByteString.length got) one
          got <> rest `shouldBe` sent
          -- A socket of the system itself may hand over less at once than it has.
          ByteString.length got `shouldSatisfy` (>= min size 16384)
        sendAll other (bytesAt 0 16384)
        close other
        (ByteString.length <$> fromSocket one) `shouldReturn` 16384
        fromSocket one `shouldReturn` ""
    it "allocates no buffer for a client that waits" $
      withUnixPair $ \one other -> do
        next <- linesOf 1000 (fromSocket one)
        begun <- newEmptyMVar
        waiting <- start $ do
          -- The first wait of a capability may make its tables.
          _ <- next
          putMVar begun ()
          setAllocationCounter 0
          line <- next
          left <- getAllocationCounter
          return (line, negate left)
        forM_ [void (sendAll other "first\n" >> takeMVar begun), sendAll other "line\n"] $ \goOn -> do
          becomesTrue 1000 (isBlocked (jobThread waiting)) `shouldReturn` True
          goOn
        (line, allocated) <- finish waiting
        line `shouldBe` Just "line"
        -- A buffer of its own would be of 16 or 64 KiB.
        allocated `shouldSatisfy` (< 16000)
    it "cuts lines wherever the pieces end" $ do
      let text = "first\r\n\nthird line\nlast"
      forM_ [1 .. 25] $ \size -> do
        next <- fromPieces (pieces size text) >>= linesOf 20
        collect next `shouldReturn` ["first", "", "third line", "last"]
      next <- fromPieces (pieces 3 "12345678\n") >>= linesOf 5
      failsWith next `shouldReturn` TooLong "line" 5
    it "refuses a line at its first byte too many, and never reads on" $
      forM_ [1 .. 9] $ \size -> do
        (source, count) <- fromPieces (pieces size "12345\r\n12345\n123456789\nx") >>= counting
        next <- linesOf 5 source
        next `shouldReturn` Just "12345"
        next `shouldReturn` Just "12345"
        failsWith next `shouldReturn` TooLong "line" 5
        read' <- count
        read' `shouldSatisfy` (\n -> n >= 19 && n < 19 + fromIntegral size)
        failsWith next `shouldReturn` TooLong "line" 5
        count `shouldReturn` read'
    it "takes a return for a part of a longer line, and for the end's first byte" $ do
      next <- fromPieces ["12345", "\r", "\n", "123\r5\n1", "2345", "\r", "6"] >>= linesOf 5
      next `shouldReturn` Just "12345"
      next `shouldReturn` Just "123\r5"
      failsWith next `shouldReturn` TooLong "line" 5
      atEnd <- fromPieces ["123", "\r"] >>= linesOf 3
      failsWith atEnd `shouldReturn` TooLong "line" 3
    it "cuts a line that is too long at its first byte too many, and goes on with the next one" $
      forM_ [1 .. 12] $ \size -> do
        (source, count) <- fromPieces (pieces size "12345\r\n123456\r\n\n1234567890123\r\nx\n123456") >>= counting
        next <- cutLinesOf 5 source
        replicateM 2 next `shouldReturn` [Just (WholeLine "12345"), Just (CutLine "12345")]
        read' <- count
        read' `shouldSatisfy` (< 13 + fromIntegral size)
        collect next
          `shouldReturn` [WholeLine "", CutLine "12345", WholeLine "x", CutLine "12345"]
        next `shouldReturn` Nothing
    it "loses nothing when lines, frames and pieces are interrupted" $ do
      let wanted = [bytesAt i (1 + i `mod` 40) | i <- [1 .. 1500]]
          noReturns = ByteString.map (\byte -> if byte `elem` [10, 13] then 0 else byte)
      surviving (ByteString.concat [noReturns line <> "\n" | line <- wanted]) (linesOf 100) (map noReturns wanted)
      let cutOrWhole line = if ByteString.length line > 20 then CutLine (ByteString.take 20 line) else WholeLine line
      surviving
        (ByteString.concat [noReturns line <> "\n" | line <- wanted])
        (cutLinesOf 20)
        (map (cutOrWhole . noReturns) wanted)
      surviving (ByteString.concat (map (frame Length16) wanted)) (framesOf Length16 100) wanted
      let taken source = do
            (takeBytes, hasEnded') <- exactly source
            return (hasEnded' >>= \over -> if over then return Nothing else Just <$> takeBytes 7)
      surviving (bytesAt 0 28000) taken (pieces 7 (bytesAt 0 28000))
      let inTurn source = do
            (takeBytes, rest) <- takingFrom source
            taken' <- newIORef 0
            return $ do
              count <- readIORef taken'
              bytes <- if even (count :: Int) && count < 500 then takeBytes 7 else rest
              writeIORef taken' (count + 1)
              return (if ByteString.null bytes then Nothing else Just bytes)
      survivingSuch ((== bytesAt 0 28000) . ByteString.concat) (bytesAt 0 28000) inTurn
      let counted source = do
            (nextLine, takeBytes, _) <- linesAndBytes 10 source
            size <- newIORef Nothing
            return $ do
              -- The size survives when taking the bytes is interrupted.
              known <- readIORef size
              found <- maybe (fmap (read . Char8.unpack) <$> nextLine) (return . Just) known
              writeIORef size found
              forM found (\count -> takeBytes count <* writeIORef size Nothing)
          withSize bytes = Char8.pack (show (ByteString.length bytes)) <> "\n" <> bytes
      surviving (ByteString.concat (map withSize wanted)) counted wanted
    it "gives what follows the parts of a known length" $ do
      forM_ [1, 2, 3, 5, 20] $ \size -> do
        (takeBytes, rest) <- fromPieces (pieces size "\ETXabcone\ntwo\nthree") >>= takingFrom
        (takeBytes 1 >>= takeBytes . fromIntegral . ByteString.head) `shouldReturn` "abc"
        takeBytes 0 `shouldReturn` ""
        next <- linesOf 80 rest
        collect next `shouldReturn` ["one", "two", "three"]
        rest `shouldReturn` ""
        failsWith (takeBytes 1) `shouldReturn` EndsWithin "piece" 1 0
    it "takes lines and counted bytes in turn, wherever the pieces end" $
      forM_ [1 .. 30] $ \size -> do
        (nextLine, takeBytes, rest) <-
          fromPieces (pieces size "3\r\none6\n\r\ntwo\n\r\n\nEND\r\nnot\na line") >>= linesAndBytes 10
        nextLine `shouldReturn` Just "3"
        takeBytes 0 `shouldReturn` ""
        takeBytes 3 `shouldReturn` "one"
        nextLine `shouldReturn` Just "6"
        takeBytes 6 `shouldReturn` "\r\ntwo\n"
        replicateM 3 nextLine `shouldReturn` map Just ["", "", "END"]
        whole 100 rest `shouldReturn` "not\na line"
        nextLine `shouldReturn` Nothing
        failsWith (takeBytes 1) `shouldReturn` EndsWithin "piece" 1 0
    it "gives bytes of a line that was too long, or whose rest has not come" $ do
      (nextLine, takeBytes, rest) <- fromPieces ["123", "456", "7\n"] >>= linesAndBytes 4
      failsWith nextLine `shouldReturn` TooLong "line" 4
      takeBytes 4 `shouldReturn` "1234"
      nextLine `shouldReturn` Just "567"
      rest `shouldReturn` ""
      -- The source fails once, within a line.
      left <- newIORef [return "ab", throwIO ForTest, return "cd\nef"]
      let failing = join (atomicModifyIORef' left (\actions -> (drop 1 actions, foldr const (return "") actions)))
      (line, bytes, _) <- linesAndBytes 4 failing
      failsWith line `shouldReturn` ForTest
      bytes 1 `shouldReturn` "a"
      line `shouldReturn` Just "bcd"
      failsWith (bytes 3) `shouldReturn` EndsWithin "piece" 3 2
      line `shouldReturn` Just "ef"
    it "cuts frames wherever the pieces end" $ do
      let framed = ByteString.concat [frame Length16 (bytesAt 0 n) | n <- [0, 1, 255, 256, 1000]]
      forM_ [1, 2, 3, 7, 100, 5000] $ \size -> do
        next <- fromPieces (pieces size framed) >>= framesOf Length16 1000
        collect next `shouldReturn` [bytesAt 0 n | n <- [0, 1, 255, 256, 1000]]
      next <- fromPieces [frame Length32 "too long"] >>= framesOf Length32 3
      failsWith next `shouldReturn` TooLong "frame" 3
    it "tells where a stream ends too early" $ do
      next <- fromPieces [frame Length16 "whole", "\NUL\ETXab"] >>= framesOf Length16 100
      next `shouldReturn` Just "whole"
      failsWith next `shouldReturn` EndsWithin "frame" 5 4
      within' <- fromPieces ["\NUL"] >>= framesOf Length16 100
      failsWith within' `shouldReturn` EndsWithin "frame's length" 2 1
      (takeBytes, _) <- fromPieces ["abc"] >>= exactly
      show <$> (failsWith (takeBytes 5) :: IO EndsWithin)
        `shouldReturn` "Millrace.Stream: the stream ends after 3 of the 5 bytes of a piece; perhaps the \
                       \sender has failed"
      takeBytes 3 `shouldReturn` "abc"
    it "reads ahead by the given number of pieces and no more, and passes failures on" $ do
      taken <- newIORef (0 :: Int)
      let source = do
            n <- atomicModifyIORef' taken (\n -> (n + 1, n))
            if n == 10 then ioError (userError "ten") else return "x"
      outcome <- try $
        concurrently 3 source $ \ahead -> do
          void ahead
          pause 20000
          readIORef taken >>= (`shouldSatisfy` (<= 5))
          whole 100 ahead
      either
        (\problem -> show (problem :: IOError) `shouldContain` "ten")
        (const (expectationFailure "no exception"))
        outcome
    it "hands over every exception of a source that is read ahead" $ do
      forM_ [toException ThreadKilled, toException StackOverflow, toException ForTest] $ \problem -> do
        outcome <- within 10 "the exception" (try (concurrently 2 (throwIO problem) (whole 100)))
        either (\seen -> show (seen :: SomeException)) show outcome `shouldBe` show problem
      -- The queue is full when the exception comes.
      thread <- newEmptyMVar
      let source = (myThreadId >>= tryPutMVar thread) >> return "x"
      outcome <- within 10 "the exception" . try . concurrently 1 source $ \ahead -> do
        reader <- readMVar thread
        void . start $ throwTo reader ForTest
        forever (ahead >> pause 1000)
      outcome `shouldBe` (Left ForTest :: Either ForTest ())
  where
    -- Sends bytes in random pieces, and takes what is cut from them under deadlines that pass all the time.
    surviving bytes cut wanted = survivingSuch (== wanted) bytes cut
    survivingSuch isWanted bytes cut = withUnixPair $ \here there -> do
      random <- newRandom 3
      let sending left = unless (ByteString.null left) $ do
            size <- below random 60
            let (now, later) = ByteString.splitAt (1 + size) left
            sendAll there now
            when (size < 10) (pause 100)
            sending later
          taking next got interrupted = do
            limit <- below random 150
            taken <- newIORef Nothing
            -- Masked, because the deadline could otherwise pass between the end of `next` and that of `timeout`.
            _ <- Timer.timeout (1 + limit) (mask_ (next >>= writeIORef taken . Just))
            readIORef taken >>= \case
              Nothing -> taking next got (interrupted + 1 :: Int)
              Just Nothing -> return (reverse got, interrupted)
              Just (Just one) -> taking next (one : got) interrupted
      sender <- start (sending bytes >> shutdown there ShutdownSend)
      next <- cut (recv here 50)
      (got, interrupted) <- taking next [] 0
      finish sender
      isWanted got `shouldBe` True
      interrupted `shouldSatisfy` (> 20)
    pieces size bytes
      | ByteString.null bytes = []
      | otherwise = let (now, later) = ByteString.splitAt size bytes in now : pieces size later

-- Further bytes, as many as this.
takeRest :: Int -> Socket -> IO [ByteString]
takeRest 0 _ = return []
takeRest size s = recv s size >>= \bytes -> (bytes :) <$> takeRest (size - ByteString.length bytes) s

isBlocked :: ThreadId -> IO Bool
isBlocked thread = (== ThreadBlocked BlockedOnMVar) <$> threadStatus thread
