{-# LANGUAGE OverloadedStrings #-}

-- | HTTP over TLS, with clients of "Millrace.Tls".
module Main (main) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Char (isAsciiLower)
import Data.IORef
import Data.List (find)
import Data.Maybe (isJust, listToMaybe)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls hiding (Negotiated (..))
import qualified Millrace.Tls as Tls
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
  ( HandshakeFailed (..),
    setGracefulShutdownTimeout,
    setInstallShutdownHandler,
    setOnException,
    setProxyProtocolRequired,
    setTimeout,
  )
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import qualified Network.Wai.Handler.MillraceTLS as Millrace
import Support
import System.Directory (copyFile, removeFile, renameFile)
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
  describe "requests and responses" (requests credentials server client)
  describe "clients without TLS" (insecure credentials server client)
  describe "certificates of clients" (clientCertificates credentials server)
  describe "handshakes" (handshakes credentials server client)
  describe "certificates of the server" (certificates credentials)
  describe "the end" (ends server client)

type WithClient = Socket.PortNumber -> (Client -> IO ()) -> IO ()

-- | Answers with what the application knows about the connection.
telling :: Application
telling request respond =
  respond . responseLBS status200 [] . L.fromStrict . C8.unwords $
    [ C8.pack (show (isSecure request)),
      rawPathInfo request,
      maybe "-" negotiatedVersion (getNegotiated request),
      maybe
        "-"
        (C8.pack . certificateSubject)
        (clientCertificate request)
    ]

requests :: Credentials -> TLSSettings -> WithClient -> Spec
requests credentials server client = do
  it "says that a request is secure, and what was negotiated" $
    withServer server id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one (requestFor "/path")
      bodyOf reply `shouldBe` "True /path TLSv1.3 -"

  it "speaks TLS 1.2" $
    withServer server {tlsAllowedVersions = [Tls12]} id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one (requestFor "/")
      bodyOf reply `shouldBe` "True / TLSv1.2 -"

  it "takes an absolute target with https" $
    withServer server id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one "GET https://localhost/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      bodyOf reply `shouldBe` "True /a TLSv1.3 -"

  -- The second one is what curl -0 offers.
  forM_ ["http/1.1", "http/1.0"] $ \protocol -> it ("negotiates " ++ C8.unpack protocol) $
    withServer server id telling $ \port ->
      withClient credentials (\settings -> settings {clientProtocols = [protocol]}) port $ \one ->
        negotiatedProtocol' one `shouldBe` Just protocol

  it "keeps a connection, and answers pipelined requests in order" $
    withServer server id telling $ \port -> client port $ \one -> do
      forM_ [1 .. 20 :: Int] $ \number -> do
        let path = C8.pack ('/' : show number)
        sendAll one ("GET " <> path <> " HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receiveUntil ("True " <> path <> " TLSv1.3 -") one
      sendAll
        one
        ( B.concat
            ["GET /p" <> C8.pack (show number) <> " HTTP/1.1\r\nHost: localhost\r\n\r\n" | number <- [1 .. 50 :: Int]]
        )
      void (receiveUntil "True /p50 TLSv1.3 -" one)

  it "takes a head that comes in small pieces" $
    withServer server id telling $ \port -> client port $ \one -> do
      forM_ (B.unpack (requestFor "/slow")) $ \byte -> sendAll one (B.singleton byte)
      reply <- receiveAll one
      bodyOf reply `shouldBe` "True /slow TLSv1.3 -"

  it "sends back a large body" $
    withServer server id echoing $ \port -> client port $ \one -> do
      let body = numbered 5000000
      sender <- forkIO $ do
        sendAll
          one
          ( "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
              <> C8.pack (show (B.length body))
              <> "\r\n\r\n"
          )
        sendAll one body
      reply <- receiveAll one
      killThread sender
      (bodyOf reply == body) `shouldBe` True

  it "streams, and sends builders larger than any buffer" $
    withServer server id streaming $ \port -> client port $ \one -> do
      sendAll one "GET /builder HTTP/1.1\r\nHost: localhost\r\n\r\n"
      void (receiveUntil "the end of it" one)
      reply <- exchangeWith one (requestFor "/stream")
      B.isInfixOf "99999" reply `shouldBe` True

  it "sends files and parts of them" $ do
    let content = numbered 3000001
    B.writeFile (fileOf credentials "file") content
    let application request respond = respond (responseFile status200 [] (fileOf credentials "file") (part (rawPathInfo request)))
        part path = if path == "/part" then Just (FilePart 1000 2000000 3000001) else Nothing
    withServer server id application $ \port -> do
      client port $ \one -> exchangeWith one (requestFor "/") >>= \reply -> (bodyOf reply == content) `shouldBe` True
      client port $ \one ->
        exchangeWith one (requestFor "/part") >>= \reply ->
          (bodyOf reply == B.take 2000000 (B.drop 1000 content)) `shouldBe` True

  it "hands a connection over to a raw response" $
    withServer server id raw $ \port -> client port $ \one -> do
      sendAll one "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nfirst"
      void (receiveUntil "FIRST" one)
      sendAll one "second"
      void (receiveUntil "SECOND" one)

  it "sends a response while the application works on the next request" $ do
    hold <- newEmptyMVar
    let application request respond = do
          when (rawPathInfo request == "/wait") (takeMVar hold)
          telling request respond
    withServer server id application $ \port -> client port $ \one -> do
      sendAll one "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\nGET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"
      void (receiveUntil "/quick" one)
      putMVar hold ()
      void (receiveUntil "/wait" one)

  it "takes the header of a proxy before the handshake" $ do
    let application request respond = respond (responseLBS status200 [] (Builder.toLazyByteString (Builder.string7 (show (remoteHost request)))))
    withServer server setProxyProtocolRequired application $ \port ->
      withClientTo credentials id "localhost" "PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n" port $ \one -> do
        reply <- exchangeWith one (requestFor "/")
        bodyOf reply `shouldBe` "192.0.2.7:4711"

  it "ends a connection on which nothing comes after the handshake" $
    withServer server (setTimeout 1) telling $ \port -> client port $ \one -> receiveAll one `shouldReturn` ""

negotiatedProtocol' :: Connection -> Maybe ByteString
negotiatedProtocol' = Tls.negotiatedProtocol . negotiated

numbered :: Int -> ByteString
numbered count =
  fst (B.unfoldrN count (\number -> Just (fromIntegral (number * 7 + number `quot` 251), number + 1)) (0 :: Int))

echoing :: Application
echoing request respond =
  strictRequestBody request >>= \body ->
    respond (responseLBS status200 [(hContentLength, C8.pack (show (L.length body)))] body)

streaming :: Application
streaming request respond
  | rawPathInfo request == "/builder" =
    respond (responseBuilder status200 [] (Builder.byteString (B.replicate 300000 120) <> "the end of it"))
  | otherwise =
    respond (responseStream status200 [] (\write flush -> forM_ [1 .. 99999 :: Int] (write . Builder.intDec) >> flush))

raw :: Application
raw _ respond = respond (responseRaw loop (responseLBS status500 [] ""))
  where
    loop receive sending' =
      receive >>= \bytes -> unless (B.null bytes) (sending' (C8.map toUpper' bytes) >> loop receive sending')
    toUpper' character = if isAsciiLower character then toEnum (fromEnum character - 32) else character

insecure :: Credentials -> TLSSettings -> WithClient -> Spec
insecure _ server client = do
  it "are refused with a text" $ do
    reports <- newIORef []
    withServer
      server {onInsecure = DenyInsecure "https, please"}
      (setOnException (\_ failure -> modifyIORef reports (failure :)))
      telling
      $ \port ->
        do
          reply <- plainExchange port (requestFor "/")
          statusOf reply `shouldBe` "426"
          bodyOf reply `shouldBe` "https, please"
          client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
          found <- readIORef reports
          [reason | Just (HandshakeFailed failure) <- map fromException found, Just reason <- [fromException failure]]
            `shouldBe` [InsecureConnectionDenied]

  it "are served if they are allowed" $
    withServer server {onInsecure = AllowInsecure} id telling $ \port -> do
      reply <- plainExchange port (requestFor "/plain")
      bodyOf reply `shouldBe` "False /plain - -"
      client port $ \one -> exchangeWith one (requestFor "/tls") >>= (`shouldBe` "True /tls TLSv1.3 -") . bodyOf

  it "may send anything" $
    withServer server id telling $ \port -> do
      (statusOf <$> plainExchange port (B.replicate 100000 0)) `shouldReturn` "426"
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"

clientCertificates :: Credentials -> TLSSettings -> Spec
clientCertificates credentials server = do
  let trust = trustIn (PemFile (certificateFile credentials "root"))
      pair = pairOf credentials "client"
      withCertificate settings = do
        identity <- loadIdentity (PemFile (fst pair)) (PemFile (snd pair))
        return settings {clientIdentity = Just identity}
  it "are to be had from the request" $
    withServer server {tlsClientCertificates = Required trust} id telling $ \port -> do
      change <- withCertificate clientSettings
      withClient credentials (\settings -> settings {clientIdentity = clientIdentity change}) port $ \one -> do
        reply <- exchangeWith one (requestFor "/")
        bodyOf reply `shouldBe` "True / TLSv1.3 CN=client"

  it "may be missing if they are only asked for" $
    withServer server {tlsClientCertificates = Asked trust} id telling $ \port ->
      withClient credentials id port $ \one ->
        exchangeWith one (requestFor "/") >>= (`shouldBe` "True / TLSv1.3 -") . bodyOf

  it "must be there if they are required, and the client is told" $ do
    outcomes <- newIORef []
    withServer
      server
        { tlsClientCertificates =
            Required trust,
          tlsOnHandshake = Just (\ended -> modifyIORef outcomes (ended :))
        }
      id
      telling
      $ \port ->
        do
          refused <- try (withClient credentials id port (\one -> exchangeWith one (requestFor "/")))
          case refused of
            Left failure -> tlsAlert failure `shouldBe` Just (AlertReceived CertificateRequired)
            Right reply -> expectationFailure ("there was a reply: " ++ show reply)
          let refusals found = [tlsProblem problem | Handshake (HandshakeRefused problem) _ <- found]
              someOf found = if null found then Nothing else Just found
          -- The client knows it before the server reports it.
          untilJust "the report" (someOf . refusals <$> readIORef outcomes) >>= (`shouldBe` [CertificateMissing])

  it "of unknown authorities are refused if tlsWantClientCert is all that is set" $
    withServer server {tlsWantClientCert = True} id telling $ \port -> do
      change <- withCertificate clientSettings
      refused <-
        try
          ( withClient
              credentials
              (\settings -> settings {clientIdentity = clientIdentity change})
              port
              (\one -> exchangeWith one (requestFor "/"))
          )
      either (isJust . tlsAlert) (const False) (refused :: Either TlsException ByteString) `shouldBe` True

-- | The first bytes of a handshake.
beginning :: ByteString
beginning = B.pack [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]

handshakes :: Credentials -> TLSSettings -> WithClient -> Spec
handshakes _ server client = do
  it "are bounded in time, and counted" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeSeconds = 1} id telling $ \port ->
      withPlain port $ \slow -> do
        Plain.sendAll slow beginning
        within 30 "the end" (Plain.recv slow 100) >>= (`shouldBe` "")
        untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "timed out")

  it "have all the time that there is, if that is wanted" $
    withServer server {tlsHandshakeSeconds = maxBound, tlsWatchSeconds = maxBound} id telling $ \port ->
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"

  it "are bounded in time for a client that sends a byte at a time" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeSeconds = 2} id telling $ \port ->
      withPlain port $ \slow -> do
        sender <-
          forkIO
            ( forM_
                (B.unpack (B.append beginning (B.replicate 1000 0)))
                (\byte -> Plain.sendAll slow (B.singleton byte) >> threadDelay 200000)
                `catch` gone
            )
        untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "timed out")
        killThread sender

  it "that are slow do not keep others waiting" $
    withServer server {tlsHandshakeSeconds = 20} id telling $ \port ->
      manyPlain 100 port $ \slow -> do
        forM_ slow (`Plain.sendAll` beginning)
        forM_ [1 .. 10 :: Int] $ \_ ->
          client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"

  it "that are slow make room for others" $ do
    (outcomes, watched) <- watching server
    withServer watched {tlsHandshakeSeconds = 25, tlsMaximumHandshakes = 3} id telling $ \port ->
      manyPlain 3 port $ \slow -> do
        forM_ slow (`Plain.sendAll` beginning)
        -- They have begun their handshakes when the next client comes.
        threadDelay 300000
        client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
        -- The aborted handshake reports it from its own thread.
        void (untilJust "the count" (find (/= "done") <$> readIORef outcomes))
        filter (/= "done") <$> readIORef outcomes `shouldReturn` ["made room"]

  it "with garbage are refused, and counted" $ do
    (outcomes, watched) <- watching server
    withServer watched id telling $ \port -> do
      void (plainExchange port (B.append (B.pack [22, 3, 3, 0, 100]) (B.replicate 100 255)))
      untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "refused")

  it "that a client leaves are counted" $ do
    (outcomes, watched) <- watching server
    withServer watched id telling $ \port -> do
      withPlain port (`Plain.sendAll` beginning)
      untilJust "the count" (fmap listToMaybe (readIORef outcomes)) >>= (`shouldBe` "refused")

  it "end with the server" $ do
    (outcomes, watched) <- watching server
    begun <- newEmptyMVar
    let choosing = watched {tlsCredentialsFor = Just (\_ -> putMVar begun () >> forever (threadDelay 1000000))}
    withServer choosing id telling $ \port ->
      void (forkIO (client port (const (return ())) `catch` failed) >> within 30 "the handshake" (takeMVar begun))
    -- The server waits for them, and they learn why.
    readIORef outcomes `shouldReturn` ["lost"]
  where
    failed :: SomeException -> IO ()
    failed _ = return ()
    watching tls = do
      outcomes <- newIORef []
      return
        ( outcomes,
          tls
            { tlsOnHandshake =
                Just (\ended -> atomicModifyIORef' outcomes (\before' -> (name (handshakeOutcome ended) : before', ())))
            }
        )
    name :: HandshakeOutcome -> String
    name outcome = case outcome of
      HandshakeDone _ -> "done"
      HandshakeRefused _ -> "refused"
      HandshakeTimedOut -> "timed out"
      HandshakeMadeRoom -> "made room"
      HandshakeLost _ -> "lost"
    gone :: IOException -> IO ()
    gone _ = return ()
    manyPlain :: Int -> Socket.PortNumber -> ([Socket.Socket] -> IO a) -> IO a
    manyPlain 0 _ use = use []
    manyPlain count port use = withPlain port (\one -> manyPlain (count - 1) port (use . (one :)))

certificates :: Credentials -> Spec
certificates credentials = do
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

  it "that are loaded already take the place of files" $ do
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
    withServer (tlsSettings certificate key) {tlsWatchSeconds = 1, tlsOnReload = noting} id telling $ \port ->
      withClient credentials id port $ \open -> do
        B.writeFile (certificate ++ ".new") "broken" >> renameFile (certificate ++ ".new") certificate
        void . untilJust "the report" $
          (\found -> if null [() | NotReloaded _ <- found] then Nothing else Just ()) <$> readIORef reloads
        subjectFor "localhost" port >>= (`shouldBe` Just "CN=server")
        install "renewed"
        void . untilJust "the new certificate" $
          (\found -> if found == Just "CN=renewed" then Just () else Nothing) <$> subjectFor "localhost" port
        (statusOf <$> exchangeWith open (requestFor "/")) `shouldReturn` "200"

  it "are shown with the answer of their authority that is in a file, as long as the file has a good one" $ do
    let certificate = fileOf credentials "stapled.pem"
        file = certificate ++ ".ocsp"
        install = renameFile (file ++ ".new") file
        (known, key) = pairOf credentials "server"
    copyFile known certificate
    withTlsServer (tlsSettings certificate key) {tlsWatchSeconds = 1} id telling $ \tls port -> do
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

ends :: TLSSettings -> WithClient -> Spec
ends server client = do
  it "comes to idle connections when the server stops, in an orderly way" $ do
    stop <- newEmptyMVar
    withServer server (setInstallShutdownHandler (putMVar stop) . setGracefulShutdownTimeout (Just 10)) telling $
      \port ->
        client port $ \one -> do
          sendAll one "GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n"
          void (receiveUntil "/first" one)
          join (takeMVar stop)
          receiveAll one >>= (`shouldBe` "")

  it "comes after the response to a request that is under way" $ do
    stop <- newEmptyMVar
    working <- newEmptyMVar
    hold <- newEmptyMVar
    let application request respond = putMVar working () >> takeMVar hold >> telling request respond
    withServer server (setInstallShutdownHandler (putMVar stop) . setGracefulShutdownTimeout (Just 10)) application $
      \port ->
        client port $ \one -> do
          sendAll one "GET /last HTTP/1.1\r\nHost: localhost\r\n\r\n"
          within 30 "the request" (takeMVar working)
          join (takeMVar stop)
          putMVar hold ()
          reply <- receiveAll one
          (statusOf reply, "Connection: close" `B.isInfixOf` reply, bodyOf reply)
            `shouldBe` ("200", True, "True /last TLSv1.3 -")

  it "of a client's stream without a word is the end of its requests" $ do
    reports <- newIORef []
    withServer server (setOnException (\_ failure -> modifyIORef reports (failure :))) telling $ \port -> do
      client port $ \one -> do
        sendAll one "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        void (receiveUntil "TLSv1.3" one)
        Socket.shutdown (connectionSocket one) Socket.ShutdownSend
        receiveAll one >>= (`shouldBe` "")
      found <- readIORef reports
      length found `shouldBe` 0

  it "is not awaited from a client that has sent nothing" $
    withServer server id telling $ \port -> do
      withPlain port (\_ -> return ())
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
