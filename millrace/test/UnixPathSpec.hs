-- | Binding to a path at which there is something already.
module UnixPathSpec (spec) where

import Control.Exception (IOException, bracket, try)
import qualified Data.ByteString as ByteString
import Foreign.C.Error (eADDRINUSE)
import Millrace.Socket
import Support
import System.Directory (doesFileExist)
import System.FilePath ((</>))
import Test.Hspec
import TestSupport.Folder (withTemporaryFolder)

spec :: Spec
spec = around (withTemporaryFolder "millrace-path" . (. (</> "socket"))) $ do
  it "replaces a socket that a dead program has left" $ \path -> do
    withSocket Stream $ \old -> bind old (SockAddrUnix path) >> listen old 1
    withSocket Stream $ \new -> do
      bind new (SockAddrUnix path)
      listen new 1
      withSocket Stream $ \client -> connect client (SockAddrUnix path)
  it "replaces one of datagrams" $ \path -> do
    withSocket Datagram $ \old -> bind old (SockAddrUnix path)
    withSocket Datagram $ \new -> bind new (SockAddrUnix path)
  it "leaves a socket on which a program listens" $ \path ->
    withSocket Stream $ \old -> do
      bind old (SockAddrUnix path)
      listen old 1
      refuses path
      withSocket Stream $ \client -> connect client (SockAddrUnix path)
  it "leaves a socket on which a program gets datagrams" $ \path ->
    withSocket Datagram $ \old -> bind old (SockAddrUnix path) >> refuses path
  it "leaves any other file" $ \path -> do
    ByteString.writeFile path ByteString.empty
    refuses path
    doesFileExist path `shouldReturn` True
  where
    withSocket kind = bracket (socket AF_UNIX kind defaultProtocol) close
    refuses path = do
      outcome <- withSocket Stream $ \new -> try (bind new (SockAddrUnix path))
      either (hasCode eADDRINUSE) (const False) (outcome :: Either IOException ()) `shouldBe` True
