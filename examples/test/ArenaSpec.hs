{-# LANGUAGE OverloadedStrings #-}

-- | The arena's application, asked by curl on all of its ports, with a PostgreSQL server of the test's own. bench/arena
-- asks more.
module ArenaSpec (arenaSpec) where

import Control.Exception (bracket)
import Control.Monad (forM_, replicateM, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.List (isInfixOf)
import Millrace.Postgresql (script)
import Network.Socket (PortNumber, close)
import Server (serverAddress, withConnectionTo, withServer)
import Support
import System.Directory (createDirectory)
import System.Environment (getEnvironment)
import System.Process
import Test.Hspec
import TestSupport.Folder (freePort)
import TestSupport.Time (within)

-- | The ports, for HTTP/1.1, TLS, HTTP/2 without TLS, and HTTP/2 with TLS.
data Ports = Ports {plain, tls, clear, secure :: PortNumber}

arenaSpec :: ((FilePath -> IO ()) -> IO ()) -> ((FilePath -> FilePath -> IO ()) -> IO ()) -> Spec
arenaSpec inFolder withCertificate = describe "arena" . aroundAll (withArena inFolder withCertificate) $ do
  it "adds numbers of the address and of the body" $ \ports -> do
    curl ["-i", at plain ports "/baseline11?a=13&b=42"] >>= (`shouldSatisfy` isInfixOf "text/plain")
    curl [at plain ports "/baseline11?a=13&b=-42"] `shouldReturn` "-29"
    curl ["-d", "20", at plain ports "/baseline11?a=13&b=42"] `shouldReturn` "75"
    curl ["-d", "20", "-H", "Transfer-Encoding: chunked", at plain ports "/baseline11?a=13&b=42"] `shouldReturn` "75"
    curl [at plain ports "/pipeline"] `shouldReturn` "ok"
    curl ["-d", replicate 100000 'x', at plain ports "/upload"] `shouldReturn` "100000"
  it "speaks HTTP/2 only where it must, with and without TLS" $ \ports -> do
    curl ["--http2-prior-knowledge", "-w", " %{http_version}", at clear ports "/baseline2?a=1&b=2"] `shouldReturn` "3 2"
    curl ["--http1.1", "-o", "/dev/null", "-w", "%{http_code}", at clear ports "/baseline2?a=1&b=2"]
      >>= (`shouldNotBe` "200")
    curl ["--http2", "-k", "-w", " %{http_version}", over secure ports "/baseline2?a=1&b=2"] `shouldReturn` "3 2"
    curl ["--http2", "-k", "-w", " %{http_version}", over tls ports "/baseline2?a=1&b=2"] `shouldReturn` "3 1.1"
  it "makes JSON for each request, compressed if the client asks for it" $ \ports -> do
    let json =
          "{\"items\":[{\"id\":1,\"name\":\"A \\\"thing\\\"\",\"category\":\"tools\",\"price\":3,\
          \\"quantity\":5,\"active\":true,\"tags\":[\"new\"],\"rating\":{\"score\":4,\"count\":7},\
          \\"total\":105}],\"count\":1}"
    curl [at plain ports "/json/1?m=7"] `shouldReturn` json
    curl ["--compressed", "-i", at plain ports "/json/60?m=2"] >>= (`shouldSatisfy` isInfixOf "Content-Encoding: gzip")
    curl ["--compressed", at plain ports "/json/60?m=2"] >>= (`shouldSatisfy` isInfixOf "\"count\":50}")
    curl ["-o", "/dev/null", "-w", "%{http_code}", at plain ports "/json/x"] `shouldReturn` "404"
  it "serves files, and those that were compressed before" $ \ports -> do
    curl [at plain ports "/static/a.css"] `shouldReturn` "plain"
    answer <- curl ["-i", "-H", "Accept-Encoding: br;q=1, gzip;q=0.8", at plain ports "/static/a.css"]
    answer `shouldSatisfy` isInfixOf "Content-Encoding: br"
    answer `shouldSatisfy` isInfixOf "Content-Type: text/css"
    curl ["-o", "/dev/null", "-w", "%{http_code}", at plain ports "/static/../dataset.json", "--path-as-is"]
      `shouldReturn` "404"
  it "finds, keeps, makes and changes rows" $ \ports -> do
    curl [at plain ports "/async-db?min=30&max=40&limit=2"]
      `shouldReturn` "{\"items\":[{\"id\":30,\"name\":\"no. 30\",\"category\":\"electronics\",\"price\":30,\
                     \\"quantity\":30,\"active\":true,\"tags\":[\"a\"],\
                     \\"rating\":{\"score\":1,\"count\":2}}],\"count\":1}"
    let row = curl ["-i", at plain ports "/crud/items/1"]
        putting =
          curl ["-X", "PUT", "-d", "{\"name\":\"new\",\"price\":1,\"quantity\":2}", at plain ports "/crud/items/1"]
    row >>= (`shouldSatisfy` isInfixOf "X-Cache: MISS")
    putting >>= (`shouldSatisfy` isInfixOf "\"name\":\"new\"")
    row >>= (`shouldSatisfy` \answer -> isInfixOf "X-Cache: MISS" answer && isInfixOf "\"price\":1," answer)
    curl
      [ "-w",
        "%{http_code}",
        "-d",
        "{\"id\":77,\"name\":\"x\",\"category\":\"y\",\"price\":1,\"quantity\":2}",
        at
          plain
          ports
          "/crud/items"
      ]
      >>= (`shouldSatisfy` isInfixOf "}201")
    curl [at plain ports "/crud/items?category=y"]
      >>= (`shouldSatisfy` isInfixOf "\"total\":1,\"page\":1,\"limit\":10}")
    forM_ ["/crud/items/999", "/crud/items/x"] $ \path ->
      curl ["-o", "/dev/null", "-w", "%{http_code}", at plain ports path] `shouldReturn` "404"
  it "sends messages of WebSocket back" $ \ports -> bracket (connectWhenReady (plain ports)) close $ \connection -> do
    send
      connection
      "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \
      \dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    receiveUntil "\r\n\r\n" connection >>= (`shouldSatisfy` B.isInfixOf "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    -- Masked with zeros.
    send connection (B.pack [0x81, 0x85, 0, 0, 0, 0] <> "hello")
    receiveUntil "hello" connection `shouldReturn` (B.pack [0x81, 5] <> "hello")
  it "answers gRPC with one message and with many" $ \ports -> do
    let call method =
          curlBytes
            [ "--http2-prior-knowledge",
              "-H",
              "Content-Type: application/grpc",
              "--data-binary",
              "@-",
              at
                plain
                ports
                ("/benchmark.BenchmarkService/" <> method)
            ]
    call "GetSum" (B.pack [0, 0, 0, 0, 4, 8, 1, 16, 2]) `shouldReturn` B.pack [0, 0, 0, 0, 2, 8, 3]
    call "StreamSum" (B.pack [0, 0, 0, 0, 6, 8, 1, 16, 2, 24, 3])
      `shouldReturn` B.concat [B.pack [0, 0, 0, 0, 2, 8, sum'] | sum' <- [3, 4, 5]]
  where
    at port ports path = "http://127.0.0.1:" <> show (port ports) <> path
    over port ports path = "https://127.0.0.1:" <> show (port ports) <> path

withArena :: ((FilePath -> IO ()) -> IO ()) -> ((FilePath -> FilePath -> IO ()) -> IO ()) -> (Ports -> IO ()) -> IO ()
withArena inFolder withCertificate action =
  withServer $ \server -> inFolder $ \folder -> withCertificate $ \certificate key -> do
    writeFile (folder <> "/dataset.json") ("[" <> concatMap (\_ -> thing <> ",") [2 .. 50 :: Int] <> thing <> "]")
    createDirectory (folder <> "/static")
    forM_ [("a.css", "plain"), ("a.css.br", "brotli")] $ \(name, content) ->
      writeFile (folder <> "/static/" <> name) content
    withConnectionTo server $ \connection ->
      script connection $
        "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price INTEGER NOT \
        \NULL, quantity INTEGER NOT NULL, "
          <> "active BOOLEAN NOT NULL, tags JSONB NOT NULL, rating_score INTEGER NOT NULL, rating_count \
             \INTEGER NOT NULL);"
          <> "INSERT INTO items SELECT n, 'no. ' || n, 'electronics', n, n, true, '[\"a\"]', 1, 2 FROM \
             \generate_series(1, 30) n"
    inherited <- getEnvironment
    ports <- replicateM 4 freePort
    let variables =
          zip ["ARENA_HTTP_PORT", "ARENA_TLS_PORT", "ARENA_H2C_PORT", "ARENA_H2_PORT"] (map show ports)
            <> [ ("ARENA_HOST", "127.0.0.1"),
                 ("ARENA_DATA", folder),
                 ("ARENA_CERTIFICATE", certificate),
                 ("ARENA_KEY", key),
                 ("DATABASE_URL", C8.unpack (serverAddress server)),
                 ("DATABASE_MAX_CONN", "8")
               ]
    bracket
      (createProcess (proc "arena" []) {env = Just (variables <> inherited)})
      (\(_, _, _, process) -> stop process)
      $ \_ ->
        do
          within 20 "the start" (forM_ ports (connectWhenReady >=> close))
          case ports of
            [one, two, three, four] -> action (Ports one two three four)
            _ -> fail "four ports are needed"
  where
    thing =
      "{\"id\":1,\"name\":\"A \\\"thing\\\"\",\"category\":\"tools\",\"price\":3,\"quantity\":5,\
      \\"active\":true,\"tags\":[\"new\"],\"rating\":{\"score\":4,\"count\":7}}"

curl :: [String] -> IO String
curl arguments = within 20 "curl" ((\(_, output, _) -> output) <$> readProcessWithExitCode "curl" ("-s" : arguments) "")

-- Output that is no text, by way of a description of its bytes.
curlBytes :: [String] -> ByteString -> IO ByteString
curlBytes arguments input = within 20 "curl" $ do
  let quoted = concatMap (("\\x" <>) . hex) (B.unpack input)
  output <-
    readProcess "bash" (["-c", "printf '" <> quoted <> "' | curl -s \"$@\" | od -An -v -tu1", "-"] <> arguments) ""
  return (B.pack (map read (words output)))
  where
    hex byte = let (high, low) = byte `divMod` 16 in [digit high, digit low]
    digit n = "0123456789abcdef" !! fromIntegral n

receiveUntil :: ByteString -> Client -> IO ByteString
receiveUntil end connection = within 20 "an answer" (go "")
  where
    go soFar
      | end `B.isSuffixOf` soFar = return soFar
      | otherwise = receive connection >>= go . (soFar <>)
