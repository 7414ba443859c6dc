-- | HTTP over TLS, with clients of "Millrace.Tls".
module Main (main) where

import qualified CertificateSpec
import qualified ClientCertificateSpec
import qualified EndSpec
import qualified HandshakeSpec
import qualified InsecureSpec
import qualified RequestSpec
import qualified SettingsSpec
import Support
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  withCredentials (hspec . around_ (limited 30) . spec)

spec :: Credentials -> Spec
spec credentials = do
  let server = tlsWith credentials ["server"]
      client = withClient credentials id
  describe "requests and responses" (RequestSpec.spec credentials server client)
  describe "clients without TLS" (InsecureSpec.spec credentials server client)
  describe "certificates of clients" (ClientCertificateSpec.spec credentials server)
  describe "settings" (SettingsSpec.spec credentials server client)
  describe "handshakes" (HandshakeSpec.spec credentials server client)
  describe "certificates of the server" (CertificateSpec.spec credentials)
  describe "the end" (EndSpec.spec server client)
