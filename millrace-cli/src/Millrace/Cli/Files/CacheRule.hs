{-# LANGUAGE OverloadedStrings #-}

-- Must not know: files, servers.

-- | Chooses the Cache-Control of a file (RFC 9111 section 5.2). Pure.
module Millrace.Cli.Files.CacheRule
  ( CacheRule,
    cacheRule,
    readCacheRule,
    rulePattern,
    ruleValue,
    cacheControl,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.List (find, isPrefixOf)
import Millrace.Cli.Base.NameBytes (nameBytes)

-- | A pattern for the paths of files, and the Cache-Control that these files have.
data CacheRule = CacheRule
  { -- | As it was written.
    rulePattern :: String,
    ruleScope :: FilePattern,
    -- | The value of the field.
    ruleValue :: String
  }
  deriving (Eq, Show)

-- The files that a pattern means.
data FilePattern
  = -- | This file, or those below this directory. No names: all files.
    Below [ByteString]
  | -- | Those whose names end in this, in upper or lower case.
    EndingIn ByteString
  deriving (Eq, Show)

-- | @cacheRule pattern value@ makes a rule. 'Left' says what is wrong with it. A pattern that begins with a slash is a
-- file, or a directory and all that is below. One that begins with @*.@ is all files with this extension.
--
-- >>> let rules = traverse (uncurry cacheRule) [("/", "no-cache"), ("*.css", "max-age=60")]
-- >>> cacheControl <$> rules <*> pure ["a", "b.css"]
-- Right (Just "max-age=60")
cacheRule :: String -> String -> Either String CacheRule
cacheRule glob value
  | null value || not (all isAllowed value) || any isBlank [take 1 value, take 1 (reverse value)] =
    Left ("'" <> value <> "' cannot be the value of Cache-Control: write, for example, no-cache or max-age=3600")
  | otherwise = (\scope -> CacheRule glob scope value) <$> scopeOf glob
  where
    isAllowed character = character >= ' ' && character <= '~'
    isBlank = (== " ")

-- | Reads a rule from @PATTERN=VALUE@. The pattern ends at the first equals sign.
readCacheRule :: String -> Either String CacheRule
readCacheRule text = case break (== '=') text of
  (glob, '=' : value) -> cacheRule glob value
  _ -> Left ("'" <> text <> "' is not PATTERN=VALUE: write, for example, '*.css=max-age=3600'")

scopeOf :: String -> Either String FilePattern
scopeOf glob = case glob of
  "/" -> Right (Below [])
  '/' : path | not (any null (segments path)) -> Right (Below (map nameBytes (segments path)))
  '*' : '.' : extension
    | not (null extension) && all (`notElem` ['/', '*']) extension ->
      Right (EndingIn (nameBytes ('.' : extension)))
  _ ->
    Left
      ("'" <> glob <> "' is not a pattern: write a path that begins with a slash (/assets/), or an extension (*.css)")

-- The names between the slashes. One slash at the end does not count.
segments :: String -> [String]
segments path = case break (== '/') path of
  (name, "/") -> [name]
  (name, _ : rest) -> name : segments rest
  (name, "") -> [name]

-- | The Cache-Control of a file, given the names in its path below the directory. The last rule that fits decides.
-- O(number of rules * length).
cacheControl :: [CacheRule] -> [ByteString] -> Maybe ByteString
cacheControl rules names = Char8.pack . ruleValue <$> find (isFor names . ruleScope) (reverse rules)

isFor :: [ByteString] -> FilePattern -> Bool
isFor names scope = case scope of
  Below directory -> directory `isPrefixOf` names
  EndingIn extension -> any (endsIn extension) (take 1 (reverse names))
  where
    endsIn extension name = CI.mk (Char8.drop (Char8.length name - Char8.length extension) name) == CI.mk extension
