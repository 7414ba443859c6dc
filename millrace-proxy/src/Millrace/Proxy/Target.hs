-- Must not know: sockets.

-- | The servers that a proxy passes requests on to: their names and addresses.
module Millrace.Proxy.Target
  ( Target (..),
    Scheme (..),
    Address (..),
    parseTarget,
    showTarget,
    targetAuthority,
    isProtected,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAlphaNum, isAscii, isDigit)
import Data.List (stripPrefix)

-- | A server that a proxy passes requests on to.
data Target = Target
  { targetScheme :: !Scheme,
    targetAddress :: !Address
  }
  deriving (Eq, Ord, Show)

-- | Whether connections to a target are protected, and which version of HTTP it speaks. With TLS the target must have a
-- certificate for its name.
data Scheme
  = -- | HTTP\/1.1.
    Http
  | -- | TLS. HTTP\/2 if the target offers it (ALPN), otherwise HTTP\/1.1.
    Https
  | -- | TLS and HTTP\/1.1.
    Https1
  | -- | HTTP\/2 without TLS, which the target must speak from the first byte (prior knowledge).
    H2c
  | -- | TLS and HTTP\/2.
    H2
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | The address on which a target listens.
data Address
  = -- | A name or an address, and a port.
    AtHost !String !Int
  | -- | A Unix socket.
    AtPath !FilePath
  deriving (Eq, Ord, Show)

-- | Reads a target: @http:\/\/HOST[:PORT]@, the same with @https@, @https1@, @h2c@ or @h2@, @HOST:PORT@, a port alone
-- for this machine, @unix:PATH@, or @h2c+unix:PATH@. 'Left' says what is wrong with another text, to follow a colon.
--
-- >>> parseTarget "https://example.org"
-- Right (Target {targetScheme = Https, targetAddress = AtHost "example.org" 443})
-- >>> parseTarget "http://[::1]:8080/"
-- Right (Target {targetScheme = Http, targetAddress = AtHost "::1" 8080})
-- >>> parseTarget "3000"
-- Right (Target {targetScheme = Http, targetAddress = AtHost "127.0.0.1" 3000})
-- >>> parseTarget "h2c://127.0.0.1:50051"
-- Right (Target {targetScheme = H2c, targetAddress = AtHost "127.0.0.1" 50051})
-- >>> parseTarget "http://example.org/app"
-- Left "a target has no path: requests keep theirs"
parseTarget :: String -> Either String Target
parseTarget text
  | Just path <- stripPrefix "unix:" text = atPath Http path
  | Just path <- stripPrefix "h2c+unix:" text = atPath H2c path
  | ((scheme, rest) : _) <-
      [(scheme, rest) | scheme <- [minBound ..], Just rest <- [stripPrefix (schemeText scheme) text]] =
    Target scheme <$> (withoutPath rest >>= addressIn (Just (usualPort scheme)))
  | not (null text) && all isDigit text = Target Http . AtHost "127.0.0.1" <$> port text
  | otherwise = Target Http <$> (withoutPath text >>= addressIn Nothing)
  where
    atPath scheme path =
      if null path then Left "unix: needs the path of a socket" else Right (Target scheme (AtPath path))
    withoutPath rest = case break (== '/') rest of
      (authority, path)
        | path `elem` ["", "/"] -> Right authority
        | otherwise -> Left "a target has no path: requests keep theirs"
    addressIn usual authority = case authority of
      '[' : rest
        | (address, ']' : end) <- break (== ']') rest ->
          AtHost <$> checked isAddress address <*> portAfter usual end
      _ -> let (name, end) = break (== ':') authority in AtHost <$> checked isName name <*> portAfter usual end
    portAfter _ (':' : digits) = port digits
    portAfter (Just usual) "" = Right usual
    portAfter _ _ =
      Left "a target is http://HOST[:PORT] (or https, https1, h2c, h2), HOST:PORT, PORT, unix:PATH or h2c+unix:PATH"
    checked isPart name
      | not (null name) && all isPart name = Right name
      | otherwise = Left ("'" <> name <> "' is not the name or the address of a host")
    isName character = isAscii character && (isAlphaNum character || character `elem` "-._")
    isAddress character = isName character || character `elem` ":%"

schemeText :: Scheme -> String
schemeText scheme = case scheme of
  Http -> "http://"
  Https -> "https://"
  Https1 -> "https1://"
  H2c -> "h2c://"
  H2 -> "h2://"

usualPort :: Scheme -> Int
usualPort scheme = if isProtected scheme then 443 else 80

-- | Whether connections use TLS.
isProtected :: Scheme -> Bool
isProtected scheme = scheme `elem` [Https, Https1, H2]

port :: String -> Either String Int
port digits
  | not (null digits) && length digits <= 5 && all isDigit digits && number >= 1 && number <= 65535 = Right number
  | otherwise = Left ("'" <> digits <> "' is not a port from 1 to 65535")
  where
    number = read digits :: Int

-- | The target as a URL, or as @unix:PATH@.
--
-- >>> showTarget <$> parseTarget "127.0.0.1:3000"
-- Right "http://127.0.0.1:3000"
showTarget :: Target -> String
showTarget target = case targetAddress target of
  AtPath path -> (if targetScheme target == H2c then "h2c+" else "") <> "unix:" <> path
  AtHost name number -> schemeText (targetScheme target) <> bracketed name <> ":" <> show number

bracketed :: String -> String
bracketed name = if ':' `elem` name then "[" <> name <> "]" else name

-- | The value of the field Host that names the target. For a Unix socket it is @localhost@.
targetAuthority :: Target -> ByteString
targetAuthority target = case targetAddress target of
  AtPath _ -> Char8.pack "localhost"
  AtHost name number
    | number == usualPort (targetScheme target) -> Char8.pack (bracketed name)
    | otherwise -> Char8.pack (bracketed name <> ":" <> show number)
