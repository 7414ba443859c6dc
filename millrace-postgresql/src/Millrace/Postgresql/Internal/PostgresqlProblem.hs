-- Must not know: sockets.

-- | The problems with servers and statements, as one type of exception.
module Millrace.Postgresql.Internal.PostgresqlProblem
  ( PostgresqlProblem (..),
    Refusal (..),
    Unsendable (..),
  )
where

import Control.Exception (Exception (..))
import Data.ByteString (ByteString)
import Data.Char (isSpace)
import Data.Text (Text)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text

-- | A problem with a server, a statement, or the types of a statement. A deadline that passes is not among them: it is
-- an 'IOError', as everywhere ('Millrace.Deadline.isDeadlineError').
data PostgresqlProblem
  = -- | No connection could be made.
    NotConnected
      { problemServer :: !String,
        problemReason :: !Text
      }
  | -- | The connection failed during a statement. The server may or may not have carried it out.
    ConnectionLost
      { problemServer :: !String,
        problemStatement :: !ByteString,
        problemReason :: !Text
      }
  | -- | The server refused a statement.
    Refused
      { problemServer :: !String,
        problemStatement :: !ByteString,
        problemRefusal :: !Refusal
      }
  | -- | A column does not have the type that the program expects, or NULL came where the program does not expect it, or
    -- a value came that its type cannot have.
    WrongColumn
      { problemStatement :: !ByteString,
        -- | Counted from 1.
        problemColumn :: !Int,
        problemColumnName :: !Text,
        problemReason :: !Text
      }
  | -- | The rows do not have as many columns as the program reads.
    WrongWidth
      { problemStatement :: !ByteString,
        problemExpected :: !Int,
        problemActual :: !Int
      }
  | -- | The connection was closed, or a statement on it was interrupted before.
    OutOfUse
      { problemServer :: !String,
        problemReason :: !Text
      }
  | -- | A statement or one of its values cannot be sent: its text has a zero byte, which PostgreSQL's texts cannot
    -- have, or it is outside the range of its type. The server was not asked.
    NotSendable
      { problemStatement :: !ByteString,
        problemReason :: !Text
      }
  deriving (Eq)

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show PostgresqlProblem where
  showsPrec _ = showString . displayException

-- | The server's report about a statement that it refused.
data Refusal = Refusal
  { -- | Five characters that name the kind of error: @"23505"@ for a value that must be unique. PostgreSQL's manual
    -- lists them.
    refusalState :: !ByteString,
    -- | For example @"ERROR"@ or @"FATAL"@, perhaps in the server's language.
    refusalSeverity :: !Text,
    refusalMessage :: !Text,
    refusalDetail :: !(Maybe Text),
    refusalHint :: !(Maybe Text),
    -- | The position in the statement, in characters from 1.
    refusalPosition :: !(Maybe Int),
    refusalTable :: !(Maybe Text),
    refusalColumn :: !(Maybe Text),
    refusalConstraint :: !(Maybe Text)
  }
  deriving (Eq, Show)

-- | Thrown while a value is written, with the reason why it cannot be sent. Becomes 'NotSendable'.
newtype Unsendable = Unsendable Text
  deriving (Show)

instance Exception Unsendable

instance Exception PostgresqlProblem where
  displayException problem = case problem of
    NotConnected server reason -> "Cannot connect to " ++ server ++ ": " ++ trimmed reason
    ConnectionLost server text reason ->
      "The connection to " ++ server ++ " failed during the statement " ++ quoted text ++ ": " ++ trimmed reason
    Refused server text refusal ->
      server ++ " refused the statement " ++ quoted text ++ ": " ++ Text.unpack (refusalMessage refusal)
        ++ (" (" ++ utf8 (refusalState refusal) ++ ")")
        ++ foldMap ((". " ++) . Text.unpack) (refusalDetail refusal)
        ++ foldMap ((". Hint: " ++) . Text.unpack) (refusalHint refusal)
    WrongColumn text number name reason ->
      "Column "
        ++ show number
        ++ " ("
        ++ Text.unpack name
        ++ ") of the statement "
        ++ quoted text
        ++ ": "
        ++ Text.unpack reason
    WrongWidth text expected actual ->
      "The statement "
        ++ quoted text
        ++ " returns "
        ++ show actual
        ++ " columns, but the program reads "
        ++ show expected
    NotSendable text reason -> "The statement " ++ quoted text ++ " cannot be sent: " ++ Text.unpack reason
    OutOfUse server reason -> "The connection to " ++ server ++ " cannot be used: " ++ trimmed reason
    where
      quoted text = show (shortened (unwords (words (utf8 text))))
      shortened text = if length text > 200 then take 197 text ++ "..." else text
      utf8 = Text.unpack . Text.decodeUtf8With Text.lenientDecode
      trimmed = Text.unpack . Text.dropAround isSpace
