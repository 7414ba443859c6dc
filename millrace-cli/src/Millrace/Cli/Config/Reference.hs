-- Must not know: servers.

-- | The table of all settings, as text for people and as JSON for programs.
module Millrace.Cli.Config.Reference
  ( reference,
    referenceText,
    referenceJson,
  )
where

import Data.List (intercalate, stripPrefix)
import Millrace.Cli.Base.Json
import Millrace.Cli.Config.ServerSettings
import Millrace.Cli.Config.Setting
import Millrace.Cli.Config.SiteSettings

-- | All settings, in groups: the name of what they belong to, and their rows. The manual pages and the guide are made
-- from it.
reference :: [(String, [Row])]
reference =
  [ ("files", described filesSettings),
    ("proxy", described proxySettings),
    ("health", described healthSettings),
    ( "listen",
      described addressSettings
        <> described listenSettings
        <> described http3Setting
        <> described redirectSetting
    ),
    ("process", described processSettings <> described pidFileSetting),
    ("certificates", described certificateSettings),
    ("tls", described tlsSettings),
    ("limits", described limitSettings),
    ("site", described policySettings),
    ("cors", described crossOriginSettings),
    ("users", described usersSettings)
  ]

-- | Groups of settings, each setting on a line with its values, and its meaning below.
referenceText :: [(String, [Row])] -> String
referenceText = intercalate "\n" . map group
  where
    group (name, rows) = unlines (name : concatMap line rows)
    line row =
      [ "  " <> rowName row <> concatMap (" " <>) (filter (not . null) [rowPlaceholder row])
          <> "  ("
          <> intercalate "; " (facts row)
          <> ")",
        "      " <> filter (/= '`') (meaning (rowNote row))
      ]
    facts row = filter (not . null) [filter (/= '`') (rowValues row), standing (rowUsual row), scopeText (rowScope row)]
    standing word = if null word then "" else "usually " <> word
    meaning note = intercalate ". " (filter (not . null) [inReference (noteText note), noteMore note])

-- Leaves out references to the help of a command.
inReference :: String -> String
inReference text = case text of
  _ | Just rest <- stripPrefix " (see below)" text -> inReference rest
  letter : rest -> letter : inReference rest
  [] -> []

scopeText :: Scope -> String
scopeText scope = case scope of
  OptionAndKey -> ""
  KeyOnly -> "key only"
  LimitAndKey -> "as an option: --limit NAME=NUMBER"
  OptionOnly -> "option only"
  ArgumentAndKey -> "argument, and key"

optionText :: Row -> String
optionText row = case rowScope row of
  OptionAndKey -> "--" <> rowName row
  OptionOnly -> "--" <> rowName row
  LimitAndKey -> "--limit " <> rowName row <> "="
  _ -> ""

-- | An object of groups, with an array of settings each.
referenceJson :: [(String, [Row])] -> String
referenceJson groups = renderJson (Object [(name, Array (map row rows)) | (name, rows) <- groups])
  where
    row found =
      Object
        [ ("name", String (rowName found)),
          ("option", String (optionText found)),
          ("key", Bool (rowScope found /= OptionOnly)),
          ("placeholder", String (rowPlaceholder found)),
          ("values", String (rowValues found)),
          ("usual", String (rowUsual found)),
          ("help", String (inReference (noteText (rowNote found)))),
          ("more", String (noteMore (rowNote found))),
          ("page", String (notePage (rowNote found)))
        ]
