{-# LANGUAGE OverloadedStrings #-}

-- | The parser of request heads by itself: any split of the input gives the same answer, and nothing is read beyond
-- its end.
module ParserSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Unsafe as BU
import Data.Char (toLower, toUpper)
import Data.List (find)
import Data.Maybe (fromMaybe)
import Foreign.Ptr (castPtr)
import Millrace.Http.Http1.Wire
import Requests
import Test.Hspec hiding (after, before)
import Test.QuickCheck
import WireSupport

spec :: Spec
spec = do
  describe "request heads" $ do
    it "are parsed into method, target, version and fields" $ do
      parsed <- parsePieces ["GET /a/b?c=d HTTP/1.1\r\nHost: example.org:80\r\nX-Own:\t two words \r\n\r\nrest"]
      parsed
        `shouldBe` Parsed
          { parsedSize = 67,
            parsedMethod = "GET",
            parsedPath = "/a/b",
            parsedQuery = "?c=d",
            parsedFlags = flagVersion11 + flagKeepAlive,
            parsedLength = -1,
            parsedFields = [(hostNumber, "Host", "example.org:80"), (0, "X-Own", "two words")],
            parsedHost = 1
          }
    it "parse the same in two pieces, wherever they are split" $
      forM_ (validRequests ++ map third refusedRequests) $ \request -> do
        whole <- parsePieces [request]
        forM_ (positionsOf request) $ \position -> parsePieces (piecesAt position request) `shouldReturn` whole
    it "parse the same byte by byte" $
      forM_ (validRequests ++ map third refusedRequests) $ \request -> do
        whole <- parsePieces [request]
        parsePieces (zipWith (between request) (positionsOf request) (drop 1 (positionsOf request)))
          `shouldReturn` whole
    it "parse the same in any pieces, however damaged" $
      property $ \(Damaged request) ->
        forAll (cuts request) $ \pieces -> ioProperty $ do
          whole <- parsePieces [request]
          parts <- parsePieces pieces
          return (counterexample (show (whole, parts)) (whole == parts))
    it "are incomplete at every proper prefix" $
      forM_ validRequests $ \request -> do
        whole <- parsePieces [request]
        forM_ [0 .. parsedSize whole - 1] $ \size -> parsePieces [B.take size request] `shouldReturn` Incomplete
    it "may be as long as the limit, and no longer" $ do
      let headOf size = B.concat [start, C8.replicate (size - B.length start - 4) 'x', "\r\n\r\n"]
          start = "GET / HTTP/1.1\r\nHost: a\r\nX: "
      accepted <- parsePieces [headOf 51200]
      accepted `shouldSatisfy` isParsed
      refused <- parsePieces [headOf 51201]
      refused `shouldSatisfy` isRefusedWith 431
      endless <- parsePieces (replicate 100 (C8.replicate 1000 '\n') ++ [C8.replicate 60000 'x'])
      endless `shouldSatisfy` isRefusedWith 400
    it "take time in proportion to their length when they dribble in" $ do
      let long = B.concat ["GET / HTTP/1.1\r\nHost: a\r\nX: ", C8.replicate 50000 'x', "\r\n\r\n"]
      dribbled <- parseInPlace long
      dribbled `shouldBe` B.length long

  describe "field names" $ do
    it "are found by number in any case" $
      forM_ [1 .. nameCount - 1] $ \number ->
        forM_ [id, map toLower, map toUpper] $ \spell ->
          numberOf (C8.pack (spell (nameText number))) `shouldReturn` number
    it "are not found when one letter differs" $
      forM_ [1 .. nameCount - 1] $ \number ->
        forM_ [0 .. length (nameText number) - 1] $ \position -> do
          let (before, after) = splitAt position (nameText number)
          found <- numberOf (C8.pack (before ++ "~" ++ drop 1 after))
          found `shouldBe` 0
  where
    third (_, _, request) = request
    between request start end = B.take (end - start) (B.drop start request)
    -- All of them; of a head that is too long, some of those between its beginning and the limit: each costs a copy.
    positionsOf request =
      [ position
        | position <-
            [0 .. B.length request],
          position < 9000 || position > B.length request - 1200 || position `mod` 50 == 0
      ]
    isParsed (Parsed {}) = True
    isParsed _ = False
    isRefusedWith status (Refused number) = errorStatus number == status
    isRefusedWith _ _ = False

hostNumber :: Int
hostNumber = fromMaybe (error "Host has no number") (find ((== "Host") . nameText) [1 .. nameCount - 1])

numberOf :: ByteString -> IO Int
numberOf name = BU.unsafeUseAsCStringLen name $ \(at, size) -> findName (castPtr at) size

-- Byte by byte over one buffer: 50,000 calls, which would be a billion bytes if each began at the start.
parseInPlace :: ByteString -> IO Int
parseInPlace bytes = BU.unsafeUseAsCStringLen bytes $ \(at, size) -> withParser $ \parser ->
  let go count
        | count > size = return 0
        | otherwise = do
          result <- runParser parser (castPtr at) count
          if result /= 0 then return result else go (count + 1)
   in go 1

-- | A request with some bytes changed, dropped or repeated.
newtype Damaged = Damaged ByteString
  deriving (Show)

instance Arbitrary Damaged where
  arbitrary = do
    request <- elements (validRequests ++ map (\(_, _, bytes) -> bytes) refusedRequests)
    times <- choose (0, 3 :: Int)
    Damaged <$> damage times request
    where
      damage 0 request = return request
      damage left request = do
        position <- choose (0, max 0 (B.length request - 1))
        byte <- oneof [arbitrary, elements (B.unpack "\r\n :,\t\0;/?*[]")]
        let (before, after) = B.splitAt position request
        changed <-
          elements
            [ B.concat [before, B.singleton byte, B.drop 1 after],
              B.concat [before, B.singleton byte, after],
              B.concat [before, B.drop 1 after],
              B.concat [before, B.take 20 after, after]
            ]
        damage (left - 1) changed

cuts :: ByteString -> Gen [ByteString]
cuts bytes
  | B.null bytes = return []
  | otherwise = do
    size <- choose (1, min 40 (B.length bytes))
    (B.take size bytes :) <$> cuts (B.drop size bytes)
