{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of files share: a folder with some, and a server of them.
module FileSupport
  ( modified,
    content,
    fileServer,
    requesting,
    decided,
    withFiles,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Time (UTCTime (..), fromGregorian)
import InMemory (answered, asReply, getting)
import Network.HTTP.Types
import Network.Wai
import Support
import System.Directory (createDirectory, setModificationTime)
import System.FilePath ((</>))

modified :: ByteString
modified = "Sun, 06 Nov 1994 08:49:37 GMT"

content :: Int -> ByteString
content size = B.take size (B.concat (replicate (size `div` 251 + 1) (B.pack [0 .. 250])))

fileServer :: FilePath -> Application
fileServer folder request respond =
  respond (responseFile status200 [] (folder </> C8.unpack (B.drop 1 (rawPathInfo request))) Nothing)

-- Decided in memory, without bytes on a wire.
requesting :: FilePath -> ByteString -> [(ByteString, ByteString)] -> (Reply -> IO a) -> IO a
requesting folder name fields check = decided (fileServer folder) methodGet name fields >>= check

decided :: Application -> Method -> ByteString -> [(ByteString, ByteString)] -> IO Reply
decided application method name fields =
  answered
    application
    (getting [(CI.mk field, value) | (field, value) <- fields])
      { requestMethod =
          method,
        rawPathInfo = B.append "/" name
      }
    >>= asReply

withFiles :: (FilePath -> IO ()) -> IO ()
withFiles use = withFolder $ \folder -> do
  forM_ [("empty", 0), ("small", 1000), ("page", 16384), ("large", 3000000)] $ \(file, size) -> do
    B.writeFile (folder </> file) (content size)
    setModificationTime (folder </> file) (UTCTime (fromGregorian 1994 11 6) (8 * 3600 + 49 * 60 + 37))
  createDirectory (folder </> "folder")
  use folder
