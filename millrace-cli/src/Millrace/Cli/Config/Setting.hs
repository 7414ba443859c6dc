-- Must not know: servers.

-- | Describes each setting once. The option of the command line, the key of configuration files, the text of
-- @--print-config@, and the rows of the reference in the manual pages and the guide are made from that.
--
-- Settings are put together as the fields of their record are:
--
-- > HealthOptions <$> setting "path" aPath "/" (says "The path") healthPath <*> ...
module Millrace.Cli.Config.Setting
  ( Settings (..),
    setting,
    settingWith,
    switchable,
    repeatable,
    needed,
    argument,
    inFileOnly,
    optionOnly,
    scoped,
    usually,
    within,
    unlessUsual,
    onlyWhere,
    optionOf,

    -- * The description of a setting
    Note (..),
    says,
    more,
    seeAlso,
    Row (..),
    Scope (..),

    -- * The values that it may have
    Form (..),
    numberFrom,
    oneWordOf,
    fileName,
    directoryName,
    textual,
    structured,
    perhaps,
    listOf,
  )
where

import Data.Char (isDigit)
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import Data.Text (pack)
import Millrace.Cli.Config.Document (Fields, Reader)
import qualified Millrace.Cli.Config.Document as Document
import Millrace.Cli.Config.YamlText
import qualified Options.Applicative as Options
import Text.Read (readMaybe)

-- | Settings that together make one value. Each is a part of a record, from which it is written.
data Settings record value = Settings
  { onCommandLine :: Options.Parser value,
    inFile :: Fields value,
    -- | The keys and values of a record in a configuration file. A key without a value is left out.
    written :: record -> [(String, Value)],
    described :: [Row]
  }

instance Functor (Settings record) where
  fmap f (Settings parser fields write rows) = Settings (fmap f parser) (fmap f fields) write rows

instance Applicative (Settings record) where
  pure value = Settings (pure value) (pure value) (const []) []
  Settings parser fields write rows <*> Settings parser' fields' write' rows' =
    Settings (parser <*> parser') (fields <*> fields') (write <> write') (rows <> rows')

-- | The row of a setting in the reference.
data Row = Row
  { rowName :: String,
    rowScope :: Scope,
    -- | The name of a value: @SECONDS@. Empty for a switch.
    rowPlaceholder :: String,
    -- | The possible values.
    rowValues :: String,
    -- | The usual value. Empty: none.
    rowUsual :: String,
    rowNote :: Note
  }

-- | Where a user may write a setting: on the command line, in a file, or in both.
data Scope
  = OptionAndKey
  | KeyOnly
  | OptionOnly
  | -- | The command line has it as @--limit NAME=NUMBER@.
    LimitAndKey
  | -- | The command line has it as an argument without a name.
    ArgumentAndKey
  deriving (Eq, Show)

-- | The meaning of a setting: a sentence for @--help@, and more for the reference.
data Note = Note
  { noteText :: String,
    noteMore :: String,
    -- | A link into the guide: @deploying.md#https@.
    notePage :: String
  }

-- | A note with a sentence for @--help@, without a full stop.
says :: String -> Note
says text = Note text "" ""

-- | Adds a text that is too long for @--help@.
more :: Note -> String -> Note
more note text = note {noteMore = text}

-- | Adds a link into the guide.
seeAlso :: Note -> String -> Note
seeAlso note page = note {notePage = page}

-- | A setting with a name and a value: @setting name form usual note part@.
setting :: String -> Form a -> a -> Note -> (record -> a) -> Settings record a
setting = settingWith mempty

-- | Makes a setting as 'setting' does, and adds something to its option, such as a letter.
settingWith :: Options.Mod Options.OptionFields a -> String -> Form a -> a -> Note -> (record -> a) -> Settings record a
settingWith others name form usual note part =
  Settings
    { onCommandLine = optionOf name form note (others <> Options.value usual <> shownUsual),
      inFile = Document.withDefault usual (pack name) (formReader form),
      written = \record -> [(name, value) | Just value <- [formValue form (part record)]],
      described = [rowOf OptionAndKey name form (formText form usual) note]
    }
  where
    shownUsual = if null (formText form usual) then mempty else Options.showDefaultWith (formText form)

-- | A switch: the first value if the option is not given, the second if it is. The key has @true@ or @false@.
switchable :: Eq a => String -> a -> a -> Note -> (record -> a) -> Settings record a
switchable name without with note part =
  Settings
    { onCommandLine = Options.flag without with (Options.long name <> Options.help (noteText note)),
      inFile =
        Document.withDefault
          without
          (pack name)
          ((\isWanted -> if isWanted then with else without) <$> Document.yesOrNo),
      written = \record -> [(name, Truth (part record == with))],
      described = [Row name OptionAndKey "" "`true` or `false`" "false" note]
    }

-- | A setting with several values, whose option may be repeated; the key has all of them together.
repeatable :: String -> Form [a] -> Note -> (record -> [a]) -> Settings record [a]
repeatable name form note part =
  (setting name form [] note part) {onCommandLine = concat <$> Options.many (optionOf name form note mempty)}

-- | A setting that the user must give.
needed :: String -> Form a -> Note -> (record -> a) -> Settings record a
needed name form note part =
  Settings
    { onCommandLine = optionOf name form note mempty,
      inFile = Document.required (pack name) (formReader form),
      written = \record -> [(name, value) | Just value <- [formValue form (part record)]],
      described = [rowOf OptionAndKey name form "" note]
    }

-- | A setting that has a key in a file, and is an argument without a name on the command line.
argument :: Options.Parser a -> Settings record a -> Settings record a
argument parser settings = scoped ArgumentAndKey settings {onCommandLine = parser}

-- | A setting without an option. On the command line it always has this value.
inFileOnly :: a -> Settings record a -> Settings record a
inFileOnly usual settings = scoped KeyOnly settings {onCommandLine = pure usual}

-- | A setting without a key: a file says it in another way.
optionOnly :: Settings record a -> Settings record a
optionOnly = scoped OptionOnly

-- | Names the usual value in the reference, for a setting whose form does not show it.
usually :: String -> Settings record a -> Settings record a
usually word settings = settings {described = [row {rowUsual = word} | row <- described settings]}

-- | Changes the scope of settings.
scoped :: Scope -> Settings record a -> Settings record a
scoped scope settings = settings {described = [row {rowScope = scope} | row <- described settings]}

-- | The settings of a part of the record.
within :: (record -> part) -> Settings part value -> Settings record value
within part settings = settings {written = written settings . part}

-- | A setting that is written only if it has another value than the usual one.
unlessUsual :: Eq a => a -> (record -> a) -> Settings record value -> Settings record value
unlessUsual usual part = onlyWhere ((/= usual) . part)

-- | A setting that is written only where it has a meaning.
onlyWhere :: (record -> Bool) -> Settings record value -> Settings record value
onlyWhere hasMeaning settings =
  settings {written = \record -> if hasMeaning record then written settings record else []}

-- | The parser of an option without a usual value.
optionOf :: String -> Form a -> Note -> Options.Mod Options.OptionFields a -> Options.Parser a
optionOf name form note others =
  Options.option (Options.eitherReader (formArgument form)) . mconcat $
    [ Options.long name,
      Options.metavar (formPlaceholder form),
      Options.completeWith (formWords form),
      foldMap Options.action (formCompletion form),
      Options.help (noteText note),
      others
    ]

rowOf :: Scope -> String -> Form a -> String -> Note -> Row
rowOf scope name form = Row name scope (formPlaceholder form) (formValues form)

-- | The form of a value: how it is read, written and described.
data Form a = Form
  { formArgument :: String -> Either String a,
    formReader :: Reader a,
    -- | 'Nothing': the key is left out for this value.
    formValue :: a -> Maybe Value,
    -- | The value as text, for the reference. Empty: it is not shown.
    formText :: a -> String,
    formPlaceholder :: String,
    formValues :: String,
    -- | Words that a shell may offer as completions.
    formWords :: [String],
    -- | The kind of names that a shell may offer: @file@, @directory@.
    formCompletion :: Maybe String
  }

-- | A whole number from this one to that one.
numberFrom :: Integral a => Integer -> Integer -> String -> Form a
numberFrom low high placeholder =
  Form
    { formArgument = \word -> case readMaybe word of
        Just number | all isDigit word && number >= low && number <= high -> Right (fromInteger number)
        _ -> Left ("'" <> word <> "' is not a number from " <> show low <> " to " <> show high),
      formReader = fromInteger <$> Document.number low high,
      formValue = Just . Number . fromIntegral,
      formText = show . toInteger,
      formPlaceholder = placeholder,
      formValues = show low <> " to " <> show high,
      formWords = [],
      formCompletion = Nothing
    }

-- | One of several words. The text says what they name: @"backend"@.
oneWordOf :: Eq a => String -> [(String, a)] -> Form a
oneWordOf what named =
  (textual (intercalate "|" names) parsed nameOf)
    { formReader = Document.choice named,
      formText = nameOf,
      formValues = intercalate ", " (map (\name -> "`" <> name <> "`") names),
      formWords = names
    }
  where
    names = map fst named
    nameOf value = concat (take 1 [name | (name, other) <- named, other == value])
    parsed word =
      maybe
        (Left ("there is no " <> what <> " '" <> word <> "'; choose one of: " <> intercalate ", " names))
        Right
        (lookup word named)

-- | The name of a file.
fileName :: Form FilePath
fileName =
  (textual "FILE" Right id)
    { formReader = Document.nonEmptyText,
      formValues = "a file",
      formCompletion = Just "file"
    }

-- | The name of a directory.
directoryName :: Form FilePath
directoryName = fileName {formPlaceholder = "DIR", formValues = "a directory", formCompletion = Just "directory"}

-- | A text with a meaning: @textual placeholder read write@.
textual :: String -> (String -> Either String a) -> (a -> String) -> Form a
textual placeholder parsed shown =
  Form
    { formArgument = parsed,
      formReader = Document.refined Document.text parsed,
      formValue = Just . Text . shown,
      formText = shown,
      formPlaceholder = placeholder,
      formValues = "a text",
      formWords = [],
      formCompletion = Nothing
    }

-- | A value that only a file can have. The text describes the possible values.
structured :: String -> Reader a -> (a -> Maybe Value) -> Form a
structured values reader shown =
  Form
    { formArgument = const (Left "only a configuration file can say this"),
      formReader = reader,
      formValue = shown,
      formText = const "",
      formPlaceholder = "",
      formValues = values,
      formWords = [],
      formCompletion = Nothing
    }

-- | A value or none. Without a value the key is left out.
perhaps :: Form a -> Form (Maybe a)
perhaps form =
  form
    { formArgument = fmap Just . formArgument form,
      formReader = Just <$> formReader form,
      formValue = (>>= formValue form),
      formText = maybe "" (formText form)
    }

-- | One or several values. Without values the key is left out.
listOf :: Form a -> Form [a]
listOf form =
  form
    { formArgument = fmap pure . formArgument form,
      formReader = Document.oneOrMany (formReader form),
      formValue =
        \values -> if null values then Nothing else Just (Items (map (fromMaybe (Text "") . formValue form) values)),
      formText = intercalate ", " . map (formText form)
    }
