{-# LANGUAGE OverloadedStrings #-}

-- | Handshakes, with this package on both sides.
module HandshakeSpec (spec) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Data.Maybe (isJust, isNothing)
import Millrace.Deadline (deadlineAfter, isDeadlineError, milliseconds)
import Millrace.Socket (SocketOption (..), setSocketOption)
import qualified Millrace.Socket as Socket
import Millrace.Timer (timeout)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  forM_ [(version, name) | version <- [Tls12, Tls13], name <- ["server", "rsa", "ed25519", "chained"]] $
    \(version, name) ->
      it ("works with " ++ show version ++ " and the certificate " ++ name) $ \credentials -> do
        server <- contextOf credentials [name] (\settings -> settings {serverAlgorithms = only version})
        client <- clientWith credentials id
        withPairOf client server $ \one other -> do
          negotiatedVersion (negotiated one) `shouldBe` version
          negotiatedVersion (negotiated other) `shouldBe` version
          negotiatedCipher (negotiated one) `shouldBe` negotiatedCipher (negotiated other)
          negotiatedServerName (negotiated other) `shouldBe` Just "localhost"
          negotiatedProtocol (negotiated one) `shouldBe` Nothing
          fmap certificateSubject (negotiatedPeerCertificate (negotiated one)) `shouldBe` Just ("CN=" ++ name)
          negotiatedPeerCertificate (negotiated other) `shouldBe` Nothing
          sendAll one "question"
          recv other 100 `shouldReturn` "question"
          sendAll other "answer"
          recv one 100 `shouldReturn` "answer"
  it "prefers AES-128" $ \credentials -> withPair credentials $ \one _ ->
    negotiatedCipher (negotiated one) `shouldBe` "TLS_AES_128_GCM_SHA256"
  it "takes the lists of algorithms that it is given" $ \credentials -> do
    let wanted = defaultAlgorithms {ciphersFor13 = Just ["TLS_CHACHA20_POLY1305_SHA256"], keyGroups = Just ["P-384"]}
    server <- contextOf credentials ["server"] (\settings -> settings {serverAlgorithms = wanted})
    client <- clientWith credentials id
    withPairOf client server $ \one _ -> do
      negotiatedCipher (negotiated one) `shouldBe` "TLS_CHACHA20_POLY1305_SHA256"
      negotiatedGroup (negotiated one) `shouldBe` Just "secp384r1"
  it "chooses the server's first application protocol that the client has" $ \credentials -> do
    server <- contextOf credentials ["server"] (\settings -> settings {serverProtocols = ["h2", "http/1.1"]})
    client <- clientWith credentials (\settings -> settings {clientProtocols = ["http/1.1", "h2"]})
    withPairOf client server $ \one other -> do
      negotiatedProtocol (negotiated one) `shouldBe` Just "h2"
      negotiatedProtocol (negotiated other) `shouldBe` Just "h2"
  it "chooses the certificate by name, by wildcard, or takes the first" $ \credentials -> do
    server <- contextOf credentials ["other", "server", "rsa"] id
    client <- newClientContext clientSettings {clientVerification = DoNotVerify}
    forM_
      [ ("localhost", "CN=server"),
        ("LOCALHOST", "CN=server"),
        ("a.wild.test", "CN=server"),
        ("a.b.wild.test", "CN=other"),
        ("other.test", "CN=other"),
        ("wild.test", "CN=other"),
        ("127.0.0.1", "CN=other")
      ]
      $ \(name, subject) ->
        withTcpPair $ \one other -> do
          (mine, _) <- bothSides (clientHandshake client name one) (serverHandshake server other)
          either throwIO (return . fmap certificateSubject . negotiatedPeerCertificate . negotiated) mine
            `shouldReturn` Just subject
  forM_ [Tls12, Tls13] $ \version ->
    it ("shows the identities that an action has looked up for the name, with " ++ show version) $ \credentials -> do
      asked <- newIORef []
      [one, other, rsa] <- mapM (identity credentials) ["server", "other", "rsa"]
      let lookUp name = do
            threadDelay 1000
            modifyIORef asked (name :)
            return $ case name of
              Just "other.test" -> [other]
              Just "both.test" -> [one, rsa]
              Just "rsa.wild.test" -> [rsa]
              _ -> []
          algorithms = only version
      server <-
        newServerContext
          (serverSettings other)
            { serverIdentities =
                [other, one],
              serverIdentitiesFor = Just lookUp,
              serverAlgorithms = algorithms
            }
      client <- newClientContext clientSettings {clientVerification = DoNotVerify, clientResumption = FullHandshakes}
      rsaOnly <-
        newClientContext
          clientSettings
            { clientVerification =
                DoNotVerify,
              clientAlgorithms =
                defaultAlgorithms {highestVersion = Tls12, ciphersFor12 = Just ["ECDHE-RSA-AES128-GCM-SHA256"]}
            }
      let shown from name = withTcpPair $ \mine theirs -> do
            (outcome, _) <- bothSides (clientHandshake from name mine) (serverHandshake server theirs)
            either throwIO (return . fmap certificateSubject . negotiatedPeerCertificate . negotiated) outcome
      shown client "other.test" `shouldReturn` Just "CN=other"
      shown client "localhost" `shouldReturn` Just "CN=server"
      shown client "127.0.0.1" `shouldReturn` Just "CN=other"
      -- The name is one of a configured identity, whose key clients prefer.
      shown client "rsa.wild.test" `shouldReturn` Just "CN=rsa"
      shown client "both.test" `shouldReturn` Just "CN=server"
      when (version == Tls12) $ shown rsaOnly "both.test" `shouldReturn` Just "CN=rsa"
      readIORef asked
        >>= ( `shouldBe`
                [Just "both.test" | version == Tls12]
                  ++ [Just "both.test", Just "rsa.wild.test", Nothing, Just "localhost", Just "other.test"]
            )
  it "looks identities up also when the client's first message comes in pieces, and must come twice" $
    \credentials -> do
      one <- identity credentials "server"
      asked <- newIORef (0 :: Int)
      server <-
        newServerContext
          (serverSettings one)
            { serverIdentities =
                [],
              serverIdentitiesFor = Just (const ([one] <$ modifyIORef asked (+ 1))),
              serverAlgorithms = defaultAlgorithms {keyGroups = Just ["P-384"]}
            }
      client <- clientWith credentials id
      withDrippingLink $ \mine theirs -> do
        (ours, peers) <- bothSides (clientHandshake client "localhost" mine) (serverHandshake server theirs)
        either throwIO (return . negotiatedGroup . negotiated) ours `shouldReturn` Just "secp384r1"
        either throwIO (return . negotiatedServerName . negotiated) peers `shouldReturn` Just "localhost"
      readIORef asked `shouldReturn` 1
  it "refuses clients for whose name nothing is found, or for whom the action throws or is interrupted" $
    \credentials ->
      do
        one <- identity credentials "server"
        let lookUp name = case name of
              Just "broken.test" -> ioError (userError "the table is broken")
              Just "slow.test" -> threadDelay 20000000 >> return [one]
              _ -> return []
        server <- newServerContext (serverSettings one) {serverIdentities = [], serverIdentitiesFor = Just lookUp}
        client <- clientWith credentials id
        let meet name limit =
              withTcpPair $ \mine theirs ->
                bothSides (clientHandshake client name mine) (limit (serverHandshake server theirs))
            alertOf = either (tlsAlert <=< fromException) (const Nothing)
        (nobody, refused) <- meet "nobody.test" id
        alertOf nobody `shouldBe` Just (AlertReceived UnrecognizedName)
        problemOf refused `shouldBe` Just UnknownServerName
        (broken, thrown) <- meet "broken.test" id
        alertOf broken `shouldBe` Just (AlertReceived InternalError)
        fmap show (ioErrorOf thrown) `shouldBe` Just "user error (the table is broken)"
        (slow, interrupted) <- meet "slow.test" (timeout 20000)
        alertOf slow `shouldBe` Just (AlertReceived InternalError)
        either (const False) isNothing interrupted `shouldBe` True
  it "chooses among keys of several kinds what the client can use" $ \credentials -> do
    server <- contextOf credentials ["server", "rsa"] id
    client <- clientWith credentials $ \settings ->
      settings {clientAlgorithms = (only Tls12) {ciphersFor12 = Just ["ECDHE-RSA-AES128-GCM-SHA256"]}}
    withPairOf client server $ \one _ ->
      fmap certificateSubject (negotiatedPeerCertificate (negotiated one)) `shouldBe` Just "CN=rsa"
  it "asks for a client's certificate and tells it" $ \credentials -> do
    server <-
      contextOf
        credentials
        ["server"]
        (\settings -> settings {serverClientCertificates = Required (rootTrust credentials)})
    mine <- identity credentials "client"
    client <- clientWith credentials (\settings -> settings {clientIdentity = Just mine})
    withPairOf client server $ \_ other ->
      fmap certificateSubject (negotiatedPeerCertificate (negotiated other)) `shouldBe` Just "CN=client"
  it "takes clients without a certificate when it only asks" $ \credentials -> do
    server <-
      contextOf
        credentials
        ["server"]
        (\settings -> settings {serverClientCertificates = Asked (rootTrust credentials)})
    client <- clientWith credentials id
    withPairOf client server $ \_ other -> negotiatedPeerCertificate (negotiated other) `shouldBe` Nothing
  it "has the settings that replaced others from the next handshake on" $ \credentials -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials id
    withPairOf client server $ \one other -> do
      next <- identity credentials "rsa"
      replaceServerSettings server (serverSettings next)
      replaceServerSettings server (serverSettings next) {serverProtocols = [""]}
        `shouldThrow` ((== BadProtocols) . settingsProblem)
      withPairOf client server $ \later _ ->
        fmap certificateSubject (negotiatedPeerCertificate (negotiated later)) `shouldBe` Just "CN=rsa"
      sendAll one "still here"
      recv other 100 `shouldReturn` "still here"
  it "gives up at its deadline" $ \credentials -> withTcpPair $ \_ other -> do
    server <- contextOf credentials ["server"] id
    deadline <- deadlineAfter (milliseconds 20)
    serverHandshakeBefore deadline server other `shouldThrow` isDeadlineError
  it "ends the connection when it is interrupted" $ \credentials -> withTcpPair $ \one other -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials id
    interrupted <- timeout 20000 (serverHandshake server other)
    interrupted `shouldBe` Nothing
    Socket.close other
    outcome <- try (clientHandshake client "localhost" one)
    (problemOf outcome == Just Truncated || isJust (ioErrorOf outcome)) `shouldBe` True
  it "works when every byte comes by itself" $ \credentials -> do
    server <- contextOf credentials ["chained"] id
    client <- clientWith credentials id
    withDrippingLink $ \one other -> do
      setSocketOption one NoDelay 1
      connectOver one other client server $ \first second -> do
        sendAll first (bytesAt 0 3000)
        receiveExactly second 0 3000
        sendAll second (bytesAt 0 3000)
        receiveExactly first 0 3000

only :: Version -> Algorithms
only version = defaultAlgorithms {lowestVersion = version, highestVersion = version}
