-- Must not know: files, servers.

-- | Choices of the user about a site of files.
module Millrace.Cli.Files.Policy
  ( Fallback (..),
    OnError (..),
    Compression (..),
  )
where

-- | The answer for a path without a file.
data Fallback
  = -- | 404.
    NotFound
  | -- | The root's @index.html@, for an application in one page that reads the path itself.
    SinglePage
  deriving (Eq, Show)

-- | The body of answers to errors.
data OnError
  = -- | A line of text that says the status.
    LineOfText
  | -- | The page that the root has for the status, such as @404.html@, and otherwise the line of text.
    PageOfSite
  deriving (Eq, Show)

-- | Whether files are compressed on the way to clients.
data Compression
  = NoCompression
  | -- | Those that become smaller, for clients that accept it.
    CompressOnTheWay
  deriving (Eq, Show)
