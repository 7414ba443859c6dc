{-# LANGUAGE OverloadedStrings #-}

-- | An application over HTTP\/3, with curl, aioquic and the program of ngtcp2 as clients.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad (foldM, forM_, forever, join, unless, void, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import qualified Data.CaseInsensitive as CI
import Data.Char (toLower)
import Data.IORef
import Data.List (isInfixOf, isPrefixOf, nub, sort)
import Data.Maybe (listToMaybe)
import GHC.Clock (getMonotonicTime)
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    Socket,
    SocketType (..),
    accept,
    bind,
    close,
    connect,
    defaultProtocol,
    getSocketName,
    listen,
    socket,
    tupleToHostAddress,
  )
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Socket.Unix (abstractName)
import Millrace.Tls (systemTrust)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Network.Wai.Handler.MillraceHTTP3
import Network.Wai.Handler.MillraceTLS
import System.Directory (createDirectoryIfMissing, findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (BufferMode (..), hClose, hPutStr, hSetBuffering, stderr, stdout)
import System.Process
import Test.Hspec
import TestSupport.Folder (withTemporaryFolder)
import TestSupport.Time (eventually, limited)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  withFolder (hspec . around_ (limited 60) . spec)

withFolder :: (FilePath -> IO a) -> IO a
withFolder use = withTemporaryFolder "millrace-http3" $ \folder -> do
  makeCertificate folder "first"
  makeCertificate folder "second"
  use folder

makeCertificate :: FilePath -> String -> IO ()
makeCertificate folder name =
  callProcess "openssl" $
    words
      "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext \
      \subjectAltName=DNS:localhost,IP:127.0.0.1 -batch -quiet"
      ++ ["-keyout", folder </> (name ++ ".key"), "-out", folder </> (name ++ ".pem")]

spec :: FilePath -> Spec
spec folder = do
  describe "curl" $ do
    it "gets a page over HTTP/3" $
      withServer folder $ \server -> do
        (code, output) <- curl folder server ["-i", "/?x=1"]
        code `shouldBe` ExitSuccess
        let (headLines, body) = splitHead output
        take 1 headLines `shouldBe` ["HTTP/3 200 "]
        headLines `shouldContain` ["x-path: /"]
        body `shouldBe` "HTTP/3.0 GET / ?x=1 secure"

    it "is told by the other versions that there is HTTP/3" $
      withServer folder $ \server -> do
        let announcement = "alt-svc: h3=\":" ++ show (serverPort server) ++ "\"; ma=86400"
        outputs <- mapM (\version -> snd <$> curlWith folder server [version, "-i", "/"]) ["--http1.1", "--http2"]
        map (map (map toLower) . fst . splitHead) outputs `shouldSatisfy` all (announcement `elem`)
        (_, output) <- curl folder server ["-i", "/"]
        map toLower output `shouldSatisfy` not . isInfixOf "alt-svc"

    it "posts what comes back unchanged" $
      withServer folder $ \server -> do
        let sent = folder </> "sent"
            received = folder </> "received"
            bytes = B.pack (take 2000000 (cycle [0 .. 250]))
        B.writeFile sent bytes
        (code, _) <- curl folder server ["--data-binary", "@" ++ sent, "-o", received, "/echo"]
        code `shouldBe` ExitSuccess
        B.readFile received >>= (`shouldBe` True) . (== bytes)

    it "gets files, whole and in part" $
      withServer folder $ \server -> do
        let received = folder </> "received"
            bytes = B.pack (take 3000000 (cycle [0 .. 250]))
        B.writeFile (folder </> "file") bytes
        (code, _) <- curl folder server ["-o", received, "/file"]
        code `shouldBe` ExitSuccess
        B.readFile received >>= (`shouldBe` True) . (== bytes)
        (_, output) <- curl folder server ["-r", "1000000-2000000", "-o", received, "-w", "%{http_code}", "/file"]
        output `shouldBe` "206"
        B.readFile received >>= (`shouldBe` True) . (== B.take 1000001 (B.drop 1000000 bytes))

    it "gets the head of an answer alone" $
      withServer folder $ \server -> do
        B.writeFile (folder </> "file") (B.replicate 12345 65)
        (code, output) <- curl folder server ["-I", "/file"]
        code `shouldBe` ExitSuccess
        fst (splitHead output) `shouldContain` ["content-length: 12345"]

    it "is answered from the address that it has used, of several" $
      withServerOf folder (uncurry tlsSettings (pair folder)) (setHost "0.0.0.0") $ \server -> do
        let bytes = B.pack (take 300000 (cycle [0 .. 250]))
        B.writeFile (folder </> "file") bytes
        forM_ ["127.0.0.2", "127.0.0.1", "127.0.0.3"] $ \address -> do
          let received = folder </> "received"
          (code, _) <- curlAt address folder server ["-o", received, "/file"]
          code `shouldBe` ExitSuccess
          B.readFile received >>= (`shouldBe` True) . (== bytes)

    it "refuses a certificate that is not the server's, until it is reloaded" $ do
      certificate <- B.readFile (folder </> "first.pem") >>= newIORef
      key <- B.readFile (folder </> "first.key") >>= newIORef
      withServerOf folder (tlsSettingsRef certificate key) id $ \server -> do
        (first, _) <- curl folder server ["/"]
        first `shouldBe` ExitSuccess
        B.readFile (folder </> "second.pem") >>= writeIORef certificate
        B.readFile (folder </> "second.key") >>= writeIORef key
        reloadHTTP3 (serverHttp3 server)
        (old, _) <- curl folder server ["/"]
        old `shouldSatisfy` (/= ExitSuccess)
        (new, _) <- curlWith folder server ["--http3-only", "--cacert", folder </> "second.pem", "/"]
        new `shouldBe` ExitSuccess

    it "keeps the old certificate when the new one is broken" $ do
      certificate <- B.readFile (folder </> "first.pem") >>= newIORef
      key <- B.readFile (folder </> "first.key") >>= newIORef
      withServerOf folder (tlsSettingsRef certificate key) id $ \server -> do
        writeIORef certificate "nonsense"
        reloadHTTP3 (serverHttp3 server) `shouldThrow` anyIOException
        (code, _) <- curl folder server ["/"]
        code `shouldBe` ExitSuccess

  describe "aioquic" $ do
    scene folder "get" ["200 HTTP/3.0 GET / ?x=1 secure"] "gets a page"
    scene folder "many" ["100 in time"] "has a hundred slow requests at a time"
    scene folder "echo" ["200 True"] "sends and receives more than the windows at the same time"
    scene folder "trailers" ["200 4 x-sum=12 b'4'"] "exchanges trailers"
    scene folder "stream" ["first", "first second"] "gets a flushed piece before the next one is written"
    scene folder "reset" ["ConnectionClosedByPeer"] "ends a request, of which the application is told"
    scene folder "leave" ["ConnectionClosedByPeer"] "leaves, of which the application is told"
    scene folder "failure" ["500", "reset 0x102", "200"] "sees the failure of an application in its request alone"
    let broken = ["no path", "upper case", "connection", "two lengths", "two hosts", "line end", "colon"]
    scene folder "broken" (map (++ " refused") broken) "is refused what no client may send"
    scene
      folder
      "rebinding"
      ["200 2048000 True", "in its middle True True"]
      "gets a response while its address changes without its knowledge"
    scene folder "wandering" ["16 16 None"] "is served at many addresses, by whichever socket receives from them"
    scene folder "update" ["200 2048000 True"] "changes keys and connection IDs while a response comes"

  describe "attacks" $ do
    libraries <- runIO librariesOfHTTP3
    -- ngtcp2 1.11 leaves it to the engine to refuse so many pieces. 1.24 does that by itself, with INTERNAL_ERROR.
    let tooManyPieces = if "ngtcp2 1.11." `isInfixOf` libraries then "closed 0x107" else "closed 0x1"
    attack folder "handshakes" ["Retry", "200", "others are served", "bounded"] "handshakes without end"
    attack folder "amplification" ["within three times", "0 to a short one, less to another version"] "a forged address"
    attack folder "address" ["within three times", "200 2048000"] "packets of a connection from a forged address"
    attack folder "early_crypto" ["others are served", "bounded"] "handshake messages in pieces, out of order"
    attack folder "late_crypto" ["closed", "others are served", "bounded"] "the same after the handshake"
    attack folder "streams" ["closed 0x4", "closed 0x4"] "too many streams"
    attack folder "empty_streams" ["closed 0x107", "others are served", "bounded"] "streams without a request"
    attackWith
      (setHTTP2MaximumFrames 500 50 . setHTTP2MaximumResets 100 10)
      folder
      "resets"
      ["closed 0x107 after fewer than 5000", "others are served", "bounded"]
      "resets"
    attack folder "fragments" [tooManyPieces, "others are served", "bounded"] "bodies in pieces, out of order"
    attack folder "stalled" ["open", "others are served", "bounded"] "windows that stay closed"
    attack folder "unacknowledged" ["at most 20 MiB", "others are served", "bounded"] "no acknowledgements"
    attack folder "windows" ["closed 0x3"] "more than the window"
    attack folder "challenges" ["open", "few answers", "others are served", "bounded"] "path challenges"
    attack folder "foreign_challenges" ["within three times", "open"] "path challenges from a forged address"
    attack folder "new_ids" ["closed 0x9", "others are served", "bounded"] "new connection IDs"
    attack folder "too_many_ids" ["closed 0x9"] "too many connection IDs"
    attack folder "retired_ids" ["open", "others are served", "bounded"] "retired connection IDs"
    attack folder "holes" ["open", "others are served", "bounded"] "missing packet numbers"
    attack folder "ranges" ["open True", "others are served", "bounded"] "ranges of acknowledgements"
    attack folder "optimistic" ["closed 0xa"] "acknowledgements of packets that were not sent"
    attack folder "bomb" ["closed 0x107 []", "others are served", "bounded"] "fields from the QPACK table"
    attack folder "table" ["closed 0x201", "others are served", "bounded"] "changes of the QPACK table"
    attack
      folder
      "blocked"
      ["open", "closed 0x200", "others are served", "bounded"]
      "heads that wait for the QPACK table"

  describe "ngtcp2's client" $ do
    ngtcp2 folder [] "gets a file"
    ngtcp2 folder ["--change-local-addr=20ms"] "gets a file while it moves to another address"
    -- Later, this client would have nothing to send, and so no server could learn its new address.
    ngtcp2
      folder
      ["--change-local-addr=20ms", "--nat-rebinding", "--delay-stream=60ms"]
      "gets a file after its address has changed without its knowledge"
    ngtcp2 folder ["--key-update=20ms"] "gets a file while it changes the keys"

    it "sends a file, whose datagrams the kernel joins" $
      withNgtcp2 $ \client -> withServer folder $ \server -> do
        let bytes = B.pack (take 20000000 (cycle [0 .. 250]))
            port = show (serverPort server)
            received = folder </> "received-by-ngtcp2"
        B.writeFile (folder </> "sent") bytes
        createDirectoryIfMissing True received
        (code, _, errors) <-
          readProcessWithExitCode
            client
            [ "-q",
              "--exit-on-all-streams-close",
              "--download="
                ++ received,
              "-m",
              "POST",
              "-d",
              folder </> "sent",
              "127.0.0.1",
              port,
              "https://localhost:"
                ++ port
                ++ "/echo"
            ]
            ""
        unless (code == ExitSuccess) (expectationFailure errors)
        B.readFile (received </> "echo") >>= (`shouldBe` True) . (== bytes)

    it "has its marks counted, and gets marked datagrams (ECN)" $
      withNgtcp2 $ \client -> withServer folder $ \server -> do
        B.writeFile (folder </> "file") (B.replicate 2000000 65)
        let port = show (serverPort server)
            arguments =
              [ "--no-quic-dump",
                "--no-http-dump",
                "--exit-on-all-streams-close",
                "127.0.0.1",
                port,
                "https://localhost:"
                  ++ port
                  ++ "/file"
              ]
        (code, _, said) <- readProcessWithExitCode client arguments ""
        code `shouldBe` ExitSuccess
        let telling = [line | line <- lines said, "frm rx" `isInfixOf` line, " ACK" `isInfixOf` line]
            arrived = [line | line <- lines said, "Received packet" `isPrefixOf` line]
        -- The server counts what arrives marked, so the client goes on marking.
        ["path is ECN capable" `isInfixOf` line | line <- lines said, "ECN capable" `isInfixOf` line] `shouldBe` [True]
        drop (length telling - 1) telling `shouldSatisfy` any (isInfixOf "ect0=")
        -- The server has had the same confirmed: it marks what it sends at the end, too.
        length arrived `shouldSatisfy` (> 20)
        drop (length arrived - 10) arrived `shouldSatisfy` all (isInfixOf "ecn=0x2")

  describe "the server" $ do
    it "answers requests that have begun when it ends" $
      withAioquic $ do
        server <- newEmptyMVar
        lines' <- withServer folder $ \running -> putMVar server running >> play folder running "end"
        lines' `shouldBe` ["200 slow", "0x100"]

    it "counts connections, and tells of them and of answers" $ do
      told <- newIORef []
      let tell word = atomicModifyIORef' told (\words' -> (word : words', ()))
          change =
            -- On a busy machine curl may leave without a word.
            setIdleTimeout (seconds 5)
              . setOnOpen (\_ -> True <$ tell "open")
              . setOnClose (\_ -> tell "close")
              . setLogger
                ( \request status size ->
                    tell (show (httpVersion request) ++ " " ++ show (statusCode status) ++ " " ++ show size)
                )
      withServerOf folder (uncurry tlsSettings (pair folder)) change $ \server -> do
        (code, _) <- curl folder server ["/"]
        code `shouldBe` ExitSuccess
        eventually "three reports" ((== ["HTTP/3.0 200 Just 22", "close", "open"]) . sort <$> readIORef told)

    forM_
      [ (NoEarlyData, ["host", "body", "False"], "serves nothing before a handshake is over (0-RTT)"),
        ( SafeEarlyData,
          ["host early-data", "body", "True"],
          "serves what changes nothing before a handshake is over, if it may"
        )
      ]
      $ \(setting, expected, says) ->
        it says . withAioquic $
          withServerOf
            folder
            (uncurry tlsSettings (pair folder)) {tlsEarlyData = setting}
            id
            (\server -> play folder server "early")
            >>= (`shouldBe` expected)

    it "tells of each connection that a limit ends, and reports one a second" . withAioquic $ do
      told <- newIORef []
      reported <- newIORef []
      let note notes what = atomicModifyIORef' notes (\others -> (what : others, ()))
          change =
            setHTTP2MaximumFrames 20 0
              . setOnLimit (\limit _ -> note told limit)
              . setOnException (\_ failure -> note reported (displayException failure))
      begun <- getMonotonicTime
      withServerOf folder (uncurry tlsSettings (pair folder)) change $ \server -> do
        forM_ [1, 2 :: Int] $ \_ -> play folder server "useless" >>= (`shouldBe` ["0x107 too many frames without use"])
        eventually "two reports" ((== [FramesWithoutUse, FramesWithoutUse]) <$> readIORef told)
      reports <- filter ("ends: too many frames without use" `isInfixOf`) <$> readIORef reported
      ended <- getMonotonicTime
      length reports `shouldSatisfy` (\count -> count >= 1 && fromIntegral count <= ended - begun + 1)

    it "ends a connection after setMaximumRequests, and answers what is on its way" . withAioquic $
      withServerOf folder (uncurry tlsSettings (pair folder)) (setMaximumRequests (Just 2)) $ \server -> do
        lines' <- play folder server "few"
        map words lines' `shouldSatisfy` \seen -> seen `elem` [[[show count, "0x100"]] | count <- [2 .. 5 :: Int]]

    it "has an endpoint for each capability" $
      withServer folder $ \server -> do
        able <- canHttp3
        -- The system chooses the socket by the client's port.
        let ask seen left
              | length seen == 2 || left == 0 = return seen
              | otherwise =
                curl folder server ["/capability"] >>= \(_, output) -> ask (nub (output : seen)) (left - 1 :: Int)
        if able then ask [] 30 >>= (`shouldBe` ["0", "1"]) . sort else pendingWith "this curl has no HTTP/3"

    it "throws if its address is taken" $
      withServer folder $ \server ->
        withHTTP3
          (uncurry tlsSettings (pair folder))
          defaultSettings
          [serverListener server]
          application0
          (const (return ()))
          `shouldThrow` anyIOException

    describe "throws if the settings demand what it cannot do:" $ do
      let tls = uncurry tlsSettings (pair folder)
          refuses name settings refused =
            it name $
              forM_ settings $ \(tlsHere, here) ->
                runHTTP3 tlsHere (here (setPort 0 defaultSettings)) application0 `shouldThrow` (== refused)
      refuses
        "certificates of clients"
        [ (tls {tlsWantClientCert = True}, id),
          (tls {tlsClientCertificates = Required systemTrust}, id),
          (tls {tlsClientCertificates = Asked systemTrust}, id)
        ]
        ClientCertificatesUnsupported
      refuses
        "certificates that are looked up"
        [(tls {tlsCredentialsFor = Just (const (return mempty))}, id)]
        CredentialsUnsupported
      refuses "only names that it knows" [(tls {tlsUnknownNames = RefuseUnknownNames}, id)] UnknownNamesUnsupported
      refuses "a header of a proxy" [(tls, setProxyProtocolRequired)] ProxyHeaderUnsupported

      it "and takes no such settings later" $
        withServer folder $ \server ->
          void (replaceHTTP3 (serverHttp3 server) tls {tlsWantClientCert = True})
            `shouldThrow` (== ClientCertificatesUnsupported)

    it "hands over to the next server of its port, and nothing is lost" $
      withAioquic $ do
        (first, endFirst) <- beginShared folder 0
        let port = serverPort first
            replace end _ = do
              (_, endNext) <- beginShared folder port
              threadDelay 700000
              () <- end
              endNext <$ threadDelay 300000
        (end, load) <- underLoad folder port (foldM replace endFirst [1 .. 3 :: Int])
        end
        loadLost load `shouldBe` []
        loadAnswers load `shouldSatisfy` (> 200)
        -- The four clients that keep their connections at each end, and few others.
        loadRepeated load `shouldSatisfy` (< 20)

    it "hands on datagrams to a process beside it, except those that are too long" $
      -- At all addresses, so that a message also has this machine's.
      withServerOf folder (uncurry tlsSettings (pair folder)) (setReusePort True . setHost "0.0.0.0") $ \server -> do
        let at = SockAddrInet (fromIntegral (serverPort server)) . tupleToHostAddress
        withSocket AF_UNIX Stream $ \beside -> withSocket AF_INET Datagram $ \client -> do
          bind beside (abstractName ("millrace-http3/" ++ show (at (0, 0, 0, 0)) ++ "/5")) >> listen beside 1
          connect client (at (127, 0, 0, 1))
          -- The first bytes of a connection ID that the fifth process has made.
          let forFifth size = B.pack [0x40, 0x45, 0] <> B.replicate (size - 3) 0xff
          mapM_ (sendAll client . forFifth) [65507, 100]
          bracket (fst <$> accept beside) close $ \link -> do
            handed <- recv link 65536
            -- Its length comes first.
            (B.length handed, B.drop (B.length handed - 100) handed)
              `shouldBe` (2 + 256 * fromIntegral (B.head handed) + fromIntegral (B.index handed 1), forFifth 100)

    it "throws if there is no certificate" $
      runHTTP3 defaultTlsSettings (setPort 0 defaultSettings) application0 `shouldThrow` anyException

withSocket :: Family -> SocketType -> (Socket -> IO a) -> IO a
withSocket family kind = bracket (socket family kind defaultProtocol) close

application0 :: Application
application0 _ respond = respond (responseLBS ok200 [] "")

-- The lines of a head, and what follows.
splitHead :: String -> ([String], String)
splitHead text = go (lines (filter (/= '\r') text))
  where
    go ls = let (one, rest) = break null ls in (one, concat (drop 1 rest))

------------------------------------------------------------------------------------------------------------------------
-- The server

data Server = Server
  { serverPort :: Int,
    serverHttp3 :: HTTP3,
    serverListener :: Listener
  }

pair :: FilePath -> (FilePath, FilePath)
pair folder = (folder </> "first.pem", folder </> "first.key")

withServer :: FilePath -> (Server -> IO a) -> IO a
withServer folder = withServerOf folder (uncurry tlsSettings (pair folder)) id

-- | Runs an action beside a server. The server ends when the action has.
withServerOf :: FilePath -> TLSSettings -> (Settings -> Settings) -> (Server -> IO a) -> IO a
withServerOf folder tls change use = do
  stops <- newEmptyMVar
  begun <- newEmptyMVar
  ended <- newEmptyMVar
  shared <- newShared
  let settings =
        change
          . setPort 0
          . setHost "127.0.0.1"
          . setInstallShutdownHandler (putMVar stops)
          . setGracefulShutdownTimeout (Just 5)
          . setOnException (\_ _ -> return ())
          $ defaultSettings
      app = application folder shared (join (readMVar stops))
      serve = bracket (openListeners settings) (mapM_ closeListener) $ \listeners ->
        withTLS (offering settings tls) $ \protection -> withHTTP3 tls settings listeners app $ \http3 -> do
          listener <- maybe (fail "no listener") return (listToMaybe listeners)
          name <- getSocketName (listenerSocket listener)
          case name of
            SockAddrInet port _ -> putMVar begun (Server (fromIntegral port) http3 listener)
            _ -> fail "no port"
          runSettingsListeners
            (besideHTTP3 http3 (protectedBy protection settings))
            listeners
            (announcingHTTP3 http3 app)
  bracket
    (forkIO ((try serve :: IO (Either SomeException ())) >>= putMVar ended))
    (\_ -> takeMVar ended >>= either throwIO return)
    (\_ -> (takeMVar begun >>= use) `finally` join (readMVar stops))

-- | Begins a server whose port others may have, too, and returns what ends it.
beginShared :: FilePath -> Int -> IO (Server, IO ())
beginShared folder port = do
  begun <- newEmptyMVar
  over <- newEmptyMVar
  ended <- newEmptyMVar
  _ <-
    forkIO
      ( ( try
            ( withServerOf
                folder
                (uncurry tlsSettings (pair folder))
                (setReusePort True . setPort port)
                (\server -> putMVar begun server >> takeMVar over)
            ) ::
            IO (Either SomeException ())
        )
          >>= putMVar ended
      )
  server <- takeMVar begun
  return (server, putMVar over () >> takeMVar ended >>= either throwIO return)

data Shared = Shared
  { sharedSeen :: MVar String,
    sharedRelease :: MVar ()
  }

newShared :: IO Shared
newShared = Shared <$> newEmptyMVar <*> newEmptyMVar

application :: FilePath -> Shared -> IO () -> Application
application folder shared stop request respond = case pathInfo request of
  [] ->
    respond . responseLBS ok200 [("X-Path", rawPathInfo request)] . L.fromStrict $
      C8.unwords
        [ C8.pack (show (httpVersion request)),
          requestMethod request,
          rawPathInfo request,
          rawQueryString request,
          if isSecure request
            then "secure"
            else "open"
        ]
  ["names"] ->
    respond . responseLBS ok200 [] . L.fromStrict . C8.unwords . map (CI.foldedCase . fst) $ requestHeaders request
  ["port"] -> respond . responseLBS ok200 [] . L.fromStrict $ case remoteHost request of
    SockAddrInet port _ -> C8.pack (show port)
    _ -> ""
  ["capability"] -> capability >>= respond . responseLBS ok200 [] . L.fromStrict . C8.pack . show
  ["slow"] -> threadDelay 500000 >> respond (responseLBS ok200 [] "slow")
  ["echo"] -> respond . responseStream ok200 [] $ \write _ ->
    let go =
          getRequestBodyChunk request >>= \bytes -> unless (B.null bytes) (write (Builder.byteString bytes) >> go)
     in go
  ["file"] -> respond (responseFile ok200 [] (folder </> "file") Nothing)
  ["large"] ->
    respond . responseStream ok200 [] $ \write _ -> mapM_ (const (write (Builder.byteString piece))) [1 .. 20 :: Int]
  ["stream"] -> respond . responseStream ok200 [] $ \write flush -> do
    write "first"
    flush
    takeMVar (sharedRelease shared)
    write " second"
  ["release"] -> putMVar (sharedRelease shared) () >> respond (responseLBS ok200 [] "")
  ["read"] -> do
    outcome <- try (forever (getRequestBodyChunk request >>= \bytes -> when (B.null bytes) (fail "the end")))
    void (tryPutMVar (sharedSeen shared) (either named (const "") (outcome :: Either SomeException ())))
    respond (responseLBS ok200 [] "")
  ["seen"] -> takeMVar (sharedSeen shared) >>= respond . responseLBS ok200 [] . L.fromStrict . C8.pack
  ["fails"] -> fail "as it shall"
  ["fails-late"] -> respond . responseStream ok200 [] $ \write flush -> write "begun" >> flush >> fail "as it shall"
  ["trailers"] -> do
    body <- strictRequestBody request
    fields <- getRequestTrailers request
    let size = C8.pack (show (L.length body))
        shown = C8.intercalate "," [C8.concat ["x-sum=", value] | ("X-Sum", value) <- fields]
    setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = \_ -> return (Trailers [("x-check", size)])})
    respond (responseLBS ok200 [] (L.fromStrict (C8.unwords [size, shown])))
  ["shutdown"] -> stop >> respond (responseLBS ok200 [] "")
  _ -> respond (responseLBS notFound404 [] "")
  where
    piece = B.concat (replicate 400 (B.pack [0 .. 255]))
    capability = fst <$> (threadCapability =<< myThreadId)
    named failure = takeWhile (`notElem` (" :(" :: String)) (show failure)

------------------------------------------------------------------------------------------------------------------------
-- Clients

-- | curl, for HTTP/3 alone. The last argument is the path. The code and what it has printed.
curl :: FilePath -> Server -> [String] -> IO (ExitCode, String)
curl = curlAt "127.0.0.1"

-- | 'curl' at another of the server's addresses.
curlAt :: String -> FilePath -> Server -> [String] -> IO (ExitCode, String)
curlAt address folder server arguments = do
  able <- canHttp3
  if able
    then curlWithAt address folder server (["--http3-only", "--cacert", folder </> "first.pem"] ++ arguments)
    else (ExitSuccess, "") <$ pendingWith "this curl has no HTTP/3"

canHttp3 :: IO Bool
canHttp3 = (\(_, output, _) -> "HTTP3" `isInfixOf` output) <$> readProcessWithExitCode "curl" ["-V"] ""

curlWith :: FilePath -> Server -> [String] -> IO (ExitCode, String)
curlWith = curlWithAt "127.0.0.1"

curlWithAt :: String -> FilePath -> Server -> [String] -> IO (ExitCode, String)
curlWithAt address folder server arguments = do
  (code, output, errors) <-
    readProcessWithExitCode
      "curl"
      ( ["-s", "-S", "-m", "20", "--noproxy", "*", "--cacert", folder </> "first.pem"]
          ++ init arguments
          ++ [ "https://localhost:"
                 ++ show (serverPort server)
                 ++ last arguments,
               "--resolve",
               "localhost:"
                 ++ show (serverPort server)
                 ++ ":"
                 ++ address
             ]
      )
      ""
  unless (code == ExitSuccess) (hPutStr stderr errors)
  return (code, output)

withAioquic :: IO () -> IO ()
withAioquic test = do
  python <- findExecutable "python3"
  code <-
    maybe
      (return (ExitFailure 1))
      (\path -> (\(code, _, _) -> code) <$> readProcessWithExitCode path ["-c", "import aioquic"] "")
      python
  if code == ExitSuccess then test else pendingWith "aioquic is missing"

play, playAttack :: FilePath -> Server -> String -> IO [String]
play = playFrom "test/client.py"
playAttack = playFrom "test/attacks.py"

playFrom :: FilePath -> FilePath -> Server -> String -> IO [String]
playFrom script folder server name = do
  (code, output, errors) <-
    readProcessWithExitCode "python3" [script, show (serverPort server), folder </> "first.pem", name] ""
  unless (code == ExitSuccess) (expectationFailure (output ++ errors))
  return (lines output)

-- | What the clients of @load.py@ have seen.
data Load = Load
  { loadAnswers :: Int,
    loadRepeated :: Int,
    loadLost :: [String]
  }

-- | Runs an action while clients ask without a pause.
underLoad :: FilePath -> Int -> IO a -> IO (a, Load)
underLoad folder port action =
  withCreateProcess
    (proc "python3" ["test/load.py", show port, folder </> "first.pem"]) {std_in = CreatePipe, std_out = CreatePipe}
    $ \input output _ process ->
      case (input, output) of
        (Just toLoad, Just fromLoad) -> do
          threadDelay 1000000
          result <- action
          hClose toLoad
          text <- C8.unpack <$> B.hGetContents fromLoad
          waitForProcess process `shouldReturn` ExitSuccess
          case lines text of
            answers : repeated : lost -> return (result, Load (read answers) (read repeated) lost)
            _ -> fail text
        _ -> fail "no pipes"

-- | An example of a client that gets a file of 20 MB.
ngtcp2 :: FilePath -> [String] -> String -> Spec
ngtcp2 folder options says = it says . withNgtcp2 $ \client -> withServer folder $ \server -> do
  let bytes = B.pack (take 20000000 (cycle [0 .. 250]))
      port = show (serverPort server)
      received = folder </> "received-by-ngtcp2"
  B.writeFile (folder </> "file") bytes
  createDirectoryIfMissing True received
  (code, _, errors) <-
    readProcessWithExitCode
      client
      ( ["-q", "--exit-on-all-streams-close", "--download=" ++ received]
          ++ options
          ++ ["127.0.0.1", port, "https://localhost:" ++ port ++ "/file"]
      )
      ""
  unless (code == ExitSuccess) (expectationFailure errors)
  B.readFile (received </> "file") >>= (`shouldBe` True) . (== bytes)

withNgtcp2 :: (FilePath -> IO ()) -> IO ()
withNgtcp2 test = findExecutable "gtlsclient" >>= maybe (pendingWith "gtlsclient is missing") test

scene :: FilePath -> String -> [String] -> String -> Spec
scene folder name expected says =
  it says . withAioquic . withServer folder $ \server -> play folder server name >>= (`shouldBe` expected)

attack :: FilePath -> String -> [String] -> String -> Spec
attack = attackWith id

attackWith :: (Settings -> Settings) -> FilePath -> String -> [String] -> String -> Spec
attackWith change folder name expected says =
  it says . withAioquic . withServerOf folder (uncurry tlsSettings (pair folder)) change $ \server ->
    playAttack folder server name >>= (`shouldBe` expected)
