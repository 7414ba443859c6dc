{-# LANGUAGE OverloadedStrings #-}

-- | Certificates of the server, and their renewal.
module CertificateSpec (spec) where

import Applications
import Control.Exception
import Control.Monad
import qualified Data.ByteString as B
import Data.IORef
import Data.Maybe (isJust)
import Millrace.Duration (seconds)
import Millrace.Tls hiding (Negotiated (..))
import qualified Millrace.Tls as Tls
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import qualified Network.Wai.Handler.MillraceTLS as Millrace
import Support
import System.Directory (copyFile, removeFile, renameFile)
import Test.Hspec

spec :: Credentials -> Spec
spec credentials = do
  it "are chosen by the name that a client asks for" $
    withServer (tlsWith credentials ["server", "other"]) id telling $ \port -> do
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
      subjectFor "other.test" port >>= (`shouldBe` Just "CN=other")

  it "are looked up in each handshake, and may change at any time" $ do
    table <- newIORef [(Just "localhost", "server"), (Nothing, "server")]
    asked <- newIORef []
    let lookUp name = do
          modifyIORef asked (name :)
          found <- lookup name <$> readIORef table
          mconcat <$> mapM (fmap (Millrace.Credentials . pure) . loaded) (maybe [] pure found)
        loaded name = loadIdentity (PemFile (certificateFile credentials name)) (PemFile (keyFile credentials name))
    withServer (tlsSettingsSni lookUp) quiet telling $ \port -> do
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
      writeIORef table [(Just "localhost", "renewed"), (Just "other.test", "other")]
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=renewed")
      subjectFor "other.test" port >>= (`shouldBe` Just "CN=other")
      subjectFor "nobody.test" port `shouldThrow` ((== Just (AlertReceived UnrecognizedName)) . tlsAlert)
      subjectFor "127.0.0.1" port `shouldThrow` ((== RefusedByPeer) . tlsProblem)
      readIORef asked
        >>= (`shouldBe` [Nothing, Just "nobody.test", Just "other.test", Just "localhost", Just "localhost"])

  it "that are loaded already replace those in files" $ do
    mine <- loadIdentity (PemFile (certificateFile credentials "other")) (PemFile (keyFile credentials "other"))
    withServer (tlsSettings "none.pem" "none.key") {tlsCredentials = Just (Millrace.Credentials [mine])} id telling $
      subjectFor "other.test" >=> (`shouldBe` Just "CN=other")

  it "are replaced by call, and broken ones are not used" $ do
    certificate <- B.readFile (certificateFile credentials "server") >>= newIORef
    key <- B.readFile (keyFile credentials "server") >>= newIORef
    withTlsServer (tlsSettingsRef certificate key) id telling $ \tls port -> do
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
      writeIORef certificate "not a certificate"
      broken <- try (reloadTLS tls)
      either (const True) (const False) (broken :: Either SettingsError ()) `shouldBe` True
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
      B.readFile (certificateFile credentials "renewed") >>= writeIORef certificate
      B.readFile (keyFile credentials "renewed") >>= writeIORef key
      reloadTLS tls
      subjectFor "localhost" port >>= (`shouldBe` Just "CN=renewed")

  it "are replaced when their files change, and open connections stay" $ do
    let certificate = fileOf credentials "live.pem"
        key = fileOf credentials "live.key"
        install name = do
          copyFile (keyFile credentials name) (key ++ ".new") >> renameFile (key ++ ".new") key
          copyFile (certificateFile credentials name) (certificate ++ ".new")
            >> renameFile (certificate ++ ".new") certificate
    install "server"
    reloads <- newIORef []
    let noting reload = atomicModifyIORef' reloads (\before' -> (reload : before', ()))
    withServer (tlsSettings certificate key) {tlsWatchInterval = seconds 1, tlsOnReload = noting} id telling $ \port ->
      withClient credentials id port $ \open -> do
        B.writeFile (certificate ++ ".new") "broken" >> renameFile (certificate ++ ".new") certificate
        void . untilJust "the report" $
          (\found -> if null [() | NotReloaded _ <- found] then Nothing else Just ()) <$> readIORef reloads
        subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
        install "renewed"
        void . untilJust "the new certificate" $
          (\found -> if found == Just "CN=renewed" then Just () else Nothing) <$> subjectFor "localhost" port
        eventually "the report of the new ones" ((\found -> not (null [() | Reloaded <- found])) <$> readIORef reloads)
        (statusOf <$> exchangeWith open (requestFor "/")) `shouldReturn` "200"

  it "are shown with the answer of their authority that is in a file, as long as the file has a good one" $ do
    let certificate = fileOf credentials "stapled.pem"
        file = certificate ++ ".ocsp"
        install = renameFile (file ++ ".new") file
        (known, key) = pairOf credentials "server"
    copyFile known certificate
    withTlsServer (tlsSettings certificate key) {tlsWatchInterval = seconds 1} id telling $ \tls port -> do
      let shownAfter change = change >> reloadTLS tls >> answerShown port
      answerShown port >>= (`shouldBe` Nothing)
      makeAnswer credentials "server" 2 (file ++ ".new") >> install
      first <-
        untilJust "the first answer" ((\found -> if isJust found then Just found else Nothing) <$> answerShown port)
      B.writeFile (file ++ ".new") "broken" >> install
      reloadTLS tls `shouldThrow` ((== BrokenStaple) . settingsProblem)
      answerShown port >>= (`shouldBe` first)
      second <- shownAfter (makeAnswer credentials "server" 5 (file ++ ".new") >> install)
      (isJust second, second == first) `shouldBe` (True, False)
      shownAfter (removeFile file) >>= (`shouldBe` Nothing)
      shownAfter (makeAnswer credentials "server" 5 (file ++ ".new") >> install) >>= (`shouldSatisfy` isJust)
      -- The answer about a certificate that was renewed meanwhile.
      shownAfter (makeAnswer credentials "renewed" 5 (file ++ ".new") >> install) >>= (`shouldBe` Nothing)

  it "that cannot be used stop the server before it starts" $ do
    refused <-
      try
        ( withServer
            (tlsSettings (certificateFile credentials "server") (keyFile credentials "other"))
            id
            telling
            (\_ -> return ())
        )
    either (const True) (const False) (refused :: Either SettingsError ()) `shouldBe` True
  where
    subjectFor name port = withClientTo credentials id name B.empty port $ \one ->
      return (certificateSubject <$> Tls.negotiatedPeerCertificate (negotiated one))
