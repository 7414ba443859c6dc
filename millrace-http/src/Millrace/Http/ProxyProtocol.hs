-- Must not know: requests, responses, connections.

-- |
-- The header with which a proxy tells the address of its client: the PROXY protocol, versions 1 and 2.
module Millrace.Http.ProxyProtocol (Parsed (..), parseHeader) where

import Control.Exception (IOException, try)
import Control.Monad (guard)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Char (isDigit, isHexDigit)
import Data.Word (Word16)
import Network.Socket
import Text.Read (readMaybe)

-- | What the bytes are that a connection begins with.
data Parsed
  = -- | The header's length, and the address if it has one.
    Header !Int !(Maybe SockAddr)
  | -- | They begin no header.
    NoHeader
  | -- | They begin a header that is wrong, for this reason.
    Malformed String
  | -- | More bytes must come.
    Incomplete

-- | Parses the header at the beginning of these bytes.
parseHeader :: ByteString -> IO Parsed
parseHeader bytes
  | signature `B.isPrefixOf` bytes = return (parseBinary bytes)
  | keyword `B.isPrefixOf` bytes = parseText bytes
  | bytes `B.isPrefixOf` signature || bytes `B.isPrefixOf` keyword = return Incomplete
  | otherwise = return NoHeader

keyword, signature :: ByteString
keyword = C8.pack "PROXY "
signature = B.pack [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]

-- Version 1: a line of at most 107 bytes.
parseText :: ByteString -> IO Parsed
parseText bytes = case B.breakSubstring (C8.pack "\r\n") (B.take 107 bytes) of
  (_, rest) | B.null rest -> return (if B.length bytes < 107 then Incomplete else Malformed "the line is too long")
  (text, _) -> maybe (Malformed (show text)) (Header (B.length text + 2)) <$> parseLine (C8.split ' ' text)

parseLine :: [ByteString] -> IO (Maybe (Maybe SockAddr))
parseLine (_ : family : _) | family == C8.pack "UNKNOWN" = return (Just Nothing)
parseLine [_, family, source, destination, sourcePort, destinationPort] = do
  from <- addressOf source
  to <- addressOf destination
  return $ do
    host <- from
    _ <- to
    port <- portOf sourcePort
    _ <- portOf destinationPort
    Just (Just (host port))
  where
    addressOf text
      | family == C8.pack "TCP4" = return (flip SockAddrInet <$> parseIPv4 text)
      | family == C8.pack "TCP6" = parseIPv6 text
      | otherwise = return Nothing
parseLine _ = return Nothing

portOf :: ByteString -> Maybe PortNumber
portOf text = do
  guard (isDecimal 5 text)
  (number, _) <- C8.readInt text
  guard (number < 65536)
  Just (fromIntegral number)

-- Parses a number of at most this many digits. The protocol permits no leading zeros: elsewhere they mean octal
-- numbers.
isDecimal :: Int -> ByteString -> Bool
isDecimal longest text = C8.all isDigit text && size > 0 && size <= longest && (size == 1 || C8.head text /= '0')
  where
    size = B.length text

parseIPv4 :: ByteString -> Maybe HostAddress
parseIPv4 text = case mapM byte (C8.split '.' text) of
  Just [a, b, c, d] -> Just (tupleToHostAddress (a, b, c, d))
  _ -> Nothing
  where
    byte digits = do
      guard (isDecimal 3 digits)
      number <- readMaybe (C8.unpack digits) :: Maybe Int
      guard (number < 256)
      Just (fromIntegral number)

-- Uses the system's parser, and only for numeric addresses, so no name server is asked.
parseIPv6 :: ByteString -> IO (Maybe (PortNumber -> SockAddr))
parseIPv6 text
  | C8.all (\character -> isHexDigit character || character `elem` ":.") text && C8.elem ':' text = do
    found <- try (getAddrInfo (Just hints) (Just (C8.unpack text)) Nothing) :: IO (Either IOException [AddrInfo])
    return $ case map addrAddress <$> found of
      Right (SockAddrInet6 _ _ host _ : _) -> Just (\port -> SockAddrInet6 port 0 host 0)
      _ -> Nothing
  | otherwise = return Nothing
  where
    hints = defaultHints {addrFlags = [AI_NUMERICHOST], addrFamily = AF_INET6, addrSocketType = Stream}

-- Version 2: binary.
parseBinary :: ByteString -> Parsed
parseBinary bytes
  | B.length bytes < 16 = Incomplete
  | B.index bytes 12 .&. 0xf0 /= 0x20 = Malformed "an unknown version"
  | command > 1 = Malformed "an unknown command"
  | B.length bytes < 16 + size = Incomplete
  | command == 0 =
    Header (16 + size) Nothing -- The LOCAL command: the connection is the proxy's own, for instance a health check.
  | otherwise = case B.index bytes 13 of
    0x11 | size >= 12 -> found (SockAddrInet (port 8) (tupleToHostAddress (byte 0, byte 1, byte 2, byte 3)))
    0x21
      | size >= 36 ->
        found (SockAddrInet6 (port 32) 0 (tupleToHostAddress6 (w 0, w 2, w 4, w 6, w 8, w 10, w 12, w 14)) 0)
    0x31 | size >= 216 -> found (SockAddrUnix (C8.unpack (unixName (B.take 108 body))))
    family
      | family `elem` [0x11, 0x21, 0x31] -> Malformed "addresses cut short"
      | family `shiftR` 4 > 3 || family .&. 0x0f > 2 -> Malformed "an unknown family or transport"
      | otherwise -> Header (16 + size) Nothing
  where
    command = B.index bytes 12 .&. 0x0f
    size = fromIntegral (pair bytes 14) :: Int
    body = B.take size (B.drop 16 bytes)
    byte = B.index body
    w = pair body
    port = fromIntegral . pair body
    found = Header (16 + size) . Just

-- A path ends with the first zero. An abstract name begins with one and may have others; those at the end only fill the
-- field.
unixName :: ByteString -> ByteString
unixName field
  | B.take 1 field == B.singleton 0 = fst (B.spanEnd (== 0) field)
  | otherwise = B.takeWhile (/= 0) field

pair :: ByteString -> Int -> Word16
pair bytes at = fromIntegral (B.index bytes at) `shiftL` 8 .|. fromIntegral (B.index bytes (at + 1))
