{-# LANGUAGE OverloadedStrings #-}

-- | Files served by wai-app-static, on Millrace.
module StaticSpec (spec) where

import Clients
import Control.Exception (bracket)
import qualified Data.ByteString as B
import Network.Wai (Application)
import Network.Wai.Application.Static (defaultFileServerSettings, staticApp)
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.Process (getCurrentPid)
import Test.Hspec
import WaiAppStatic.Types (StaticSettings (..))

spec :: Spec
spec = describe "wai-app-static" $ do
  it "serves files of all sizes" $
    withFiles $ \folder -> serving (return (files folder)) $ \address -> do
      curl [address ++ "/small.txt"] `shouldReturn` replicate 100 'x'
      curl ["-o", "/dev/null", "-w", "%{size_download}", address ++ "/large.bin"] `shouldReturn` "3000000"
      curl ["-o", "/dev/null", "-w", "%{http_code}", address ++ "/missing"] `shouldReturn` "404"
      curl ["-o", "/dev/null", "-w", "%{http_code} %{content_type}", address ++ "/small.txt"]
        `shouldReturn` "200 text/plain"
  it "ranges and entity tags work" $
    withFiles $ \folder -> serving (return (files folder)) $ \address -> do
      curl ["-r", "10-19", "-w", " %{http_code}", address ++ "/small.txt"] `shouldReturn` "xxxxxxxxxx 206"
      fields <- curl ["-D", "-", "-o", "/dev/null", address ++ "/small.txt"]
      let tag = concat [drop 6 line | line <- lines (filter (/= '\r') fields), take 6 line == "ETag: "]
      curl ["-o", "/dev/null", "-w", "%{http_code}", "-H", "If-None-Match: " ++ tag, address ++ "/small.txt"]
        `shouldReturn` "304"
  it "lists folders" $
    withFiles $ \folder -> serving (return (files folder)) $ \address -> do
      (status, body) <- get (address ++ "/")
      (status, body == "") `shouldBe` (200, False)

files :: FilePath -> Application
files folder = staticApp (defaultFileServerSettings folder) {ssUseHash = True}

withFiles :: (FilePath -> IO a) -> IO a
withFiles = bracket create removeDirectoryRecursive
  where
    create = do
      temporary <- getTemporaryDirectory
      process <- getCurrentPid
      let folder = temporary </> "millrace-frameworks-" ++ show process
      createDirectoryIfMissing True folder
      B.writeFile (folder </> "small.txt") (B.replicate 100 0x78)
      B.writeFile (folder </> "large.bin") (B.replicate 3000000 0x78)
      return folder
