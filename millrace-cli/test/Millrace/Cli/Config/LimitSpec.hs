{-# LANGUAGE OverloadedStrings #-}

-- | The program at the limits of descriptors and memory.
module Millrace.Cli.Config.LimitSpec (spec) where

import Certificates
import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, isPrefixOf, isSuffixOf)
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import Numeric (readHex)
import Program
import Site (write)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (hGetContents)
import System.Posix.Signals (sigTERM)
import System.Process (getPid, readProcess, readProcessWithExitCode)
import Test.Hspec

spec :: Spec
spec = around withCertificates $ do
  forM_ ["http1", "http2", "https1", "https2"] $ \kind ->
    it ("gives up the oldest idle connections for new ones, and serves files and logs meanwhile: " <> kind) $ \folder ->
      do
        configured
          folder
          [if "https" `isPrefixOf` kind then "listen: {https: 127.0.0.1:0}" else "listen: {http: 127.0.0.1:0}"]
          [ "certificates: {certificate: "
              <> folder </> "one.pem, key: "
              <> folder </> "one.key}"
            | "https" `isPrefixOf` kind
          ]
        withDescriptors 100 folder $ \server -> do
          told <-
            within
              60
              "the crowd"
              (readProcess "python3" ["test/crowd.py", kind, show (serverPort server), show crowd] "")
          let (large, ended) = read ('(' : init (drop 1 (filter (/= '\n') told)) <> ")") :: (Int, [Int])
          large `shouldBe` largeBytes
          -- A number for each that there was no descriptor for: they were the first ones.
          ended `shouldBe` [0 .. length ended - 1]
          length ended `shouldSatisfy` (\count -> count >= crowd - 84 && count < crowd)
          signalServer sigTERM server
          waitForExit 30 server `shouldReturn` ExitSuccess
          hGetContents (serverErrors server) >>= (`shouldSatisfy` all ("stopping" `isPrefixOf`) . lines)
        logged <- lines <$> readFile (folder </> "access.log")
        length logged `shouldBe` crowd + 1
  it "makes new connections wait for busy ones, says so once, and serves them when there is room" $ \folder -> do
    configured folder ["listen: {http: 127.0.0.1:0}"] []
    withDescriptors 64 folder $ \server -> do
      let port = fromIntegral (serverPort server)
      withClients 1 port "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /" $ \early -> do
        withClients 70 port "GET / HT" $ \_ -> do
          nextErrorLine server `shouldReturn` "millrace: clients wait: too many open files (ulimit -n)"
          forM_ early $ \client -> do
            Network.sendAll client "large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            answer <- receiveToEnd client
            Char8.length answer `shouldSatisfy` (> largeBytes)
        curl [serverUrl server] `shouldReturn` "crowded"
      nextErrorLine server `shouldReturn` "millrace: clients no longer wait for open files"
      endsWithOneMessage server
  it "says which limit of HTTP/2 ends a connection, and counts that" $ \_ ->
    withServer
      [ "serve",
        ".",
        "--port",
        "0",
        "--status",
        "0",
        "--limit",
        "useless-frames=10",
        "--limit",
        "useless-frames-per-second=0"
      ]
      $ \server ->
        do
          status <- takeWhile (/= ',') . last . take 3 . words <$> nextLine server
          let pings = Char8.concat (replicate 15 "\0\0\8\6\0\0\0\0\0\&12345678")
          withClients
            1
            (fromIntegral (serverPort server))
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" <> pings)
            $ \_ ->
              do
                told <- nextErrorLine server
                told `shouldSatisfy` ("millrace: the connection of 127.0.0.1:" `isPrefixOf`)
                told `shouldSatisfy` ("useless-frames)" `isSuffixOf`)
                metrics <- curl [status <> "metrics"]
                lines metrics `shouldContain` ["millrace_connections_ended_by_limit_total{limit=\"useless-frames\"} 1"]
  it "ends a client that takes its answer more slowly than it may" $ \folder -> do
    configuredWith "bytes-per-second: 10000000, rate-seconds: 1" folder ["listen: {http: 127.0.0.1:0}"] []
    withDescriptors 1000 folder $ \server -> do
      write folder "site/larger" (Char8.replicate 60000000 'x')
      withClients 1 (fromIntegral (serverPort server)) "GET /larger HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" $
        \clients -> do
          -- On a busy machine an answer may begin late, and then there is time for all of it.
          mapM_ (`Network.recv` 1) clients
          -- It takes nothing for so long that it cannot reach the rate any more. Usually it would have half a minute.
          threadDelay 5000000
          received <- mapM receiveToEnd clients
          map Char8.length received `shouldSatisfy` all (< 60000000)
      endsWithOneMessage server
  it "says once that there are as many connections as it may have, and once that there is room again" $ \folder -> do
    configuredWith "connections: 5" folder ["listen: {http: 127.0.0.1:0}"] []
    withDescriptors 1000 folder $ \server -> do
      withClients 5 (fromIntegral (serverPort server)) "GET / HT" $ \busy -> do
        -- Until the server has read what one of them sent, it is idle, and would give way.
        threadDelay 1000000
        withClients 3 (fromIntegral (serverPort server)) "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" $
          \waiting ->
            do
              nextErrorLine server
                `shouldReturn` "millrace: clients wait: 5 connections are open, as many as 'connections' allows"
              -- Those that it has are served, and make room.
              forM_ busy $ \client -> do
                Network.sendAll client "TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                receiveToEnd client >>= (`shouldSatisfy` Char8.isSuffixOf "crowded")
              mapM receiveToEnd waiting >>= (`shouldSatisfy` all (Char8.isSuffixOf "crowded"))
      nextErrorLine server `shouldReturn` "millrace: clients no longer wait for connections"
      endsWithOneMessage server
  describe "lives within the memory that the guide's sum says, whatever its clients make it keep:" $ do
    it "over HTTP/1 and HTTP/2" $ \folder ->
      livesWithin folder (Attacks "tcp" 8 0) ["listen: {http: 127.0.0.1:0}"] (files folder)
    it "with TLS" $ \folder -> livesWithin folder (Attacks "tls" 8 tlsKilobytes) (secure folder "") (files folder)
    it "as a proxy" $ \folder -> do
      writeSite folder
      withServer ["serve", folder </> "site", "--port", "0"] $ \target ->
        livesWithin
          folder
          (Attacks "tcp" 8 proxyKilobytes)
          ["listen: {http: 127.0.0.1:0}"]
          ("proxy: 'http://127.0.0.1:" <> show (serverPort target) <> "'")
    it "over HTTP/3" $ \folder -> do
      isBuilt <- hasHttp3
      (aioquic, _, _) <- readProcessWithExitCode "python3" ["-c", "import aioquic"] ""
      if isBuilt && aioquic == ExitSuccess
        then
          livesWithin
            folder
            (Attacks "http3" 4 (tlsKilobytes + http3Kilobytes))
            (secure folder ", http3: 'on'")
            (files folder)
        else pendingWith "it needs a program with HTTP/3, and aioquic"
  it "has no more of malloc's arenas than it has processors" $ \_ -> do
    path <- millracePath
    let onFirstProcessor = "first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//'); exec taskset -c $first \"$@\""
    withCommand "bash" ["-c", onFirstProcessor, "bash", path, "pong", "--port", "0", "--cores", "4"] $ \server -> do
      process <- maybe (fail "it has ended") pure =<< getPid (serverProcess server)
      curl [serverUrl server] `shouldReturn` "Pong!"
      -- All but the first arena begin at a multiple of 64 MB. So does GHC's heap, and perhaps another mapping by
      -- chance.
      maps <- lines <$> readFile ("/proc/" <> show process <> "/maps")
      let anonymous = filter (" rw-p 00000000 00:00 0" `isInfixOf`) maps
          begins = [begin :: Integer | line <- anonymous, (begin, _) <- readHex line]
      filter ((== 0) . (`mod` 67108864)) begins `shouldSatisfy` (<= 2) . length
  it "shares its descriptors among the addresses that it listens on" $ \folder -> do
    configured folder ["listen: [{http: 127.0.0.1:0}, {http: 127.0.0.1:0}]"] []
    withDescriptors 100 folder $ \server -> do
      let second = read (reverse (takeWhile (/= ':') (reverse (serverBackendLine server))))
      withClients 90 second "" $ \_ ->
        within 60 "the crowd" (readProcess "python3" ["test/crowd.py", "http1", show (serverPort server), "60"] "")
          >>= (`shouldSatisfy` isPrefixOf ("[" <> show largeBytes <> ","))
  where
    livesWithin folder attacks listening site = do
      configuredFor site ("connections: " <> show connections) folder listening []
      path <- millracePath
      withCommand
        "bash"
        [ "-c",
          "ulimit -d "
            <> show (kilobytesFor connections (attacksKilobytes attacks))
            <> "; exec \"$@\"",
          "bash",
          path,
          "run",
          folder </> "m.yaml"
        ]
        $ \server -> do
          process <- maybe (fail "it has ended") pure =<< getPid (serverProcess server)
          told <-
            within
              240
              "the attacks"
              ( readProcess
                  "python3"
                  [ "test/exhaust.py",
                    "--over",
                    attacksOver attacks,
                    show process,
                    show
                      (serverPort server),
                    show connections
                  ]
                  ""
              )
          -- Each kind of attack, what an honest client gets meanwhile, and what it gets afterwards.
          let answers = [(kind, meanwhile, afterwards) | [kind, meanwhile, afterwards, _, _] <- map words (lines told)]
          length answers `shouldBe` attacksKinds attacks
          filter
            ( \(_, meanwhile, afterwards) ->
                meanwhile `notElem` ["200", "502", "503", "504", "none"] || afterwards /= "200"
            )
            answers
            `shouldBe` []
          signalServer sigTERM server
          waitForExit 30 server `shouldReturn` ExitSuccess
    secure folder more =
      [ "listen: {https: 127.0.0.1:0"
          <> more
          <> "}",
        "certificates: {certificate: "
          <> folder </> "one.pem, key: "
          <> folder </> "one.key}"
      ]
    connections = 30 :: Int
    -- The sum of docs/guide/deploying.md, for two cores and the usual limits: head-bytes is 51200, streams is 128,
    -- largest-window-bytes is
    -- 25000000. HTTP/3 has as many connections again.
    kilobytesFor count more = 40000 + 2 * 40000 + count * (eachKilobytes + more)
    eachKilobytes = 32 * 51 + 128 * 16 + 2000
    tlsKilobytes = 60
    proxyKilobytes = 128 * 20 + 25000
    http3Kilobytes = eachKilobytes + 12 * 1024 + 128 * 20
    crowd = 100 :: Int
    largeBytes = 3000000 :: Int
    files folder = "files: " <> folder </> "site"
    configured = configuredWith "reserved-descriptors: 16"
    configuredWith limits folder = configuredFor (files folder) limits folder
    configuredFor site limits folder listening more = do
      writeSite folder
      writeFile (folder </> "m.yaml") . unlines $
        listening
          <> more
          <> [ "process: {cores: 2, access-log: "
                 <> folder </> "access.log}",
               "limits: {"
                 <> limits
                 <> "}",
               "sites: {"
                 <> site
                 <> "}"
             ]
    writeSite folder = do
      write folder "site/index.html" "crowded"
      write folder "site/large" (Char8.replicate largeBytes 'x')
    endsWithOneMessage server = do
      signalServer sigTERM server
      waitForExit 30 server `shouldReturn` ExitSuccess
      hGetContents (serverErrors server) >>= (`shouldSatisfy` (== 1) . length . lines)
    withDescriptors :: Int -> FilePath -> (Server -> IO a) -> IO a
    withDescriptors count folder use = do
      path <- millracePath
      withCommand
        "bash"
        ["-c", "ulimit -n " <> show count <> "; exec \"$@\"", "bash", path, "run", folder </> "m.yaml"]
        use

-- What 'test/exhaust.py' does: over what, of how many kinds, and how many kilobytes more a connection may need than the
-- first row of the sum says.
data Attacks = Attacks
  { attacksOver :: String,
    attacksKinds :: Int,
    attacksKilobytes :: Int
  }

-- Runs an action while this many clients have sent this text.
withClients :: Int -> Network.PortNumber -> Char8.ByteString -> ([Network.Socket] -> IO a) -> IO a
withClients count port text use = go count []
  where
    go 0 clients = use clients
    go left clients = bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \client -> do
      Network.connect client (Network.SockAddrInet port (Network.tupleToHostAddress (127, 0, 0, 1)))
      Network.sendAll client text
      go (left - 1) (client : clients)

receiveToEnd :: Network.Socket -> IO Char8.ByteString
receiveToEnd client = Char8.concat <$> go
  where
    go = do
      bytes <- Network.recv client 65536
      if Char8.null bytes then pure [] else (bytes :) <$> go
