{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A list that the other side writes costs about what another head of its size costs.
module CostSpec (spec) where

import Control.Concurrent (runInBoundThread)
import Control.Exception (evaluate)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Int (Int64)
import Data.List (sort)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)
import Millrace.Proxy
import Millrace.Proxy.RequestHead
import Millrace.Proxy.ResponseHead
import Network.HTTP.Types (Header)
import Network.Wai (Request (..), defaultRequest)
import Test.Hspec

spec :: Spec
spec = do
  describe "in a request" $
    forM_ (requestLists <> bothLists) $ \(name, member) ->
      forM_ shapes $ \(shape, fieldsOf) ->
        it (Char8.unpack name <> ": " <> shape) $ costOfRequest (fieldsOf name member) `isAtMost` costOfRequest ordinary
  describe "in a response" $
    forM_ (bothLists <> [("Set-Cookie", "a=b; "), ("Cache-Control", "a=b, "), ("Vary", "a, ")]) $ \(name, member) ->
      forM_ shapes $ \(shape, fieldsOf) ->
        it (Char8.unpack name <> ": " <> shape) $
          costOfResponse (fieldsOf name member) `isAtMost` costOfResponse ordinary
  where
    bothLists =
      [ ("Connection", "a,"),
        ("Connection", "X-Ordinary,"),
        ("Connection", ","),
        ("Upgrade", "a,"),
        ("Via", "1.1 a, "),
        ("Trailer", "a, ")
      ]
    requestLists =
      [ ("TE", "a;q=1,"),
        ("Forwarded", "for=a, "),
        ("X-Forwarded-For", "::1, "),
        ("X-Forwarded-Proto", "a, "),
        ("X-Forwarded-Host", "a, "),
        ("Cookie", "a=b; "),
        ("Accept-Encoding", "a;q=1, "),
        ("traceparent", "00-"),
        ("tracestate", "a=b,")
      ]
    shapes = [("one line", oneLine), ("a hundred lines", manyLines), ("long members", longMembers)]

-- The size of a head, and the number of its fields, that are allowed by default.
headSize, fieldsMax :: Int
headSize = 50000
fieldsMax = 100

ordinary :: [Header]
ordinary =
  [ (CI.mk ("X-Ordinary-" <> Char8.pack (show number)), Char8.replicate (headSize `div` fieldsMax - 20) 'v')
    | number <-
        [1 .. fieldsMax]
  ]

oneLine, manyLines, longMembers :: ByteString -> ByteString -> [Header]
oneLine name member = [(CI.mk name, Char8.concat (replicate (headSize `div` Char8.length member) member))]
manyLines name member =
  replicate fieldsMax (CI.mk name, Char8.concat (replicate (headSize `div` fieldsMax `div` Char8.length member) member))
longMembers name member =
  [ ( CI.mk name,
      Char8.concat (replicate 100 (Char8.replicate (headSize `div` 100 - Char8.length member) 'm' <> member))
    )
  ]

-- Something to work on, and the work on it.
data Cost = forall input. Cost input (input -> Int)

costOfRequest, costOfResponse :: [Header] -> Cost
costOfRequest fields = Cost defaultRequest {requestHeaders = fields} (either length Char8.length . composeHead outgoing)
  where
    outgoing = Outgoing "1.1 millrace" KeepHost AppendForwarded "localhost" Nothing NoBody SendsAtOnce Nothing
costOfResponse fields = Cost bytes $ \given -> case parseResponseHead given of
  Parsed found size -> size + length (headFields found)
  _ -> 0
  where
    bytes =
      Char8.concat
        ( ["HTTP/1.1 200 OK\r\n"]
            <> concat [[CI.original name, ": ", value, "\r\n"] | (name, value) <- fields]
            <> ["\r\n"]
        )

-- The first one takes at most three times the processor time of the second one: medians, measured in turns in one
-- thread of the system, so that other programs do not matter.
isAtMost :: Cost -> Cost -> Expectation
isAtMost one reference = runInBoundThread $ do
  times <- replicateM 9 ((,) <$> timeOf one <*> timeOf reference)
  let median which = sort (map which times) !! 4
  (median fst, median snd) `shouldSatisfy` (\(time, allowed) -> time <= 3 * allowed)

-- Nanoseconds of five times. The reference keeps the work of one time from being the result of the next one.
timeOf :: Cost -> IO Int64
timeOf (Cost input work) = do
  cell <- newIORef input
  begin <- threadNanoseconds
  replicateM_ 5 (readIORef cell >>= evaluate . work)
  subtract begin <$> threadNanoseconds

foreign import ccall unsafe "clock_gettime"
  c_clockGetTime :: CInt -> Ptr Word8 -> IO CInt

-- CLOCK_THREAD_CPUTIME_ID of Linux
threadNanoseconds :: IO Int64
threadNanoseconds = allocaBytes 16 $ \time -> do
  _ <- c_clockGetTime 3 time
  seconds <- peekByteOff time 0
  nanoseconds <- peekByteOff time 8
  return (1000000000 * seconds + nanoseconds)
