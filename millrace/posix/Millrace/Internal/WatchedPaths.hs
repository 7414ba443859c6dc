-- Must not know: descriptors.

-- | The paths of watched files and directories, by the numbers that the system has given them.
module Millrace.Internal.WatchedPaths
  ( Paths,
    noPaths,
    Role (..),
    Subject (..),
    noticed,
    moved,
    reported,
    without,

    -- * Queries
    pathOf,
    subjectOf,
    isKnown,
    isNamedNumber,
    isNamed,
    namedNumbers,
    isReported,
    numbersBelow,
    allNumbers,
    parentIsKnown,
    asPrefix,
  )
where

import Data.List (dropWhileEnd, isPrefixOf, stripPrefix)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Foreign.C.Types (CInt)

-- | The files and directories that are watched.
data Paths = Paths
  { byNumber :: !(Map.Map CInt FilePath),
    -- | those that are directories
    directories :: !(Set.Set CInt),
    -- | those that the program has named
    named :: !(Set.Set CInt),
    -- | the directories whose entries need not be reported, because they have been
    done :: !(Set.Set CInt)
  }

-- | Nothing is watched.
noPaths :: Paths
noPaths = Paths Map.empty Set.empty Set.empty Set.empty

-- | Why something is watched.
data Role
  = -- | The program has named it.
    Named
  | -- | It is a directory below one that the program has named.
    Found
  deriving (Eq)

-- | What an event is about.
data Subject
  = IsFile
  | IsDirectory
  deriving (Eq, Show, Read, Enum, Bounded)

-- | Records that the file or directory with this number is at this path now. If the program has named it, it stays
-- named.
noticed :: Role -> Subject -> CInt -> FilePath -> Paths -> Paths
noticed role subject number path paths =
  paths
    { byNumber = Map.insert number path (byNumber paths),
      directories = (if subject == IsDirectory then Set.insert else Set.delete) number (directories paths),
      named = (if role == Named then Set.insert number else id) (named paths)
    }

-- | @moved from to@ records that everything at the first path, or below it, is at the second one.
moved :: FilePath -> FilePath -> Paths -> Paths
moved from to paths = paths {byNumber = Map.map new (byNumber paths)}
  where
    new path = if path `isAtOrBelow` from then to ++ drop (length from) path else path

-- | Records that the entries of these directories have been reported.
reported :: [CInt] -> Paths -> Paths
reported numbers paths = paths {done = foldr Set.insert (done paths) (filter (`isKnown` paths) numbers)}

-- | Records that these are no longer watched.
without :: [CInt] -> Paths -> Paths
without numbers paths =
  Paths
    { byNumber = foldr Map.delete (byNumber paths) numbers,
      directories = foldr Set.delete (directories paths) numbers,
      named = foldr Set.delete (named paths) numbers,
      done = foldr Set.delete (done paths) numbers
    }

-- | The path of the file or directory with this number.
pathOf :: CInt -> Paths -> Maybe FilePath
pathOf number = Map.lookup number . byNumber

-- | What has this number. It is watched.
subjectOf :: CInt -> Paths -> Subject
subjectOf number paths = if number `Set.member` directories paths then IsDirectory else IsFile

-- | Whether it is watched.
isKnown :: CInt -> Paths -> Bool
isKnown number = Map.member number . byNumber

-- | Whether the program has named it.
isNamedNumber :: CInt -> Paths -> Bool
isNamedNumber number = Set.member number . named

-- | Whether something at this path was named.
isNamed :: FilePath -> Paths -> Bool
isNamed path = elem path . map snd . namedNumbers

-- | The numbers and paths of all that was named.
namedNumbers :: Paths -> [(CInt, FilePath)]
namedNumbers paths = Map.toList (Map.restrictKeys (byNumber paths) (named paths))

-- | Whether its entries have been reported.
isReported :: CInt -> Paths -> Bool
isReported number = Set.member number . done

-- | The numbers of everything at a path or below it.
numbersBelow :: FilePath -> Paths -> [CInt]
numbersBelow path = Map.keys . Map.filter (`isAtOrBelow` path) . byNumber

-- | All numbers.
allNumbers :: Paths -> [CInt]
allNumbers = Map.keys . byNumber

-- | Whether the directory that contains this path is watched.
parentIsKnown :: FilePath -> Paths -> Bool
parentIsKnown path = any isParent . byNumber
  where
    isParent directory = maybe False (notElem '/' . dropWhileEnd (== '/')) (stripPrefix (asPrefix directory) path)

isAtOrBelow :: FilePath -> FilePath -> Bool
isAtOrBelow path directory = path == directory || asPrefix directory `isPrefixOf` path

-- | A directory, with the slash before the names in it.
asPrefix :: FilePath -> FilePath
asPrefix directory = if last directory == '/' then directory else directory ++ "/"
