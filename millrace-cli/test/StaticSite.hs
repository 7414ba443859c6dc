{-# LANGUAGE OverloadedStrings #-}

-- | Directories to serve, and static files called as an application.
module StaticSite
  ( Answer (..),
    withSite,
    withCompressible,
    script,
    toSecret,
    racing,
    withGone,
    writeCoded,
    tagOf,
    header,
    get,
    withQuery,
    ask,
    requestFor,
    call,
  )
where

import Control.Concurrent (forkOnWithUnmask, killThread, threadDelay, yield)
import Control.Exception (bracket, try)
import Control.Monad (forever, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef (modifyIORef', newIORef, readIORef, writeIORef)
import Data.List (isInfixOf)
import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Foreign.C (Errno (..), eSRCH)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Files.StaticFiles
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Internal (ResponseReceived (..))
import Site
import System.Directory (createDirectory, removeFile, renamePath)
import System.FilePath ((</>))
import System.IO (hGetLine)
import System.Posix.Files (createLink, createSymbolicLink)
import System.Process (CreateProcess (..), StdStream (..), cleanupProcess, createProcess, proc)
import System.Timeout (timeout)
import Test.Hspec

-- | What came back, and where from.
data Answer = Answer
  { answerStatus :: Int,
    answerHeaders :: ResponseHeaders,
    answerBody :: ByteString
  }
  deriving (Eq, Show)

-- | A directory @root@ to serve, and beside it things that must not be reached.
withSite :: (FilePath -> IO a) -> IO a
withSite use = withDirectory $ \site -> do
  writeOld site "root/hello.txt" "Hello, world\n"
  mapM_
    (uncurry (write site))
    [ ("root/index.html", "<p>index"),
      ("root/sub/index.htm", "<p>old index"),
      ("root/no-index/x", "x"),
      ("root/a:b/x", "x"),
      ("root/a b\233", ""),
      ("root/%2e%2e", "a name with percent signs"),
      ("root/empty", ""),
      ("root/.hidden", "secret"),
      ("root/.git/config", "secret"),
      ("root/.well-known/security.txt", "Contact: us"),
      ("secret/file", "secret"),
      ("secret/index.html", "secret"),
      ("root-sibling/file", "secret")
    ]
  removeFile (site </> "root/a b\233")
  write site "root/a b\233" "space"
  mapM_
    (\(target, link) -> createSymbolicLink target (site </> "root" </> link))
    [ ("hello.txt", "inside"),
      (site </> "root/hello.txt", "inside-absolute"),
      ("../root/hello.txt", "up-and-back"),
      ("inside", "chain"),
      ("../secret/file", "outside"),
      (site </> "secret/file", "outside-absolute"),
      ("../secret", "secret"),
      ("../root-sibling", "sibling"),
      ("nothing", "dangling"),
      ("loop", "loop")
    ]
  createDirectory (site </> "root/outside-index")
  createSymbolicLink "../../secret/index.html" (site </> "root/outside-index/index.html")
  createLink (site </> "root/hello.txt") (site </> "root/hard-link")
  use site

-- | A directory as 'withSite' makes it, with files that are worth compressing or not, and that are old enough for it.
withCompressible :: (FilePath -> IO a) -> IO a
withCompressible use = withSite $ \site -> do
  mapM_
    (\(name, content) -> writeOld site ("root/" <> name) content)
    [ ("script.js", script),
      ("middle.js", ByteString.take 50000 script),
      ("small.js", ByteString.take 1023 script),
      ("least.js", ByteString.take 1024 script),
      ("most.js", Char8.replicate 8388608 'x'),
      ("large.js", Char8.replicate 8388609 'x'),
      ("picture.png", script),
      ("font.woff2", script),
      ("logo.svgz", script),
      ("script.js.tgz", script),
      ( "random.txt",
        fst
          ( ByteString.unfoldrN
              5000
              (\state -> Just (fromIntegral (state `div` 16777216), state * 1664525 + 1013904223))
              (1 :: Word32)
          )
      ),
      ("stored.js", script),
      ("stored.js.gz", "as gzip"),
      ("index.html", "<p>" <> Char8.replicate 2000 'i')
    ]
  -- Two seconds, and one because the clock has whole seconds.
  threadDelay 3100000
  use site

script :: ByteString
script =
  Char8.unlines
    ["const line" <> Char8.pack (show number) <> " = \"a line of a script\";" | number <- [1 .. 5000 :: Int]]

toSecret :: FilePath -> FilePath -> IO ()
toSecret site = createSymbolicLink (site </> "secret/file")

-- | Exchanges a file and something that must not be served as fast as it can, while the file is asked for. Needs a
-- second capability.
racing :: FilePath -> (FilePath -> IO ()) -> (Root -> Site) -> Int -> Expectation
racing site make serving micros = do
  write site "root/swap" "open"
  write site "spare" "open"
  answers <- newIORef (0 :: Int, 0 :: Int)
  leaked <- newIORef False
  root <- openRoot StayInside (site </> "root")
  let exchange = forever $ do
        make (site </> "other")
        renamePath (site </> "other") (site </> "root/swap")
        createLink (site </> "spare") (site </> "plain")
        renamePath (site </> "plain") (site </> "root/swap")
        yield -- the loop does not allocate, so nothing else would make it stop
      ask' = forever $ do
        answer <- call (staticFiles (serving root)) (requestFor methodGet "/swap" [])
        unless (answerBody answer `elem` ["open", "404 Not Found\n"]) (writeIORef leaked True)
        modifyIORef'
          answers
          (\(found, missing) -> if answerStatus answer == 200 then (found + 1, missing) else (found, missing + 1))
  bracket (forkOnWithUnmask 1 (\unmask -> unmask exchange)) killThread $ \_ -> void (timeout micros ask')
  readIORef leaked `shouldReturn` False
  -- Both must have been seen, or nothing was raced.
  readIORef answers >>= (`shouldSatisfy` \(found, missing) -> found > 10 && missing > 10)

-- | A file that can be found, and not be opened: the memory of a process that has ended. Nothing is done where a kernel
-- lets it be opened.
withGone :: (FilePath -> IO ()) -> IO ()
withGone use = bracket (createProcess parent) cleanupProcess $ \(_, output, _, _) -> do
  child <- maybe (fail "no pipe") hGetLine output
  let path = "/proc/" <> child <> "/mem"
      hasEnded = isInfixOf ") Z " <$> readFile ("/proc/" <> child <> "/stat")
      await = hasEnded >>= \ended -> unless ended (threadDelay 10000 >> await)
  await
  outcome <- try (ByteString.readFile path)
  case outcome of
    Left exception | fmap Errno (ioe_errno exception) == Just eSRCH -> use path
    _ -> pendingWith "this kernel opens the memory of a process that has ended"
  where
    parent = (proc "python3" ["-c", unlines program]) {std_in = NoStream, std_out = CreatePipe}
    -- It does not ask how its child ended.
    program =
      ["import os, signal", "child = os.fork()", "if child:", "    print(child, flush=True)", "    signal.pause()"]

-- | A file that is there in every coding.
writeCoded :: FilePath -> IO ()
writeCoded site =
  mapM_
    (\(extension, content) -> writeOld site ("root/coded.txt" <> extension) content)
    [("", "as it is"), (".br", "as br"), (".zst", "as zstd"), (".gz", "as gzip")]

tagOf :: FilePath -> ByteString -> IO ByteString
tagOf site path = fromMaybe "no tag" . header "ETag" <$> get site path []

header :: HeaderName -> Answer -> Maybe ByteString
header name answer = lookup name (answerHeaders answer)

get :: FilePath -> ByteString -> RequestHeaders -> IO Answer
get site = ask (site </> "root") StayInside methodGet

withQuery :: FilePath -> ByteString -> ByteString -> IO Answer
withQuery site path query = do
  root <- openRoot StayInside (site </> "root")
  call (staticFiles (plainSite root)) (requestFor methodGet path []) {rawQueryString = query}

ask :: FilePath -> LinkPolicy -> Method -> ByteString -> RequestHeaders -> IO Answer
ask directory policy method path headers = do
  root <- openRoot policy directory
  call (staticFiles (plainSite root)) (requestFor method path headers)

requestFor :: Method -> ByteString -> RequestHeaders -> Request
requestFor method path headers = defaultRequest {requestMethod = method, rawPathInfo = path, requestHeaders = headers}

-- | Runs an application and reads its answer while the application waits, as a server does.
call :: Application -> Request -> IO Answer
call application request = do
  received <- newIORef (Answer 0 [] "")
  ResponseReceived <- application request $ \response -> do
    let (status, headers, withBody) = responseToStream response
    chunks <- newIORef []
    withBody (\body -> body (\chunk -> modifyIORef' chunks (toLazyByteString chunk :)) (pure ()))
    content <- Lazy.toStrict . Lazy.concat . reverse <$> readIORef chunks
    writeIORef received (Answer (statusCode status) headers content)
    pure ResponseReceived
  readIORef received
