-- | Where a proxy passes requests on to. Must not know: sockets.
module Millrace.Proxy.Target
  ( Target (..),
    Scheme (..),
    Place (..),
    parseTarget,
    showTarget,
    targetAuthority,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAlphaNum, isAscii, isDigit)
import Data.List (stripPrefix)

-- | A server that a proxy passes requests on to.
--
-- @since 0.1.0
data Target = Target
  { targetScheme :: !Scheme,
    targetPlace :: !Place
  }
  deriving (Eq, Ord, Show)

-- | Whether connections to a target are protected.
--
-- @since 0.1.0
data Scheme
  = Http
  | -- | By TLS. The target must have a certificate for its name.
    Https
  deriving (Eq, Ord, Show)

-- | Where a target listens.
--
-- @since 0.1.0
data Place
  = -- | A name or an address, and a port.
    AtHost !String !Int
  | -- | A Unix socket.
    AtPath !FilePath
  deriving (Eq, Ord, Show)

-- | Reads a target: @http:\/\/HOST[:PORT]@, @https:\/\/HOST[:PORT]@, @HOST:PORT@, a port alone for this machine, or
-- @unix:PATH@. Otherwise returns what is wrong, to follow a colon.
--
-- >>> parseTarget "https://example.org"
-- Right (Target {targetScheme = Https, targetPlace = AtHost "example.org" 443})
-- >>> parseTarget "http://[::1]:8080/"
-- Right (Target {targetScheme = Http, targetPlace = AtHost "::1" 8080})
-- >>> parseTarget "3000"
-- Right (Target {targetScheme = Http, targetPlace = AtHost "127.0.0.1" 3000})
-- >>> parseTarget "http://example.org/app"
-- Left "a target has no path: requests keep theirs"
--
-- @since 0.1.0
parseTarget :: String -> Either String Target
parseTarget text
  | Just path <- stripPrefix "unix:" text = if null path then Left "unix: needs the path of a socket" else Right (Target Http (AtPath path))
  | Just rest <- stripPrefix "http://" text = Target Http <$> (withoutPath rest >>= place (Just 80))
  | Just rest <- stripPrefix "https://" text = Target Https <$> (withoutPath rest >>= place (Just 443))
  | not (null text) && all isDigit text = Target Http . AtHost "127.0.0.1" <$> port text
  | otherwise = Target Http <$> (withoutPath text >>= place Nothing)
  where
    withoutPath rest = case break (== '/') rest of
      (authority, path)
        | path `elem` ["", "/"] -> Right authority
        | otherwise -> Left "a target has no path: requests keep theirs"
    place usual authority = case authority of
      '[' : rest | (address, ']' : end) <- break (== ']') rest -> AtHost <$> checked isAddress address <*> portAfter usual end
      _ -> let (name, end) = break (== ':') authority in AtHost <$> checked isName name <*> portAfter usual end
    portAfter _ (':' : digits) = port digits
    portAfter (Just usual) "" = Right usual
    portAfter _ _ = Left "a target is http://HOST[:PORT], https://HOST[:PORT], HOST:PORT, PORT or unix:PATH"
    checked isPart name
      | not (null name) && all isPart name = Right name
      | otherwise = Left ("'" <> name <> "' is not the name or the address of a host")
    isName character = isAscii character && (isAlphaNum character || character `elem` "-._")
    isAddress character = isName character || character `elem` ":%"

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
--
-- @since 0.1.0
showTarget :: Target -> String
showTarget target = case targetPlace target of
  AtPath path -> "unix:" <> path
  AtHost name number -> scheme <> bracketed name <> ":" <> show number
  where
    scheme = case targetScheme target of
      Http -> "http://"
      Https -> "https://"

bracketed :: String -> String
bracketed name = if ':' `elem` name then "[" <> name <> "]" else name

-- | What the field Host says if it names the target. For a Unix socket it is @localhost@.
--
-- @since 0.1.0
targetAuthority :: Target -> ByteString
targetAuthority target = case targetPlace target of
  AtPath _ -> Char8.pack "localhost"
  AtHost name number
    | number == usual -> Char8.pack (bracketed name)
    | otherwise -> Char8.pack (bracketed name <> ":" <> show number)
  where
    usual = case targetScheme target of
      Http -> 80
      Https -> 443
