{-# LANGUAGE OverloadedStrings #-}

-- | Sessions that clients resume, and the keys of servers' tickets.
module ResumptionSpec (spec) where

import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import Millrace.Deadline (deadlineAfter, isDeadlineError, milliseconds, noDeadline)
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  describe "a client" clients
  describe "a server" servers
  forM_ [Tls12, Tls13] $ \version -> describe ("with " ++ show version) (versions version)

-- Connects, exchanges some bytes, and says whether the session was resumed.
visit :: ClientContext -> ServerContext -> String -> IO Bool
visit client server name = visitWith client server name (\_ -> return ())

visitWith :: ClientContext -> ServerContext -> String -> (Connection -> IO ()) -> IO Bool
visitWith client server name look = withTcpPair $ \one other -> do
  (mine, theirs) <- bothSides (clientHandshake client name one) (serverHandshake server other)
  ours <- either throwIO return mine
  peers <- either throwIO return theirs
  -- With TLS 1.3, the tickets come before the answer.
  sendAll ours "question"
  recv peers 100 `shouldReturn` "question"
  sendAll peers "answer"
  recv ours 100 `shouldReturn` "answer"
  look ours
  let isResumed = negotiatedIsResumed (negotiated ours)
  negotiatedIsResumed (negotiated peers) `shouldBe` isResumed
  isResumed <$ (close ours >> close peers)

onlyServer :: Version -> ServerSettings -> ServerSettings
onlyServer version settings =
  settings {serverAlgorithms = defaultAlgorithms {lowestVersion = version, highestVersion = version}}

versions :: Version -> SpecWith Credentials
versions version = do
  it "is resumed by the second connection and by later ones, with the certificate of the first" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer version)
    client <- clientWith credentials id
    let certificateShown one =
          fmap certificateSubject (negotiatedPeerCertificate (negotiated one)) `shouldBe` Just "CN=server"
    results <- replicateM 4 (visitWith client server "localhost" certificateShown)
    results `shouldBe` [False, True, True, True]
  it "is the same whatever the letters of the name are, and another one for another name" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer version)
    client <- clientWith credentials id
    results <-
      mapM (visit client server) ["localhost", "a.wild.test", "127.0.0.1", "LocalHost", "a.wild.test.", "127.0.0.1"]
    results `shouldBe` [False, False, False, True, True, True]
  it "is not that of another context" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer version)
    trustful <- newClientContext clientSettings {clientVerification = DoNotVerify}
    replicateM 2 (visit trustful server "localhost") `shouldReturn` [False, True]
    strict <- newClientContext (trusting (trustIn (PemFile (certificateFile credentials "alone"))))
    outcome <- try (visit strict server "localhost")
    either problemOfRefusal (const Nothing) outcome `shouldBe` Just UnknownAuthority
    verifying <- clientWith credentials id
    replicateM 2 (visit verifying server "localhost") `shouldReturn` [False, True]
  it "does not make a client accept a server that shows another certificate" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer version)
    client <- clientWith credentials id
    visit client server "localhost" `shouldReturn` False
    impostor <- contextOf credentials ["other"] (onlyServer version)
    outcome <- try (visit client impostor "localhost")
    either problemOfRefusal (const Nothing) outcome `shouldBe` Just WrongName
    -- After a failure the next attempt is a full handshake.
    replicateM 2 (visit client server "localhost") `shouldReturn` [False, True]
  it "is left out where the client says so" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer version)
    client <- clientWith credentials (\settings -> settings {clientResumption = FullHandshakes})
    replicateM 3 (visit client server "localhost") `shouldReturn` [False, False, False]
  it "is left out where the server has no tickets" $ \credentials -> do
    server <- contextOf credentials ["server"] (\settings -> onlyServer version settings {serverTickets = NoTickets})
    client <- clientWith credentials id
    replicateM 3 (visit client server "localhost") `shouldReturn` [False, False, False]
  where
    problemOfRefusal failure = case tlsProblem failure of
      CertificateRefused problem _ -> Just problem
      _ -> Nothing

servers :: SpecWith Credentials
servers = do
  it "opens tickets of servers with the same keys, before and after a restart" $ \credentials ->
    forM_ [Tls12, Tls13] $ \version -> do
      let key = ByteString.replicate 80
          serverWith keys =
            contextOf
              credentials
              ["server"]
              (\settings -> onlyServer version settings {serverTickets = SharedTicketKeys keys})
      client <- clientWith credentials id
      one <- serverWith [key 1]
      other <- serverWith [key 1]
      visit client one "localhost" `shouldReturn` False
      visit client other "localhost" `shouldReturn` True
      -- A new key in front protects new tickets, and the old one still opens old ones.
      rotated <- serverWith [key 2, key 1]
      visit client rotated "localhost" `shouldReturn` True
      later <- serverWith [key 3, key 2]
      visit client later "localhost" `shouldReturn` True
      stranger <- serverWith [key 1]
      visit client stranger "localhost" `shouldReturn` False
  it "sends tickets with its first answer, or soon when it waits for a request" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer Tls13)
    client <- clientWith credentials id
    withPairOf client server $ \ours peers -> do
      request <- start (recv peers 100)
      -- The server sends only tickets.
      deadline <- deadlineAfter (milliseconds 300)
      recvBefore deadline ours 100 `shouldThrow` isDeadlineError
      sendAll ours "request"
      within 20 "the request" (finish request) `shouldReturn` "request"
    withPairOf client server $ \ours _ -> negotiatedIsResumed (negotiated ours) `shouldBe` True
  it "opens its own tickets after its settings were replaced, and those of no other server" $ \credentials ->
    forM_ [Tls12, Tls13] $ \version -> do
      server <- contextOf credentials ["server"] (onlyServer version)
      stranger <- contextOf credentials ["server"] (onlyServer version)
      client <- clientWith credentials id
      visit client server "localhost" `shouldReturn` False
      renewed <- identity credentials "rsa"
      replaceServerSettings server (onlyServer version (serverSettings renewed))
      visit client server "localhost" `shouldReturn` True
      visit client stranger "localhost" `shouldReturn` False
  it "opens no tickets when other certificates of clients are asked for, although the keys are the same" $
    \credentials ->
      do
        let keys = SharedTicketKeys [ByteString.replicate 80 1]
        lenient <- contextOf credentials ["server"] (\settings -> settings {serverTickets = keys})
        asking <-
          contextOf
            credentials
            ["server"]
            (\settings -> settings {serverTickets = keys, serverClientCertificates = Asked (rootTrust credentials)})
        client <- clientWith credentials id
        visit client lenient "localhost" `shouldReturn` False
        visit client asking "localhost" `shouldReturn` False
  it "refuses keys of another length, none, and too many" $ \credentials -> do
    mine <- identity credentials "server"
    forM_ [[], [ByteString.replicate 79 1], replicate 17 (ByteString.replicate 80 1)] $ \keys ->
      newServerContext (serverSettings mine) {serverTickets = SharedTicketKeys keys}
        `shouldThrow` ((== BadTicketKeys) . settingsProblem)

clients :: SpecWith Credentials
clients = do
  it "uses a ticket of TLS 1.3 once, and a session of TLS 1.2 as often as it likes" $ \credentials ->
    forM_ [(Tls13, [True, False, False]), (Tls12, [True, True, True])] $ \(version, expected) -> do
      server <- contextOf credentials ["server"] (onlyServer version)
      client <- clientWith credentials id
      visit client server "localhost" `shouldReturn` False
      -- Nothing is received on these connections, so they get no tickets.
      results <- replicateM 3 . withPairOf client server $ \one _ -> return (negotiatedIsResumed (negotiated one))
      results `shouldBe` expected
  it "does not offer a ticket of TLS 1.3 on two connections at the same time" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer Tls13)
    client <- clientWith credentials id
    visit client server "localhost" `shouldReturn` False
    withTcpPair $ \one other -> do
      first <- start (clientHandshake client "localhost" one)
      hello <- Plain.recv other 4096
      visit client server "localhost" `shouldReturn` False
      peers <- within 20 "the server" (serverHandshakeAfter hello noDeadline server other)
      ours <- within 20 "the client" (finish first)
      map (negotiatedIsResumed . negotiated) [ours, peers] `shouldBe` [True, True]
      close ours >> close peers
  it "still works when the server's version changes" $ \credentials -> do
    older <- contextOf credentials ["server"] (onlyServer Tls12)
    newer <- contextOf credentials ["server"] (onlyServer Tls13)
    client <- clientWith credentials id
    mapM (\server -> visit client server "localhost") [older, newer, older] `shouldReturn` [False, False, False]
  it "keeps 256 sessions, those of the names that it has met last" $ \credentials -> do
    server <- contextOf credentials ["server"] (onlyServer Tls12)
    client <- clientWith credentials id
    let name number = show (number :: Int) ++ ".wild.test"
    mapM (visit client server . name) [1 .. 257] `shouldReturn` replicate 257 False
    mapM (visit client server . name) [257, 2, 1] `shouldReturn` [True, True, False]
