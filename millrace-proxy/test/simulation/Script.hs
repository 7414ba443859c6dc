{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | What a client asks and the target answers, and what goes wrong meanwhile.
module Script
  ( Script (..),
    RequestFraming (..),
    ResponseFraming (..),
    Trouble (..),
    Departure (..),
    Nature (..),
    newScript,
    scriptOf,
    pathOf,
    requestBody,
    responseBody,
    requestBytes,
    responseBytes,
    responseFrames,
    brokenResponse,
    isSafeTwice,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.List (find)
import Frames
import Millrace.Simulation (chance)
import Numeric (showHex)

-- | Does anything go wrong?
data Nature = Faultless | Faulty
  deriving (Eq)

-- | A request and its response.
data Script = Script
  { scriptNumber :: !Int,
    scriptMethod :: !ByteString,
    scriptRequest :: !RequestFraming,
    scriptStatus :: !Int,
    scriptResponse :: !ResponseFraming,
    scriptSize :: !Int,
    -- | Interim responses.
    scriptHints :: !Int,
    scriptTrouble :: !Trouble,
    scriptDeparture :: !Departure
  }
  deriving (Show)

data RequestFraming = NoRequestBody | CountedRequest !Int | ChunkedRequest !Int
  deriving (Eq, Show)

data ResponseFraming
  = CountedResponse
  | -- | Counted, and the target says that it takes no further request on the connection.
    LastResponse
  | ChunkedResponse
  | UntilEndResponse
  deriving (Eq, Show)

-- | What the target does wrong. Places are per mille of the response.
data Trouble
  = NoTrouble
  | -- | It closes the connection.
    CutAt !Int
  | -- | It resets the stream with this code. On HTTP/1.1 as 'CutAt'.
    ResetAt !Int !Int
  | -- | It stops.
    StallAt !Int
  | -- | It sends bytes behind the response.
    Garbage
  | -- | The head breaks the rules.
    BadHead
  | -- | The body breaks the rules.
    BadBody
  | -- | It closes the connection behind the response, and has not said that it would.
    SilentClose
  deriving (Eq, Show)

-- | When the client leaves. Places are per mille of the request or the response.
data Departure = Stays | LeavesInRequest !Int | LeavesInResponse !Int
  deriving (Eq, Show)

-- | A script by chance.
newScript :: Nature -> Int -> IO Script
newScript nature which = do
  method <- oneOf ["GET", "GET", "HEAD", "POST", "PUT"]
  size <- oneOf [0, 1, 100, 16384, 16385, 40000]
  framing <-
    if method `elem` ["POST", "PUT"]
      then oneOf [NoRequestBody, CountedRequest size, ChunkedRequest (max 1 size)]
      else return NoRequestBody
  status <- oneOf [200, 200, 200, 200, 404, 500, 204, 304]
  response <- oneOf [CountedResponse, CountedResponse, LastResponse, ChunkedResponse, UntilEndResponse]
  responseSize <- oneOf [0, 1, 5, 1000, 16384, 50000]
  hints <- oneOf [0, 0, 0, 1, 2]
  position <- chance 1000
  code <- oneOf [0, 2, 7, 8, 11]
  trouble <-
    if nature == Faultless
      then return NoTrouble
      else
        oneOf
          ( replicate 7 NoTrouble
              ++ [CutAt position, ResetAt position code, StallAt position, Garbage, BadHead, BadBody, SilentClose]
          )
  leaving <- chance 1000
  departure <-
    if nature == Faultless
      then return Stays
      else oneOf (replicate 8 Stays ++ [LeavesInRequest leaving, LeavesInResponse leaving])
  -- HEAD has no body that could be bad.
  let possible = if trouble == BadBody && method == "HEAD" then BadHead else trouble
  return (Script which method framing status response responseSize hints possible departure)
  where
    oneOf choices = (choices !!) <$> chance (length choices)

-- | May the proxy send it more than once?
isSafeTwice :: Script -> Bool
isSafeTwice script = scriptMethod script /= "POST" && B.null (requestBody script) || isRefused
  where
    -- REFUSED_STREAM before the head.
    isRefused = case scriptTrouble script of
      ResetAt _ 7 -> True
      _ -> False

-- The codes of these characters in HPACK are as long as themselves. So libnghttp2 does not use them, and the path can
-- be found in compressed heads.
pathOf :: Script -> ByteString
pathOf script =
  "/&&" <> C8.pack [if odd (scriptNumber script `div` (2 ^ bit)) then 'X' else 'Z' | bit <- [0 .. 9 :: Int]]

-- | The script whose path is in these bytes.
scriptOf :: [Script] -> ByteString -> Maybe Script
scriptOf scripts bytes = find ((== B.take 13 (snd (B.breakSubstring "/&&" bytes))) . pathOf) scripts

requestBody, responseBody :: Script -> ByteString
requestBody script = case scriptRequest script of
  NoRequestBody -> ""
  CountedRequest size -> filled ("up" <> pathOf script) size
  ChunkedRequest size -> filled ("up" <> pathOf script) size
responseBody script
  | hasNoBody script = ""
  | otherwise = filled (pathOf script) (scriptSize script)

filled :: ByteString -> Int -> ByteString
filled text size = B.take size (B.concat (replicate (size `div` B.length text + 1) text))

hasNoBody :: Script -> Bool
hasNoBody script = scriptMethod script == "HEAD" || scriptStatus script `elem` [204, 304]

number :: Int -> ByteString
number = C8.pack . show

chunks :: Int -> ByteString -> ByteString
chunks size bytes =
  B.concat
    ([C8.pack (showHex (B.length piece) "\r\n") <> piece <> "\r\n" | piece <- pieces size bytes] ++ ["0\r\n\r\n"])

pieces :: Int -> ByteString -> [ByteString]
pieces size bytes
  | B.null bytes = []
  | otherwise = let (piece, rest) = B.splitAt size bytes in piece : pieces size rest

-- | The request on HTTP/1.1.
requestBytes :: Script -> ByteString
requestBytes script = B.concat [scriptMethod script, " ", pathOf script, " HTTP/1.1\r\nHost: a\r\n", framing]
  where
    body = requestBody script
    framing = case scriptRequest script of
      -- What a client without a body says about POST.
      NoRequestBody | scriptMethod script `elem` ["POST", "PUT"] -> "Content-Length: 0\r\n\r\n"
      NoRequestBody -> "\r\n"
      CountedRequest size -> "Content-Length: " <> number size <> "\r\n\r\n" <> body
      ChunkedRequest _ -> "Transfer-Encoding: chunked\r\n\r\n" <> chunks 777 body

-- | The response on HTTP/1.1, as it should be.
responseBytes :: Script -> ByteString
responseBytes script = hints <> "HTTP/1.1 " <> number (scriptStatus script) <> " OK\r\n" <> rest
  where
    body = responseBody script
    hints = B.concat (replicate (scriptHints script) "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    rest
      | scriptStatus script == 204 =
        (if scriptResponse script == LastResponse then "Connection: close\r\n" else "") <> "\r\n"
      | otherwise = case scriptResponse script of
        CountedResponse -> "Content-Length: " <> number (scriptSize script) <> "\r\n\r\n" <> body
        LastResponse -> "Connection: close\r\nContent-Length: " <> number (scriptSize script) <> "\r\n\r\n" <> body
        ChunkedResponse -> "Transfer-Encoding: chunked\r\n\r\n" <> (if hasNoBody script then "" else chunks 999 body)
        UntilEndResponse -> "Connection: close\r\n\r\n" <> body

-- | The response on a stream of HTTP/2, as it should be.
responseFrames :: Script -> Int -> ByteString
responseFrames script stream
  | hasNoBody script = hints <> frame 1 5 stream fields
  | otherwise =
    hints
      <> frame 1 4 stream fields
      <> B.concat (map (frame 0 0 stream) (pieces 5000 (responseBody script)))
      <> frame 0 1 stream ""
  where
    hints =
      B.concat
        (replicate (scriptHints script) (frame 1 4 stream (literal (":status", "103") <> literal ("link", "</a>"))))
    fields =
      literal (":status", number (scriptStatus script))
        <> ( if scriptResponse script `elem` [CountedResponse, LastResponse] && scriptStatus script /= 204
               then literal ("content-length", number (scriptSize script))
               else ""
           )

-- | The response on HTTP/1.1 or HTTP/2 that breaks the rules in its head or in its body, and so never ends.
brokenResponse :: Maybe Int -> Trouble -> ByteString
brokenResponse version trouble = case (version, trouble) of
  (Nothing, BadHead) -> "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nHello"
  (Nothing, _) -> "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello!\r\n0\r\n\r\n"
  (Just stream, BadHead) ->
    frame 1 4 stream (literal (":status", "200") <> literal ("content-length", "5") <> literal ("content-length", "6"))
      <> frame 0 1 stream "Hello"
  (Just stream, _) ->
    frame 1 4 stream (literal (":status", "200") <> literal ("content-length", "5")) <> frame 0 1 stream "Hell"
