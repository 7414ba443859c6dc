-- | The tests of @millrace-tls@, on the backend that the environment names.
module Main (main) where

import qualified BorrowedSpec
import qualified CertificateSpec
import qualified ClientCertificateSpec
import qualified EndSpec
import qualified ErrorSpec
import qualified GroupSpec
import qualified HandshakeSpec
import qualified KeyLogSpec
import qualified PeerClientSpec
import qualified PeerServerSpec
import qualified ReceiveSpec
import qualified RefusalSpec
import qualified ResumptionSpec
import qualified SendSpec
import Support
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  hspec . aroundAll withCredentials $ do
    describe "a connection" $ do
      describe "handshake" HandshakeSpec.spec
      describe "the exchange of keys" GroupSpec.spec
      describe "clients' certificates" ClientCertificateSpec.spec
      describe "receive" ReceiveSpec.spec
      describe "send" SendSpec.spec
      describe "borrowed buffers" BorrowedSpec.spec
      describe "the end" EndSpec.spec
    describe "a certificate" CertificateSpec.spec
    describe "a refusal" RefusalSpec.spec
    describe "the text of a failure" ErrorSpec.spec
    describe "a session" ResumptionSpec.spec
    describe "the log of secrets" KeyLogSpec.spec
    describe "a peer" $ do
      PeerClientSpec.spec
      PeerServerSpec.spec
