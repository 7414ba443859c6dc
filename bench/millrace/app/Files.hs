{-# LANGUAGE CPP #-}

-- | What calls on files and trees cost, beside the packages unix and directory: the median time of one call, in
-- microseconds. It works in a new directory below the one that it is given, and removes it.
--
-- > millrace-files DIRECTORY           all of it, in nine rounds; 3,000 small files
-- > millrace-files DIRECTORY 99 exists  99 rounds of the rows with this word
module Main (main) where

import Control.Exception (bracket)
import Control.Monad (forM, forM_, replicateM_, unless, void, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.List (isInfixOf, sort)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Directory
import Millrace.File
import Millrace.File.Access (copyFile)
import qualified System.Directory as Directory
import System.Environment (getArgs)
import System.IO.Error (catchIOError)
import qualified System.Posix.Files as Posix
import qualified System.Posix.IO as Posix
import System.Posix.Types (Fd)
import Text.Printf (printf)

-- | A row of the table: how many calls one run makes, what is done before and after each run, and the two runs.
data Row = Row
  { rowName :: String,
    rowCalls :: Int,
    rowPrepare :: IO (),
    rowMillrace :: IO (),
    rowOther :: IO (),
    rowCleanUp :: IO ()
  }

main :: IO ()
main = do
  arguments <- getArgs
  (above, rounds, word) <- case arguments of
    [directory] -> return (directory, 9, "")
    [directory, count] -> return (directory, read count, "")
    [directory, count, word] -> return (directory, read count, word)
    _ -> error "usage: millrace-files DIRECTORY [ROUNDS [WORD]]"
  bracket (newRoot (above ++ "/millrace-files")) Directory.removeDirectoryRecursive $ \root -> do
    makeTree (root ++ "/tree")
    Char8.writeFile (root ++ "/file") small
    Posix.createSymbolicLink "file" (root ++ "/link")
    putStrLn "| | Millrace | unix, directory | ratio |\n|---|---|---|---|"
    forM_ (filter ((word `isInfixOf`) . rowName) (rows root)) $ \row -> do
      times <- forM [1 .. rounds :: Int] $ \_ -> (,) <$> timed row (rowMillrace row) <*> timed row (rowOther row)
      let (ours, others) = (median (map fst times), median (map snd times))
      printf "| %s | %.1f | %.1f | %.2f |\n" (rowName row) ours others (ours / others)
  where
    newRoot path = path <$ Directory.createDirectory path

median :: [Double] -> Double
median values = sort values !! (length values `div` 2)

-- | Microseconds for each call.
timed :: Row -> IO () -> IO Double
timed row run = do
  rowPrepare row
  begin <- monotonicNanoseconds
  run
  end <- monotonicNanoseconds
  rowCleanUp row
  return (fromIntegral (end - begin) / 1000 / fromIntegral (rowCalls row))

rows :: FilePath -> [Row]
rows root =
  [ calls "`status`" (void (status file)) (void (Posix.getFileStatus file)),
    calls "`linkStatus`" (void (linkStatus link)) (void (Posix.getSymbolicLinkStatus link)),
    calls "`exists`, of a name that exists" (void (exists file)) (void (Posix.fileExist file)),
    calls "`exists`, of a name that does not" (void (exists missing)) (void (Posix.fileExist missing)),
    calls "`openFile` and `closeFile`" (openFile file ForReading >>= closeFile) (openOther file >>= Posix.closeFd),
    calls
      "a small file opened, read and closed"
      (withFile file ForReading (\opened -> void (readAt opened 0 10000)))
      (void (ByteString.readFile file)),
    calls
      "`createDirectory` and `removeDirectory`"
      (createDirectory new ownerOnly >> removeDirectory new)
      (Directory.createDirectory new >> Directory.removeDirectory new),
    calls
      "`rename`, there and back"
      (rename file new >> rename new file)
      (Posix.rename file new >> Posix.rename new file),
    calls
      "`copyFile` and `removeFile` of a small file"
      (copyFile file new >> removeFile new)
      (Directory.copyFile file new >> Posix.removeLink new),
    ofTree "`walk`, for each file" (return ()) walked (void (listed tree)) (return ()),
    ofTree "`walk` with `linkStatus`, for each file" (return ()) sized (sizes tree) (return ()),
    ofTree
      "`walkWith WithStatus`, for each file"
      (return ())
      (walkWith WithStatus tree Never (void . return . entryStatus))
      (sizes tree)
      (return ()),
    ofTree "a tree copied, for each file" (return ()) (mirror tree copied) (mirrorOther tree copied) (removeAll copied),
    ofTree
      "`removeTree`, for each file"
      (mirrorOther tree copied)
      (removeTree copied)
      (Directory.removeDirectoryRecursive copied)
      (removeAll copied)
  ]
  where
    calls name ours others = Row name callCount (return ()) (repeated ours) (repeated others) (return ())
    ofTree name = Row name (directoryCount * filesEach)
    repeated = replicateM_ callCount
    callCount = 1000
    file = root ++ "/file"
    link = root ++ "/link"
    missing = root ++ "/missing"
    new = root ++ "/new"
    tree = root ++ "/tree"
    copied = root ++ "/copied"
    walked = do
      count <- newIORef (0 :: Int)
      walk tree Never (\_ -> modifyIORef' count (+ 1))
    sized = walk tree Never (void . linkStatus . entryPath)

-- | The package unix has another form of this function since version 2.8.
openOther :: FilePath -> IO Fd
#if MIN_VERSION_unix(2,8,0)
openOther file = Posix.openFd file Posix.ReadOnly Posix.defaultFileFlags
#else
openOther file = Posix.openFd file Posix.ReadOnly Nothing Posix.defaultFileFlags
#endif

directoryCount, filesEach :: Int
directoryCount = 100
filesEach = 30

small :: Char8.ByteString
small = Char8.replicate 2000 'x'

makeTree :: FilePath -> IO ()
makeTree root = forM_ [1 .. directoryCount] $ \i -> do
  let directory = root ++ "/directory " ++ show i
  Directory.createDirectoryIfMissing True directory
  forM_ [1 .. filesEach] $ \k -> Char8.writeFile (directory ++ "/a file, number " ++ show k) small

-- | All paths below a directory, with whether they are directories, as a program without Millrace finds them.
listed :: FilePath -> IO [(FilePath, Posix.FileStatus)]
listed directory = do
  names <- Directory.listDirectory directory
  concat
    <$> forM
      names
      ( \name -> do
          let path = directory ++ "/" ++ name
          known <- Posix.getSymbolicLinkStatus path
          below <- if Posix.isDirectory known then listed path else return []
          return ((path, known) : below)
      )

sizes :: FilePath -> IO ()
sizes directory =
  listed directory >>= mapM_ (\(_, known) -> unless (Posix.fileSize known >= 0) (fail "a negative size"))

mirror, mirrorOther :: FilePath -> FilePath -> IO ()
mirror from to = do
  createDirectory to ownerOnly
  walk from Never $ \entry -> do
    let target = to ++ "/" ++ entryRelative entry
    if entryKind entry == Directory then createDirectory target ownerOnly else copyFile (entryPath entry) target
mirrorOther from to = do
  Directory.createDirectory to
  names <- Directory.listDirectory from
  forM_ names $ \name -> do
    let path = from ++ "/" ++ name
    isDirectory <- Directory.doesDirectoryExist path
    (if isDirectory then mirrorOther else Directory.copyFile) path (to ++ "/" ++ name)

removeAll :: FilePath -> IO ()
removeAll path = do
  isThere <- Posix.fileExist path `catchIOError` \_ -> return False
  when isThere (Directory.removeDirectoryRecursive path)
