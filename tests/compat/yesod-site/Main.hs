{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE GADTs #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE QuasiQuotes #-}
{-# LANGUAGE StandaloneDeriving #-}
{-# LANGUAGE TemplateHaskell #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE UndecidableInstances #-}
{-# LANGUAGE ViewPatterns #-}
-- The quasi-quotes generate definitions that are not used here.
{-# OPTIONS_GHC -Wno-unused-top-binds #-}

-- | A site that keeps notes in a database, and has static files, written for Warp.
-- Usage: yesod-site PORT DATABASE STATIC-FOLDER.
module Main (main) where

import Control.Monad.Logger (runNoLoggingT)
import Data.Text (Text, pack)
import Database.Persist.Sqlite
import System.Environment (getArgs)
import Yesod
import Yesod.Static (Static, static)

share
  [mkPersist sqlSettings, mkMigrate "migrateAll"]
  [persistLowerCase|
Note
  text Text
|]

data Site = Site
  { sitePool :: ConnectionPool,
    siteStatic :: Static
  }

mkYesod
  "Site"
  [parseRoutes|
/ HomeR GET
/notes NotesR GET POST
/note/#NoteId NoteR GET
/stream StreamR GET
/static StaticR Static siteStatic
|]

-- No sessions, because they would write a key into the working directory.
instance Yesod Site where
  makeSessionBackend _ = return Nothing

instance YesodPersist Site where
  type YesodPersistBackend Site = SqlBackend
  runDB action = getYesod >>= runSqlPool action . sitePool

instance RenderMessage Site FormMessage where
  renderMessage _ _ = defaultFormMessage

main :: IO ()
main = do
  [port, database, folder] <- getArgs
  pool <- runNoLoggingT (createSqlitePool (pack database) 2)
  runSqlPool (runMigration migrateAll) pool
  files <- static folder
  warp (read port) (Site pool files)

getHomeR :: Handler Html
getHomeR = defaultLayout $ do
  setTitle "Notes"
  [whamlet|<a href=@{NotesR}>All notes|]

getNotesR :: Handler TypedContent
getNotesR = do
  notes <- runDB (selectList [] [Asc NoteId])
  let texts = map (noteText . entityVal) notes
  selectRep $ do
    provideRep (defaultLayout (noteList texts))
    provideRep (returnJson texts)

noteList :: [Text] -> Widget
noteList texts =
  [whamlet|
<ul>
  $forall text <- texts
    <li>#{text}
|]

postNotesR :: Handler Html
postNotesR = do
  text <- runInputPost (ireq textField "text")
  key <- runDB (insert (Note text))
  redirect (NoteR key)

getNoteR :: NoteId -> Handler Text
getNoteR key = noteText <$> runDB (get404 key)

getStreamR :: Handler TypedContent
getStreamR = do
  notes <- runDB (selectList [] [Asc NoteId])
  respondSource "text/plain" (mapM_ (\note -> sendChunkText (noteText (entityVal note)) >> sendFlush) notes)
