-- Must not know: servers.

-- | Counts the processors that this process may use: all of the machine, or as many as the quotas of its control groups
-- allow (cgroups(7)). Containers get less than a machine by such a quota.
module Millrace.Cli.Serve.Processors
  ( usualCores,
    coresWithin,
    processorQuota,
    processorQuotaBelow,
  )
where

import Control.Exception (IOException, try)
import Data.Char (chr, digitToInt, isOctDigit)
import Data.List (isPrefixOf, stripPrefix)
import qualified Data.List as List
import Data.Maybe (catMaybes, listToMaybe, mapMaybe)
import GHC.Conc (getNumProcessors)
import GHC.IO.Encoding (getFileSystemEncoding)
import System.IO (IOMode (ReadMode), hGetContents', hSetEncoding, withFile)
import Text.Read (readMaybe)

-- | The number of cores that a server uses by default.
usualCores :: IO Int
usualCores = coresWithin <$> processorQuota <*> getNumProcessors

-- | The number of these processors that are worth using with this quota. More of them would use the quota up sooner,
-- and then the process would stand still until the period is over. Part of a processor counts as one.
--
-- >>> coresWithin (Just 1.5) 8
-- 2
coresWithin :: Maybe Rational -> Int -> Int
coresWithin quota processors = maybe processors (max 1 . min processors . ceiling) quota

-- | The quota of the control groups of this process, in processors: 1.5 means one and a half. 'Nothing': there is no
-- quota, or there are no control groups.
processorQuota :: IO (Maybe Rational)
processorQuota = processorQuotaBelow ""

-- | Finds the quota as 'processorQuota' does, in the files of a system below a directory. For tests.
processorQuotaBelow :: FilePath -> IO (Maybe Rational)
processorQuotaBelow top = do
  groups <- lines <$> contentOf (top <> "/proc/self/cgroup")
  mounts <- lines <$> contentOf (top <> "/proc/self/mountinfo")
  quotas <- mapM (quotaOf . (top <>)) (concatMap (directoriesOf groups . words) mounts)
  pure (least (catMaybes quotas))

-- The directories, from the top down, with the quotas that hold for this process: a quota also holds for the groups
-- below it. A line about a mount is "36 35 98:0 ROOT PLACE options [tag...] - TYPE source options" (proc(5)).
directoriesOf :: [String] -> [String] -> [FilePath]
directoriesOf groups mount = case (mount, dropWhile (/= "-") mount) of
  (_ : _ : _ : root : mounted : _, [_, kind, _, options]) ->
    maybe [] (map (unescaped mounted <>) . ancestry . belowRoot (unescaped root)) (groupIn kind (separated ',' options))
  _ -> []
  where
    groupIn kind options
      | kind == "cgroup2" = group null
      | kind == "cgroup" && "cpu" `elem` options = group (elem "cpu" . separated ',')
      | otherwise = Nothing
    -- "NUMBER:CONTROLLER,...:PATH", in version 2 without controllers.
    group isMeant =
      listToMaybe
        [ drop 1 path
          | (controllers, path) <-
              map (break (== ':') . drop 1 . dropWhile (/= ':')) groups,
            isMeant controllers
        ]

-- The part of the tree that a container sees may begin at its own group, or consist of that group alone.
belowRoot :: FilePath -> FilePath -> FilePath
belowRoot "/" group = group
belowRoot root group = case stripPrefix root group of
  Just rest | null rest || "/" `isPrefixOf` rest -> rest
  _ -> ""

-- >>> ancestry "/a/b"
-- ["","/a","/a/b"]
ancestry :: FilePath -> [FilePath]
ancestry path = scanl (\above name -> above <> "/" <> name) "" (filter (not . null) (separated '/' path))

quotaOf :: FilePath -> IO (Maybe Rational)
quotaOf directory = do
  unified <- numbersIn ["/cpu.max"]
  before <- numbersIn ["/cpu.cfs_quota_us", "/cpu.cfs_period_us"]
  pure (least (mapMaybe share [unified, before]))
  where
    numbersIn names = concat <$> mapM (fmap words . contentOf . (directory <>)) names
    -- "max" and -1 mean that there is no quota.
    share numbers = case map readMaybe numbers of
      [Just quota, Just period] | quota > 0 && period > 0 -> Just (fromInteger quota / fromInteger period)
      _ -> Nothing

least :: Ord a => [a] -> Maybe a
least values = if null values then Nothing else Just (minimum values)

separated :: Char -> String -> [String]
separated mark text = case break (== mark) text of
  (first, _ : rest) -> first : separated mark rest
  (first, []) -> [first]

-- Blanks and backslashes in a path are written as a backslash and three octal digits.
unescaped :: FilePath -> FilePath
unescaped path = case path of
  '\\' : a : b : c : rest
    | all isOctDigit [a, b, c] ->
      chr (List.foldl' (\value digit -> 8 * value + digitToInt digit) 0 [a, b, c]) : unescaped rest
  other : rest -> other : unescaped rest
  [] -> []

-- The content of a file, or nothing if the file does not exist or cannot be read.
contentOf :: FilePath -> IO String
contentOf path =
  either none id
    <$> try (withFile path ReadMode (\file -> getFileSystemEncoding >>= hSetEncoding file >> hGetContents' file))
  where
    none :: IOException -> String
    none _ = ""
