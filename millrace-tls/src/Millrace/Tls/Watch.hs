-- | Watching files, for certificates that are renewed while a program runs. Must not know: sockets.
--
-- > forkIO (watchFiles 5000000 ["fullchain.pem", "privkey.pem"] (reload `catch` report))
module Millrace.Tls.Watch (watchFiles) where

import Control.Exception (IOException, tryJust)
import Control.Monad (when)
import Millrace.Timer (threadDelay)
import System.Posix.Files (deviceID, fileID, fileSize, getFileStatus, modificationTimeHiRes, statusChangeTimeHiRes)

-- | @watchFiles micros paths action@ runs the action after files have changed, again and again. It looks at them every so many
-- microseconds, and waits until two looks in a row have found the same: whoever renews a certificate writes several files. A file that
-- appears, goes, is replaced, renamed or reached through another symbolic link has changed, too. Does not return. Throws what the
-- action throws.
--
-- @since 0.1.0
watchFiles :: Int -> [FilePath] -> IO () -> IO a
watchFiles micros paths action = look >>= \now -> go now now
  where
    look = mapM signature paths
    -- What the action has seen last, and what was there the last time.
    go seen before' = do
      threadDelay micros
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
        Right status -> Just (deviceID status, fileID status, fileSize status, modificationTimeHiRes status, statusChangeTimeHiRes status)
