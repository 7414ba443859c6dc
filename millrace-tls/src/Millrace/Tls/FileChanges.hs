-- Must not know: sockets.

-- | Watching files, for certificates that are renewed while a program runs.
--
-- > forkIO (watchFiles (seconds 5) ["fullchain.pem", "privkey.pem"] (reload `catch` report))
module Millrace.Tls.FileChanges (watchFiles) where

import Control.Exception (IOException, tryJust)
import Control.Monad (when)
import Millrace.Duration (Duration)
import Millrace.Timer (sleep)
import System.Posix.Files (deviceID, fileID, fileSize, getFileStatus, modificationTimeHiRes, statusChangeTimeHiRes)

-- | @watchFiles interval paths action@ runs the action each time after files have changed. It checks them at this
-- interval, and waits until two checks in a row find the same, because renewing a certificate writes several files.
-- It also counts as a change if a file appears, disappears, is replaced, is renamed, or is reached through another
-- symbolic link. Does not return. Throws exceptions of the action.
watchFiles :: Duration -> [FilePath] -> IO () -> IO a
watchFiles interval paths action = look >>= \now -> go now now
  where
    look = mapM signature paths
    -- The state of the files at the last run of the action, and at the last check.
    go seen before' = do
      sleep interval
      now <- look
      let isSettled = now == before' && now /= seen
      when isSettled action
      go (if isSettled then now else seen) now
    isAbsent :: IOException -> Maybe ()
    isAbsent _ = Just ()
    signature path = do
      found <- tryJust isAbsent (getFileStatus path)
      return $ case found of
        Left () -> Nothing
        Right status ->
          Just
            ( deviceID status,
              fileID status,
              fileSize status,
              modificationTimeHiRes status,
              statusChangeTimeHiRes status
            )
