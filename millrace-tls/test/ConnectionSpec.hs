{-# LANGUAGE OverloadedStrings #-}

-- | The guarantees of a connection, with this package on both sides.
module ConnectionSpec (spec) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Maybe (isJust, isNothing)
import Foreign.Ptr (castPtr, plusPtr)
import Millrace.Deadline (Deadline, deadlineAfter, isDeadlineError, noDeadline)
import Millrace.File (Mode (..), fileDescriptor, withFile)
import Millrace.Operation (perform, waitReadableRequest)
import Millrace.Socket (SocketOption (..), setSocketOption)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Timer (timeout)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  describe "handshake" handshakes
  describe "receive" receiving
  describe "send" sending
  describe "the end" ending

only :: Version -> Algorithms
only version = defaultAlgorithms {lowestVersion = version, highestVersion = version}

handshakes :: SpecWith Credentials
handshakes = do
  forM_ [(version, name) | version <- [Tls12, Tls13], name <- ["server", "rsa", "ed25519", "chained"]] $
    \(version, name) ->
      it ("works with " ++ show version ++ " and the certificate " ++ name) $ \credentials -> do
        server <- contextOf credentials [name] (\settings -> settings {serverAlgorithms = only version})
        client <- clientWith credentials id
        withPairOf client server $ \one other -> do
          negotiatedVersion (negotiated one) `shouldBe` version
          negotiatedVersion (negotiated other) `shouldBe` version
          negotiatedCipher (negotiated one) `shouldBe` negotiatedCipher (negotiated other)
          negotiatedGroup (negotiated one) `shouldBe` Just "x25519"
          negotiatedServerName (negotiated other) `shouldBe` Just "localhost"
          negotiatedProtocol (negotiated one) `shouldBe` Nothing
          fmap certificateSubject (negotiatedPeerCertificate (negotiated one)) `shouldBe` Just ("CN=" ++ name)
          negotiatedPeerCertificate (negotiated other) `shouldBe` Nothing
          sendAll one "question"
          recv other 100 `shouldReturn` "question"
          sendAll other "answer"
          recv one 100 `shouldReturn` "answer"
  it "prefers AES-128 and X25519" $ \credentials -> withPair credentials $ \one _ ->
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
  it "looks identities up also when the client's first message comes in pieces, and must come twice" $ \credentials -> do
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
    withTcpPair $ \mine between -> withTcpPair $ \between' theirs -> do
      forM_ [(between, between'), (between', between)] $ \(from, to) -> start (drip from to)
      (ours, peers) <- bothSides (clientHandshake client "localhost" mine) (serverHandshake server theirs)
      either throwIO (return . negotiatedGroup . negotiated) ours `shouldReturn` Just "secp384r1"
      either throwIO (return . negotiatedServerName . negotiated) peers `shouldReturn` Just "localhost"
    readIORef asked `shouldReturn` 1
  it "refuses clients for whose name nothing is found, or for whom the action throws or is interrupted" $ \credentials ->
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
    deadline <- deadlineAfter 20000
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
    withTcpPair $ \one between -> withTcpPair $ \between' other -> do
      forM_ [(between, between'), (between', between)] $ \(from, to) -> start (drip from to)
      setSocketOption one NoDelay 1
      (mine, theirs) <- bothSides (clientHandshake client "localhost" one) (serverHandshake server other)
      first <- either throwIO return mine
      second <- either throwIO return theirs
      sendAll first (bytesAt 0 3000)
      receiveExactly second 0 3000
      sendAll second (bytesAt 0 3000)
      receiveExactly first 0 3000

-- Forwards bytes, one at a time.
drip :: Socket.Socket -> Socket.Socket -> IO ()
drip from to = do
  bytes <- Plain.recv from 4096
  unless (ByteString.null bytes) $ do
    forM_ (ByteString.unpack bytes) $ \byte -> Plain.sendAll to (ByteString.singleton byte)
    drip from to

receiving :: SpecWith Credentials
receiving = do
  forM_ [1, 100, 16384, 16385, 1000000] $ \size ->
    it ("gets " ++ show size ++ " bytes, in pieces of any size") $ \credentials ->
      withPair credentials $ \one other -> do
        job <- start (sendAll one (bytesAt 0 size) >> endSending one)
        let go position [] = go position [1, 7, 500, 16384, 20000, 100000]
            go position (most : more) = do
              bytes <- recv other most
              bytes `shouldBe` bytesAt position (ByteString.length bytes)
              ByteString.length bytes `shouldSatisfy` (<= most)
              if ByteString.null bytes then return position else go (position + ByteString.length bytes) more
        go 0 [] `shouldReturn` size
        finish job
  it "loses nothing when its deadline passes" $ \credentials -> withPair credentials $ \one other -> do
    job <- start . forM_ [0 .. 299] $ \piece ->
      sendAll one (bytesAt (piece * 700) 700) >> threadDelay (piece `mod` 7 * 30)
    let go position
          | position >= 210000 = return ()
          | otherwise = do
            deadline <- deadlineAfter (position `mod` 60)
            outcome <- try (recvBefore deadline other 1000)
            case outcome of
              Left problem | isDeadlineError problem -> go position
              Left problem -> throwIO problem
              Right bytes -> do
                bytes `shouldBe` bytesAt position (ByteString.length bytes)
                go (position + ByteString.length bytes)
    go 0
    finish job
  it "loses nothing when it is interrupted" $ \credentials -> withPair credentials $ \one other -> do
    job <- start . forM_ [0 .. 299] $ \piece ->
      sendAll one (bytesAt (piece * 700) 700) >> threadDelay (piece `mod` 7 * 30)
    interrupted <- newIORef (0 :: Int)
    let go position
          | position >= 210000 = return ()
          | otherwise = do
            outcome <- timeout (1 + position `mod` 60) (recv other 1000)
            case outcome of
              Nothing -> modifyIORef' interrupted (+ 1) >> go position
              Just bytes -> do
                bytes `shouldBe` bytesAt position (ByteString.length bytes)
                go (position + ByteString.length bytes)
    go 0
    readIORef interrupted >>= (`shouldSatisfy` (> 10))
    finish job
  it "finds quiet a peer that has sent nothing but tickets, and loses nothing of others" $ \credentials ->
    withPair credentials $ \one other -> do
      let arrival = void (perform (waitReadableRequest (Socket.socketHandle (connectionSocket one))))
          noise = within 20 "noise" $ let look = isQuiet one >>= \quiet -> when quiet (arrival >> look) in look
      -- The server sends its tickets when it waits for a request.
      request <- start (recv other 100)
      within 20 "tickets" arrival
      isQuiet one `shouldReturn` True
      sendAll one "request"
      finish request `shouldReturn` "request"
      sendAll other "answer"
      noise
      isQuiet one `shouldReturn` False
      recv one 100 `shouldReturn` "answer"
      isQuiet one `shouldReturn` True
      endSending other
      noise
      recv one 100 `shouldReturn` ""
      isQuiet one `shouldReturn` False
  it "tells an end that was cut off from one that was said" $ \credentials -> do
    withPair credentials $ \one other -> do
      sendAll one "all"
      endSending one
      receiveAll other `shouldReturn` "all"
      recv other 10 `shouldReturn` ""
    withPair credentials $ \one other -> do
      sendAll one "not all"
      Socket.close (connectionSocket one)
      recv other 100 `shouldReturn` "not all"
      recv other 100 `shouldThrow` ((== Truncated) . tlsProblem)
      recv other 100 `shouldThrow` ((== Truncated) . tlsProblem)
  it "says so when somebody changes a byte" $ \credentials -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials id
    withTcpPair $ \one between -> withTcpPair $ \between' other -> do
      broken <- newIORef False
      never <- newIORef False
      forM_ [(broken, between, between'), (never, between', between)] $ \(flag, from, to) ->
        start (spoil flag from to)
      (mine, theirs) <- bothSides (clientHandshake client "localhost" one) (serverHandshake server other)
      first <- either throwIO return mine
      second <- either throwIO return theirs
      writeIORef broken True
      sendAll first "spoilt"
      recv second 100 `shouldThrow` \problem ->
        tlsProblem problem == ProtocolViolated && tlsAlert problem == Just (AlertSent BadRecordMac)
      recv first 100 `shouldThrow` \problem ->
        tlsProblem problem == RefusedByPeer && tlsAlert problem == Just (AlertReceived BadRecordMac)
  it "wakes when the connection is closed" $ \credentials -> withPair credentials $ \_ other -> do
    job <- start (recv other 100)
    threadDelay 20000
    close other
    try (within 5 "the receive" (finish job)) >>= (`shouldSatisfy` isJust) . ioErrorOf
    recv other 100 `shouldThrow` (const True :: IOException -> Bool)
    sendAll other "more" `shouldThrow` (const True :: IOException -> Bool)
  it "returns what comes while another thread sends" $ \credentials -> withPair credentials $ \one other -> do
    jobs <- forM [one, other] $ \side -> do
      sender <- start (forM_ [0 .. 199] $ \piece -> sendAll side (bytesAt (piece * 5000) 5000))
      receiver <- start (receiveExactly side 0 1000000)
      return [sender, receiver]
    within 60 "all" (mapM_ finish (concat jobs))
  where
    spoil broken from to = do
      bytes <- Plain.recv from 16384
      unless (ByteString.null bytes) $ do
        isBroken <- takeFlag broken
        Plain.sendAll
          to
          (if isBroken then ByteString.init bytes <> ByteString.singleton (ByteString.last bytes + 1) else bytes)
        spoil broken from to

sending :: SpecWith Credentials
sending = do
  it "sends many strings, large and small" $ \credentials -> withPair credentials $ \one other -> do
    let sizes = [0, 1, 20, 16000, 3, 70000, 0, 5]
        positions = scanl (+) 0 sizes
    job <- start (sendMany one (zipWith bytesAt positions sizes))
    receiveExactly other 0 (sum sizes)
    finish job
  it "sends a file, a part of it, and nothing beyond its end" $ \credentials -> withPair credentials $ \one other -> do
    let path = fileOf credentials "file"
    ByteString.writeFile path (bytesAt 0 300000)
    withFile path ForReading $ \file -> do
      job <- start $ do
        whole <- sendFile one (fileDescriptor file) 0 300000
        part <- sendFile one (fileDescriptor file) 300 100
        beyond <- sendFile one (fileDescriptor file) 299990 100
        return (whole, part, beyond)
      receiveExactly other 0 300000
      receiveExactly other 300 100
      receiveExactly other 299990 10
      finish job `shouldReturn` (300000, 100, 10)
      sendFile one (-1) 0 10 `shouldThrow` (const True :: IOException -> Bool)
  it "goes on after attempts that ran out of time" $ \credentials -> withPair credentials $ \one other -> do
    let total = 20000000
    timeouts <- newIORef (0 :: Int)
    job <- start . unsafeUseAsCStringLen (bytesAt 0 total) $ \(bytes, _) -> do
      let go position = when (position < total) $ do
            attempt <- attemptSend (Within 300) one (castPtr bytes `plusPtr` position) (min 20000 (total - position))
            case attempt of
              Moved count -> go (position + count)
              TimedOut -> modifyIORef' timeouts (+ 1) >> go position
              Refused _ -> ioError (userError "refused")
      go 0
    -- The other side receives only when this side cannot send any more.
    let awaitTimeout = readIORef timeouts >>= \count -> when (count == 0) (threadDelay 10000 >> awaitTimeout)
    within 30 "an attempt that runs out of time" awaitTimeout
    receiveExactly other 0 total
    finish job
  it "gives up at its deadline, and wakes when the connection is closed" $ \credentials ->
    withPair credentials $ \one _ -> do
      deadline <- deadlineAfter 50000
      sendAllBefore deadline one (bytesAt 0 20000000) `shouldThrow` isDeadlineError
      job <- start (sendAll one (bytesAt 0 20000000))
      threadDelay 20000
      close one
      try (within 5 "the send" (finish job)) >>= (`shouldSatisfy` isJust) . ioErrorOf
  forM_ [("its deadline passes", byDeadline), ("it is interrupted", byInterruption)] $ \(what, cutting) -> do
    it ("leaves the connection whole when " ++ what ++ " within a message") $ \credentials ->
      withPair credentials $ \one other -> do
        cutting (\deadline -> sendAllBefore deadline one (bytesAt 0 20000000))
        -- The sent part precedes what is sent next, and nothing is lost or repeated between them.
        job <- start (sendAll one "the rest" >> endSending one)
        received <- receiveAll other
        finish job
        let count = ByteString.length received - 8
        ByteString.drop count received `shouldBe` "the rest"
        (ByteString.take count received == bytesAt 0 count) `shouldBe` True
    it ("does not let the peer take the message for whole when " ++ what ++ ", and the connection is closed") $
      \credentials ->
        withPair credentials $ \one other -> do
          let path = fileOf credentials "large"
          ByteString.writeFile path (bytesAt 0 20000000)
          withFile path ForReading $ \file ->
            cutting (\deadline -> void (sendFileBefore deadline one (fileDescriptor file) 0 20000000))
          close one
          let go position = do
                outcome <- try (recv other 100000)
                case outcome of
                  Left problem -> return (tlsProblem problem)
                  Right bytes | ByteString.null bytes -> ioError (userError "the end was said")
                  Right bytes -> do
                    (bytes == bytesAt position (ByteString.length bytes)) `shouldBe` True
                    go (position + ByteString.length bytes)
          within 20 "the end" (go 0) `shouldReturn` Truncated
  it "is refused after the end was said" $ \credentials -> withPair credentials $ \one other -> do
    endSending one
    sendAll one "more" `shouldThrow` (const True :: IOException -> Bool)
    sendAll other "still"
    recv one 100 `shouldReturn` "still"

-- Both end a send that waits for room in the socket.
byDeadline, byInterruption :: (Deadline -> IO ()) -> IO ()
byDeadline cut = do
  deadline <- deadlineAfter 200000
  cut deadline `shouldThrow` isDeadlineError
byInterruption cut = timeout 200000 (cut noDeadline) `shouldReturn` Nothing

ending :: SpecWith Credentials
ending = do
  it "comes for each direction by itself" $ \credentials -> withPair credentials $ \one other -> do
    sendAll one "question"
    endSending one
    receiveAll other `shouldReturn` "question"
    sendAll other "answer"
    endSending other
    receiveAll one `shouldReturn` "answer"
  it "is said by close" $ \credentials -> withPair credentials $ \one other -> do
    sendAll one "bye"
    close one
    close one
    receiveAll other `shouldReturn` "bye"
  it "is said by a graceful close, which waits for the peer" $ \credentials -> withPair credentials $ \one other -> do
    job <- start (sendAll one "bye" >> gracefulClose one 5000)
    receiveAll other `shouldReturn` "bye"
    close other
    finish job

takeFlag :: IORef Bool -> IO Bool
takeFlag place = atomicModifyIORef' place noted
  where
    noted flag = (False, flag)
