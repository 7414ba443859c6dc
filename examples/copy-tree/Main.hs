-- | Makes one directory like another, as rsync does: copies files that are new or have another size or time, and
-- removes nothing. On a terminal it shows how far it is.
module Main (main) where

import Control.Monad (when)
import Data.IORef
import Data.Int (Int64)
import Millrace.Directory
import Millrace.File.Access (copyFileReporting)
import Millrace.Terminal (isTerminal)
import System.Environment (getArgs)
import System.FilePath ((</>))
import System.IO (hFlush, hPutStr, stderr)

main :: IO ()
main = do
  [from, to] <- getArgs
  createDirectories to everybody
  total <- newIORef 0
  walkWith WithStatus from Never $ \entry ->
    when (entryKind entry == RegularFile) (modifyIORef' total (+ maybe 0 statusSize (entryStatus entry)))
  bytes <- readIORef total
  shows' <- isTerminal 2
  done <- newIORef 0
  copied <- newIORef (0 :: Int)
  walkWith WithStatus from Never $ \entry -> do
    let target = to </> entryRelative entry
    case (entryKind entry, entryStatus entry) of
      (Directory, _) -> createDirectories target everybody
      (RegularFile, Just known) -> do
        isNew <- differs known target
        when isNew $ do
          copyOne (entryPath entry) target known (\part -> when shows' (readIORef done >>= progress bytes . (+ part)))
          modifyIORef' copied (+ 1)
        modifyIORef' done (+ statusSize known)
      _ -> return ()
  readIORef copied >>= \count -> putStrLn (show count ++ " files copied")

differs :: Status -> FilePath -> IO Bool
differs known target = do
  isThere <- exists target
  if not isThere
    then return True
    else
      (\there -> statusSize there /= statusSize known || statusModified there /= statusModified known)
        <$> status target

-- Writes the new file beside the old one first, so that the name always refers to a complete file.
copyOne :: FilePath -> FilePath -> Status -> (Int64 -> IO ()) -> IO ()
copyOne from to known report = do
  let new = to ++ ".new"
  stale <- exists new
  when stale (removeTree new)
  copyFileReporting from new (\part _ -> report part)
  setTimes new Nothing (Just (statusModified known))
  rename new to

progress :: Int64 -> Int64 -> IO ()
progress total done =
  hPutStr stderr ("\r[" ++ replicate filled '#' ++ replicate (40 - filled) ' ' ++ "]") >> hFlush stderr
  where
    filled = fromIntegral (40 * done `div` max 1 total)
