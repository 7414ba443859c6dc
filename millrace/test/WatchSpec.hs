{-# LANGUAGE OverloadedStrings #-}

-- | Watches of directories and files.
module WatchSpec (spec) where

import Control.Monad (forM_, unless, void)
import qualified Data.Set as Set
import DirectorySupport
import Millrace.Deadline (deadlineAfter, isDeadlineError, milliseconds)
import Millrace.Directory
import Millrace.File
import Millrace.File.Temporary
import Millrace.Watch
import Scenario (scenarioPassesIn)
import Support
import System.Directory (renameFile)
import System.Posix.User (getEffectiveUserID)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.Watch" $
    around inTree $ do
      it "reports what happens in a tree that grows, and pairs renames" $ \root ->
        withWatch [root] Recursive $ \watch -> do
          createDirectories (root ++ "/a/b") ownerOnly
          seen <- eventsUntil watch (At (root ++ "/a/b") Created)
          seen `shouldSatisfy` elem (At (root ++ "/a") Created)
          write (root ++ "/a/b/file") "x"
          void $ eventsUntil watch (At (root ++ "/a/b/file") Written)
          rename (root ++ "/a/b/file") (root ++ "/a/other")
          void $ eventsUntil watch (At (root ++ "/a/b/file") (RenamedTo (root ++ "/a/other")))
          rename (root ++ "/a/b") (root ++ "/c")
          void $ eventsUntil watch (At (root ++ "/a/b") (RenamedTo (root ++ "/c")))
          write (root ++ "/c/file") "x"
          void $ eventsUntil watch (At (root ++ "/c/file") Created)
          removeFile (root ++ "/c/file")
          void $ eventsUntil watch (At (root ++ "/c/file") Removed)
      it "tells what has left and what has come" $ \root -> do
        createDirectories (root ++ "/in") ownerOnly
        write (root ++ "/outside") "x"
        withWatch [root ++ "/in"] Flat $ \watch -> do
          rename (root ++ "/outside") (root ++ "/in/file")
          void $ eventsUntil watch (At (root ++ "/in/file") MovedIn)
          rename (root ++ "/in/file") (root ++ "/outside")
          void $ eventsUntil watch (At (root ++ "/in/file") MovedAway)
      it "loses nothing when threads are interrupted" $ \root -> do
        let names = map show [1 .. 100 :: Int]
            inside name = root ++ "/in/" ++ name
        mapM_ (`createDirectories` ownerOnly) ((root ++ "/in") : map ((root ++ "/out/") ++) names)
        withWatch [root ++ "/in"] Recursive $ \watch -> do
          random <- newRandom 1
          let interruptedUntil wanted seen
                | all (`elem` seen) wanted = return ()
                | otherwise = do
                  job <- start (nextAt watch)
                  below random 4000 >>= pause
                  stop job
                  outcomeOf job >>= interruptedUntil wanted . either (const seen) (++ seen)
          -- Each has one half only, so that the call waits for the other one.
          mover <- start (forM_ names (\name -> rename (root ++ "/out/" ++ name) (inside name) >> pause 1000))
          within 30 "the directories" (interruptedUntil [At (inside name) MovedIn | name <- names] [])
          finish mover
          mapM_ (\name -> write (inside name ++ "/file") "x") names
          within 30 "the files" (interruptedUntil [At (inside name ++ "/file") Created | name <- names] [])
      it "reports that what was named is renamed, and then no longer watches it" $ \root -> do
        let quiet watch = do
              soon <- deadlineAfter (milliseconds 20)
              failsWith (nextEventsBefore soon watch) >>= (`shouldSatisfy` isDeadlineError)
            -- The kernel may tell late that the file from before was closed.
            moved watch = do
              events <- filter (\(At _ change) -> change /= Written) <$> nextAt watch
              if null events then moved watch else return events
        createDirectories (root ++ "/in/below") ownerOnly
        write (root ++ "/file") "x"
        withWatch [root ++ "/file", root ++ "/in"] Recursive $ \watch -> do
          rename (root ++ "/file") (root ++ "/other")
          moved watch `shouldReturn` [At (root ++ "/file") MovedAway]
          write (root ++ "/other") "y"
          quiet watch
          rename (root ++ "/in") (root ++ "/out")
          moved watch `shouldReturn` [At (root ++ "/in") MovedAway]
          write (root ++ "/out/file") "x" >> write (root ++ "/out/below/file") "x"
          quiet watch
      it "reports a rename once, with one slash between names" $ \root -> do
        createDirectories (root ++ "/in") ownerOnly
        forM_ [Flat, Recursive] $ \depth -> withWatch [root ++ "/", root ++ "/in"] depth $ \watch -> do
          rename (root ++ "/in") (root ++ "/out")
          nextAt watch `shouldReturn` [At (root ++ "/in") (RenamedTo (root ++ "/out"))]
          createDirectories (root ++ "/out/new") ownerOnly
          nextAt watch `shouldReturn` [At (root ++ "/out/new") Created]
          removeTree (root ++ "/out/new")
          rename (root ++ "/out") (root ++ "/in")
      it "says what each event is about" $ \root -> do
        createDirectory (root ++ "/directory") ownerOnly
        write (root ++ "/file") "x"
        let subjects watch = map (\(Event _ change subject) -> (change, subject)) <$> nextEvents watch
            untilAll wanted watch = go []
              where
                go seen = if all (`elem` seen) wanted then return () else subjects watch >>= go . (seen ++)
        forM_ [Flat, Recursive] $ \depth -> withWatch [root ++ "/directory", root ++ "/file"] depth $ \watch -> do
          createDirectory (root ++ "/directory/new") ownerOnly
          write (root ++ "/directory/text") "x"
          within 30 "what is new" (untilAll [(Created, IsDirectory), (Created, IsFile), (Written, IsFile)] watch)
          removeTree (root ++ "/directory/new")
          removeFile (root ++ "/directory/text")
          within 30 "what is removed" (untilAll [(Removed, IsDirectory), (Removed, IsFile)] watch)
          setPermissions (root ++ "/directory") (Permissions 0o750)
          setPermissions (root ++ "/file") (Permissions 0o640)
          within 30 "the attributes" (untilAll [(AttributesChanged, IsDirectory), (AttributesChanged, IsFile)] watch)
        -- The system does not say that these two are directories.
        withWatch [root ++ "/directory"] Flat $ \watch -> do
          rename (root ++ "/directory") (root ++ "/other")
          within 30 "the rename" (untilAll [(MovedAway, IsDirectory)] watch)
        withWatch [root ++ "/other"] Flat $ \watch -> do
          removeDirectory (root ++ "/other")
          within 30 "the removal" (untilAll [(Removed, IsDirectory)] watch)
      it "passes over directories that may not be read" $ \_ -> do
        user <- getEffectiveUserID
        -- Root may read all of them, unless it has given that up.
        let without = "setpriv --bounding-set -dac_override,-dac_read_search"
        scenarioPassesIn
          ( if user == 0
              then ["sh", "-c", without ++ " true || exit 77; exec " ++ without ++ " \"$@\"", "sh"]
              else ["env"]
          )
          "unreadable-directories"
      it "watches a directory that is renamed before it was noticed, and those below it" $ \root ->
        watching root $ \watch -> do
          createDirectories (root ++ "/x/a") ownerOnly
          rename (root ++ "/x/a") (root ++ "/x/b")
          rename (root ++ "/x") (root ++ "/y")
          createDirectory (root ++ "/x") ownerOnly
          void $ eventsUntil watch (At (root ++ "/x") (RenamedTo (root ++ "/y")))
          forM_ ["/y/file", "/y/b/file", "/x/file"] $ \name -> do
            write (root ++ name) "x"
            void $ eventsUntil watch (At (root ++ name) Written)
      it "watches all of many directories that a rename publishes" $ \root -> watching root $ \watch -> do
        let names = map show [1 .. 300 :: Int]
            final name = root ++ "/final" ++ name
        publisher <- start $
          forM_ names $ \name -> do
            createDirectories (root ++ "/new" ++ name ++ "/below") ownerOnly
            rename (root ++ "/new" ++ name) (final name)
        -- It is slow to take the events.
        let slowly wanted = unless (Set.null wanted) $ do
              events <- nextEvents watch
              pause 2000
              slowly (foldr Set.delete wanted ([path | Event _ (RenamedTo path) _ <- events] ++ map eventPath events))
        within 30 "the renames" (slowly (Set.fromList (map final names)))
        finish publisher
        forM_ names (\name -> write (final name ++ "/file") "x" >> write (final name ++ "/below/file") "x")
        let later wanted = unless (Set.null wanted) $ do
              events <- nextEvents watch
              later (foldr Set.delete wanted [path | Event path Written _ <- events])
            files path = [path ++ "/file", path ++ "/below/file"]
        within 30 "the files" (later (Set.fromList (map final names >>= files)))
      it "knows which is which of two directories that were exchanged" $ \root -> do
        mapM_ (`createDirectories` ownerOnly) [root ++ "/x/in-x", root ++ "/y/in-y"]
        let afterwards depth named' = withWatch named' depth $ \watch -> do
              exchange (root ++ "/x") (root ++ "/y")
              write (root ++ "/x/file") "x"
              write (root ++ "/y/other") "x"
              events <- eventsUntil watch (At (root ++ "/y/other") Written)
              events `shouldSatisfy` elem (At (root ++ "/x/file") Written)
              mapM_ (\name -> removeFile (root ++ name)) ["/x/file", "/y/other"]
        afterwards Recursive [root]
        afterwards Flat [root, root ++ "/x", root ++ "/y"]
        withWatch [root] Recursive $ \watch -> do
          exchange (root ++ "/x") (root ++ "/y")
          write (root ++ "/y/in-x/file") "x"
          void $ eventsUntil watch (At (root ++ "/y/in-x/file") Written)
      it "continues with the file that replaces one that was named" $ \root -> do
        let path = root ++ "/file"
            replacements =
              [ replaceFile path (\file -> writeAt file 0 "new"),
                write (root ++ "/new") "x" >> rename (root ++ "/new") path,
                write (root ++ "/new") "x" >> exchange (root ++ "/new") path
              ]
        write path "old"
        forM_ [Flat, Recursive] $ \depth -> forM_ replacements $ \replacement -> withWatch [path] depth $ \watch -> do
          replacement
          void $ eventsUntil watch (At path Created)
          write path "later"
          void $ eventsUntil watch (At path Written)
        -- The old one lives on, because it has another name, or because it is open.
        let whileOthersHave keeping' = withWatch [path] Flat $ \watch -> keeping' $ do
              replaceFile path (\file -> writeAt file 0 "new")
              void $ eventsUntil watch (At path Created)
              write path "later"
              void $ eventsUntil watch (At path Written)
        whileOthersHave (\use -> createLink path (root ++ "/link") >> use)
        whileOthersHave (withFile path ForReading . const)
      it "reports the end of a watch of a file that was named" $ \root -> do
        let path = root ++ "/file"
        write path "x"
        withWatch [path] Flat $ \watch -> withFile path ForReading $ \_ -> do
          removeFile path
          void $ eventsUntil watch (At path Removed)
      it "finds out after an overflow where everything is" $ \root -> do
        createDirectories (root ++ "/x/below") ownerOnly
        createDirectory (root ++ "/named") ownerOnly
        withOverflow $ \overflow -> withWatch [root, root ++ "/named"] Recursive $ \watch -> do
          overflow root
          rename (root ++ "/x") (root ++ "/y")
          createDirectories (root ++ "/z/new") ownerOnly
          removeDirectory (root ++ "/named")
          void $ eventsUntil watch (At (root ++ "/named") Removed)
          forM_ ["/y/below/file", "/z/new/file"] $ \name -> do
            write (root ++ name) "x"
            void $ eventsUntil watch (At (root ++ name) Written)
      it "reports an overflow" $ \root -> withOverflow $ \overflow -> withWatch [root] Flat $ \watch -> do
        overflow root
        void $ eventsUntil watch (At "" Overflowed)
      it "has deadlines" $ \root -> withWatch [root] Flat $ \watch -> do
        soon <- deadlineAfter (milliseconds 2)
        failsWith (nextEventsBefore soon watch) >>= (`shouldSatisfy` isDeadlineError)

watching :: FilePath -> (Watch -> IO a) -> IO a
watching root = withWatch [root] Recursive

-- Gives an action that fills the queue of a watch of the directory, so that it overflows.
withOverflow :: ((FilePath -> IO ()) -> IO ()) -> IO ()
withOverflow use = do
  most <- read <$> readFile "/proc/sys/fs/inotify/max_queued_events" :: IO Int
  if most > 40000
    then pendingWith "the queue is too long"
    else use $ \root -> do
      let one = root ++ "/overflowing"
          other = root ++ "/overflown"
      write one "x"
      forM_ [0 .. most] $ \i -> if even i then renameFile one other else renameFile other one

-- An event, without what it is about.
data At = At FilePath Change
  deriving (Eq, Show)

nextAt :: Watch -> IO [At]
nextAt watch = map (\(Event path change _) -> At path change) <$> nextEvents watch

eventsUntil :: Watch -> At -> IO [At]
eventsUntil watch wanted = within 30 ("the event " ++ show wanted) (go [])
  where
    go before = do
      events <- nextAt watch
      let all' = before ++ events
      if wanted `elem` all' then return all' else go all'
