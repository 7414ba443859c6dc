-- | What a site does, as its user chose it. Must not know: files, servers.
module Millrace.Cli.Files.Policy
  ( Fallback (..),
    OnError (..),
    Compression (..),
  )
where

-- | What a path without a file is answered with.
data Fallback
  = -- | 404.
    NotFound
  | -- | The root's @index.html@, for an application in one page that reads the path itself.
    SinglePage
  deriving (Eq, Show)

-- | What errors are answered with.
data OnError
  = -- | A line of text that says the status.
    LineOfText
  | -- | The page that the root has for the status, such as @404.html@, and otherwise the line of text.
    PageOfSite
  deriving (Eq, Show)

-- | Whether files are compressed on the way to clients.
data Compression
  = NoCompression
  | -- | Those for which it is worth it, for clients that accept it.
    CompressOnTheWay
  deriving (Eq, Show)
