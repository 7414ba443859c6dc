{-# LANGUAGE OverloadedStrings #-}

-- | Sums of numbers in the address and in the body, an answer that is always the same, and uploads that are counted.
module Numbers (addUp, sayOk, countBytes, numberOr, textAnswer) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (Builder, byteString, intDec)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Network.HTTP.Types (hContentType, methodPost, status200)
import Network.Wai

addUp :: Request -> IO Response
addUp request = do
  body <- if requestMethod request == methodPost then Lazy.toStrict <$> strictRequestBody request else return "0"
  return
    ( textAnswer
        ( intDec
            ( numberOr 0 "a" request
                + numberOr 0 "b" request
                + maybe 0 fst (Char8.readInt (Char8.dropWhile (== ' ') body))
            )
        )
    )

sayOk :: Response
sayOk = textAnswer (byteString "ok")

textAnswer :: Builder -> Response
textAnswer = responseBuilder status200 [(hContentType, "text/plain")]

-- | A parameter of the address, or another number where it is missing or is no number.
numberOr :: Int -> ByteString -> Request -> Int
numberOr other name request = case lookup name (queryString request) of
  Just (Just text) | Just (number, "") <- Char8.readInt text -> number
  _ -> other

-- | How many bytes the body really has.
countBytes :: Request -> IO Response
countBytes request = count 0
  where
    count soFar = do
      chunk <- getRequestBodyChunk request
      if ByteString.null chunk
        then return (textAnswer (intDec soFar))
        else count $! soFar + ByteString.length chunk
