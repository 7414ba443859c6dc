{-# LANGUAGE OverloadedStrings #-}

-- | Files and directories: the functions of the toolkit that "ToolkitSpec" interrupts.
module ToolkitFiles (functions) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM_, replicateM_, void)
import DirectorySupport (write)
import Millrace.Deadline
import Millrace.Directory
import Millrace.File
import Millrace.File.Access
import Millrace.File.Buffered
import Millrace.File.Temporary
import Millrace.Log
import qualified Millrace.Timer as Timer
import Support hiding (connectTo)

-- | Each gets a number that differs between calls.
functions :: FilePath -> [(String, Int -> IO ())]
functions root =
  [ ("openFile", \_ -> bracket (openFile (root ++ "/file") ForReading) closeFile (void . fileSize)),
    ("withFile", \_ -> withFile (root ++ "/file") ForReading (\file -> void (readAt file 0 100000))),
    ( "readExactlyAt",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              void (readExactlyAt file 0 300000) >> deadlineAfter (seconds 5) >>= \soon ->
                void (readExactlyAtBefore soon file 0 9)
          )
    ),
    ( "writeAt",
      \i ->
        withTemporaryFile root "w" (\_ file -> forM_ [0 .. 9] (\k -> writeAt file k (bytesAt i 50000)) >> sync file)
    ),
    ( "vectors",
      \_ ->
        withTemporaryFile
          root
          "v"
          (\_ file -> writeVectorAt file 0 [bytesAt 0 1000, bytesAt 1000 5000] >> void (readVectorAt file 0 [10, 20]))
    ),
    ("append", \_ -> withFileWith (root ++ "/file") ReadWrite [Append] (\file -> append file "" >> syncData file)),
    ("withLog", \i -> withLog (logTo (root ++ "/log")) (\output -> logLine output (bytesAt i 100) >> endLog output)),
    ( "logLine",
      \i ->
        let slow = LogAction (const (threadDelay 1000))
         in withLog (logTo (root ++ "/log")) {logTarget = slow, logWhenFull = WaitForSpace} $ \output ->
              logLine output (bytesAt i 4194304) >> logBytes output "waits\n"
    ),
    ("checkLog", \_ -> checkLog (logTo (root ++ "/log"))),
    ("replaceFile", \i -> replaceFile (root ++ "/file") (\file -> writeAt file 0 (bytesAt i 300000))),
    ("copyFile", \_ -> withTemporaryDirectory root "c" (\d -> copyFile (root ++ "/file") (d ++ "/copy"))),
    ( "lockFile",
      \_ ->
        withFileWith (root ++ "/file") ReadWrite [] (\file -> withLockedFile file Sole (threadDelay 500))
    ),
    ( "unlockFile",
      \_ ->
        withFileWith
          (root ++ "/file")
          ReadWrite
          []
          (\file -> lockFile file Shared >> unlockFile file >> void (tryLockFile file Sole))
    ),
    ( "locks with deadlines",
      \i ->
        withFileWith
          (root ++ "/file")
          ReadWrite
          []
          ( \file ->
              deadlineAfter (microseconds (i * 100)) >>= \soon ->
                withLockedFileBefore soon file Sole (threadDelay 500) >> lockFileBefore soon file Shared
          )
    ),
    ("openFileWith", \_ -> bracket (openFileWith (root ++ "/file") ReadOnly [NoFollow]) closeFile (void . fileStatus)),
    ( "directories",
      \_ ->
        withTemporaryDirectory
          root
          "y"
          ( \d ->
              createDirectory (d ++ "/a") ownerOnly
                >> removeDirectory (d ++ "/a")
                >> createDirectories (d ++ "/b/c") ownerOnly
                >> removeTree (d ++ "/b")
          )
    ),
    ( "copyFileReporting",
      \_ ->
        withTemporaryDirectory
          root
          "p"
          (\d -> copyFileReporting (root ++ "/file") (d ++ "/copy") (\_ _ -> threadDelay 100))
    ),
    ( "writeFromMemory",
      \_ ->
        withTemporaryFile root "g" (\_ file -> directMemory 8192 >>= \memory -> writeFromMemory file 0 memory 8192)
    ),
    ("temporary directories", \_ -> withTemporaryDirectory root "d" (\d -> createDirectories (d ++ "/x/y") ownerOnly)),
    ("nameless files", \_ -> withNamelessFile root (\file -> writeAt file 0 "x")),
    ( "walk",
      \_ ->
        walk (root ++ "/tree") Always (\_ -> return ())
          >> walkWith WithStatus (root ++ "/tree") Never (\_ -> return ())
    ),
    ( "folds with the status",
      \_ ->
        void (foldTreeWith WithStatus (root ++ "/tree") Never () (\() _ -> return (Proceed ())))
          >> foldEntriesWith WithStatus (root ++ "/many") () (\() _ -> return (Proceed ()))
    ),
    ( "folds of directories",
      \i ->
        void (foldTree (root ++ "/tree") Never i (\n _ -> return (if n == 0 then Stop n else Proceed (n - 1))))
          >> void (foldEntries (root ++ "/many") i (\n _ -> return (Proceed (n + 1))))
    ),
    ( "streams of names",
      \_ ->
        withDirectory (root ++ "/many") (void . nextEntry)
          >> bracket (openDirectory (root ++ "/many")) closeDirectory (replicateM_ 5000 . nextEntry)
    ),
    ("status", \_ -> void (status (root ++ "/file") >> canonicalPath root >> space root)),
    ( "deadlines of files",
      \i ->
        deadlineAfter (microseconds 300) >>= \soon ->
          withTemporaryFile
            root
            "d"
            ( \_ file ->
                writeAtBefore soon file 0 (bytesAt i 50000)
                  >> syncBefore soon file
                  >> void (readAtBefore soon file 0 50000)
            )
    ),
    ( "openFileBefore",
      \i ->
        deadlineAfter (microseconds (i * 20)) >>= \soon ->
          bracket (openFileBefore soon (root ++ "/file") ForReading) closeFile (void . fileSize)
    ),
    ( "finishBefore",
      \_ ->
        deadlineAfter (microseconds 300)
          >>= \soon -> void (Timer.finishBefore soon (list (root ++ "/tree/a") >> status root))
    ),
    ( "readers",
      \_ ->
        withFile
          (root ++ "/file")
          ForReading
          ( \file ->
              newReader file 0 >>= \reader -> skipLine reader >> readLine reader 100000 >> void (readBytes reader 100)
          )
    ),
    ( "writers",
      \i ->
        withTemporaryFile
          root
          "b"
          ( \_ file ->
              withWriter
                file
                0
                ( \writer ->
                    forM_
                      [0 .. 9]
                      (\k -> writeLine writer (bytesAt (i + k) 20000) >> writeBytes writer "x" >> flush writer)
                )
          )
    ),
    ( "sizes and holes",
      \_ ->
        withTemporaryFile
          root
          "h"
          (\_ file -> setFileSize file 9000 >> allocate file 0 20000 >> punchHole file 0 4096 >> void (fileStatus file))
    ),
    ( "copyRange",
      \_ ->
        withTemporaryFile
          root
          "r"
          ( \_ to ->
              withFile (root ++ "/file") ForReading (\from -> cloneFile from to >> void (copyRange from 0 to 0 300000))
          )
    ),
    ( "direct reads",
      \_ ->
        withFileWith
          (root ++ "/file")
          ReadOnly
          [Direct]
          (\file -> directMemory 8192 >>= \memory -> void (readIntoMemory file 0 memory 8192))
    ),
    ( "names of files",
      \_ ->
        withTemporaryDirectory
          root
          "n"
          ( \d ->
              write (d ++ "/a") "x"
                >> createLink (d ++ "/a") (d ++ "/b")
                >> createSymbolicLink "a" (d ++ "/c")
                >> readSymbolicLink (d ++ "/c")
                >> rename (d ++ "/a") (d ++ "/d")
                >> exchange (d ++ "/b") (d ++ "/d")
                >> renameNew (d ++ "/b") (d ++ "/e")
                >> removeFile (d ++ "/e")
                >> void (exists d)
          )
    ),
    ( "attributes",
      \_ ->
        withTemporaryFile
          root
          "a"
          ( \path _ ->
              setPermissions path ownerOnly
                >> setTimes path Nothing (Just (Time 1 2))
                >> setOwner path Nothing Nothing
                >> void (linkStatus path)
          )
    ),
    ( "removeFileBefore",
      \i ->
        withTemporaryDirectory
          root
          "m"
          ( \d ->
              write (d ++ "/a") "x" >> deadlineAfter (microseconds (i * 20))
                >>= \soon -> removeFileBefore soon (d ++ "/a")
          )
    ),
    ( "finishBeforeOr",
      \i ->
        deadlineAfter (microseconds (i * 20)) >>= \soon ->
          bracket
            (Timer.finishBeforeOr soon closeFile (openFile (root ++ "/file") ForReading))
            closeFile
            (\_ -> return ())
    )
  ]
