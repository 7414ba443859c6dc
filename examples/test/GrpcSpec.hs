{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Calls the example of gRPC with a client that speaks in frames: calls of all four kinds, errors, a deadline, a
-- cancellation.
module GrpcSpec (grpcSpec) where

import Control.Monad (forM, forM_, void)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Maybe (fromJust)
import Http2Client
import Support (runningWith)
import System.IO (Handle, hGetLine)
import System.Process (StdStream (..))
import Test.Hspec
import TestSupport.Time (within)

grpcSpec :: Spec
grpcSpec = describe "grpc" $ do
  it "answers calls of one message each" . calling $ \_ http2 -> do
    answer <- call http2 "Square" [] [number 1234]
    answerStatus answer `shouldBe` Just 200
    answerField "content-type" answer `shouldBe` Just "application/grpc"
    messages (answerBody answer) `shouldBe` [number 1522756]
    answerTrailers answer `shouldBe` [("grpc-status", "0"), ("grpc-message", "")]

  it "sends a stream of messages" . calling $ \_ http2 -> do
    answer <- call http2 "Count" [] [number 300]
    messages (answerBody answer) `shouldBe` map number [1 .. 300]
    statusOf answer `shouldBe` Just "0"

  it "takes a stream of messages, cut anywhere" . calling $ \_ http2 -> do
    answer <- call http2 "Sum" [] (map number [0 .. 1000])
    (messages (answerBody answer), statusOf answer) `shouldBe` ([number 500500], Just "0")
    stream <- begin http2 "Sum" []
    forM_ (B.unpack (B.concat (map framed [number 300, number 7]))) $ \byte ->
      sendBody http2 stream [] (B.singleton byte)
    sendFrame http2 (dataFrame stream [EndStream] "")
    answer' <- awaitAnswer http2 stream
    (messages (answerBody answer'), statusOf answer') `shouldBe` ([number 307], Just "0")

  it "answers each message of a stream before the next one comes" . calling $ \_ http2 -> do
    stream <- begin http2 "Squares" []
    answers <- forM [1 .. 20] $ \value -> do
      sendBody http2 stream [] (framed (number value))
      nextPiece http2 stream
    answers `shouldBe` map (\value -> framed (number (value * value))) [1 .. 20]
    sendFrame http2 (dataFrame stream [EndStream] "")
    statusOf <$> awaitAnswer http2 stream `shouldReturn` Just "0"

  it "ends a call with the status of an error" . calling $ \_ http2 -> do
    let endsWith name body status text = do
          stream <- sendRequest http2 (headOf name []) body
          answer <- awaitAnswer http2 stream
          (answerStatus answer, answerTrailers answer)
            `shouldBe` (Just 200, [("grpc-status", status), ("grpc-message", text)])
    endsWith "Square" "" "3" "a%20number%20is%20missing"
    endsWith "Nothing" (framed (number 1)) "12" "there%20is%20no%20such%20method"
    endsWith "Square" (B.init (framed (number 1))) "13" "a%20message%20is%20incomplete"
    endsWith "Square" "\0\0" "13" "a%20message%20is%20incomplete"
    endsWith "Square" "\0\1\0\0\0" "8" "a%20message%20is%20too%20long"
    endsWith "Square" ("\1" <> B.drop 1 (framed (number 1))) "12" "messages%20must%20not%20be%20compressed"

  it "refuses what is no call" . calling $ \_ http2 -> do
    answer <- ask http2 (post "/Numbers/Square" ++ [("content-type", "application/grpc-web")]) (framed (number 1))
    answerStatus answer `shouldBe` Just 415

  it "interrupts a call at its deadline, and says so" . calling $ \output http2 ->
    -- gRPC of Go counts times below 100 ms in nanoseconds.
    forM_ ["200m", "200000u", "50000000n"] $ \time -> do
      answer <- call http2 "Count" [("grpc-timeout", time)] [number 1000000]
      answerTrailers answer `shouldBe` [("grpc-status", "4"), ("grpc-message", "the%20deadline%20has%20passed")]
      hGetLine output `shouldReturn` "Count was interrupted"

  it "has no deadline too soon for the longest time, and refuses one that is malformed" . calling $ \_ http2 -> do
    forM_ ["99999999H", "99999999S", "1S"] $ \time -> do
      answer <- call http2 "Square" [("grpc-timeout", time)] [number 2]
      (time, statusOf answer) `shouldBe` (time, Just "0")
    forM_ ["100000000n", "1", "S", "-1S", "1d", ""] $ \time -> do
      answer <- call http2 "Square" [("grpc-timeout", time)] [number 2]
      (time, answerTrailers answer)
        `shouldBe` (time, [("grpc-status", "13"), ("grpc-message", "grpc-timeout%20is%20malformed")])

  it "interrupts a call that the client cancels, and no other" . calling $ \output http2 -> do
    other <- begin http2 "Sum" []
    stream <- begin http2 "Count" []
    sendBody http2 stream [EndStream] (framed (number 1000000))
    void (nextPiece http2 stream)
    sendFrame http2 (resetFrame stream Cancel)
    hGetLine output `shouldReturn` "Count was interrupted"
    sendBody http2 other [EndStream] (framed (number 5))
    answer <- awaitAnswer http2 other
    (messages (answerBody answer), statusOf answer) `shouldBe` ([number 5], Just "0")

-- Runs the example, gives its output, and speaks HTTP/2 with it.
calling :: (Handle -> Http2 -> IO a) -> IO a
calling talk = runningWith CreatePipe "grpc" $ \output connection -> do
  http2 <- http2OnClient polite connection
  handshake http2 []
  talk (fromJust output) http2

headOf :: ByteString -> Fields -> Fields
headOf name fields = post ("/Numbers/" <> name) ++ [("content-type", "application/grpc"), ("te", "trailers")] ++ fields

begin :: Http2 -> ByteString -> Fields -> IO StreamId
begin http2 name fields = openStream http2 [] (headOf name fields)

call :: Http2 -> ByteString -> Fields -> [ByteString] -> IO Answer
call http2 name fields sent = ask http2 (headOf name fields) (B.concat (map framed sent))

statusOf :: Answer -> Maybe ByteString
statusOf = lookup "grpc-status" . answerTrailers

-- The content of the next DATA frame that has some.
nextPiece :: Http2 -> StreamId -> IO ByteString
nextPiece http2 stream = within 20 "a message" go
  where
    go =
      nextEvent http2 >>= \case
        GotData from bytes _ | from == stream && not (B.null bytes) -> return bytes
        Closed -> fail "the server has closed the connection"
        _ -> go

framed :: ByteString -> ByteString
framed message = B.pack [0, 0, 0] <> word16 (fromIntegral (B.length message)) <> message

messages :: ByteString -> [ByteString]
messages bytes
  | B.null bytes = []
  | B.length message < size = error ("An incomplete message: " ++ show bytes)
  | otherwise = message : messages rest
  where
    (message, rest) = B.splitAt size (B.drop 5 bytes)
    size = B.foldl' (\value byte -> value `shiftL` 8 .|. fromIntegral byte) 0 (B.take 4 (B.drop 1 bytes))

-- @message Number { int64 value = 1; }@, for numbers that are not 0.
number :: Int -> ByteString
number value = if value == 0 then "" else B.pack (0x08 : go value)
  where
    go rest
      | rest < 128 = [fromIntegral rest]
      | otherwise = fromIntegral (rest `rem` 128) + 128 : go (rest `quot` 128)
