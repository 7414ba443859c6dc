{-# LANGUAGE OverloadedStrings #-}

-- | Configuration files for tests of @millrace run@.
module ConfigurationFile
  ( configured,
    listening,
    untilSaid,
  )
where

import Data.List (isInfixOf)
import Program
import System.FilePath ((</>))

-- | Writes the configuration file @m.yaml@ in a folder, of these lines.
configured :: FilePath -> [String] -> IO ()
configured folder = writeFile (folder </> "m.yaml") . unlines

-- | Adds the lines that listen on a free port.
listening :: [String] -> [String]
listening = ("listen: {http: 127.0.0.1:0}" :) . ("" :)

-- | Reads messages of the server until one has this text.
untilSaid :: Server -> String -> IO ()
untilSaid server said = within 30 said go
  where
    go = nextErrorLine server >>= \line -> if said `isInfixOf` line then pure () else go
