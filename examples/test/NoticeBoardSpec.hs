{-# LANGUAGE OverloadedStrings #-}

-- | The server of the guide's page "A server of your own": lines, limits, refusals, and its end.
module NoticeBoardSpec (noticeBoardSpec) where

import Control.Concurrent (threadDelay)
import Control.Exception (IOException, bracket, try)
import Control.Monad (unless)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Network.Socket
import Network.Socket.ByteString (sendAll)
import Support (connectWhenReady, stop)
import System.Exit (ExitCode (..))
import System.IO
import System.Process
import System.Timeout (timeout)
import Test.Hspec
import TestSupport.Folder (freePort)
import TestSupport.Time (within)

noticeBoardSpec :: Spec
noticeBoardSpec = describe "notice-board" $ do
  it "keeps notices, and refuses clients while it is full" . onBoard 1 60 $ \port _ ->
    withClient port $ \one -> do
      hGetLine one `shouldReturn` "welcome"
      hPutStrLn one "first"
      hGetLine one `shouldReturn` "posted"
      withClient port (\other -> hGetContents' other `shouldReturn` "full: try again later\n")
      hPutStrLn one "second\nread\nbye"
      hGetContents' one `shouldReturn` "posted\nsecond; first\ngood-bye\n"

  it "tells a client that its line is too long, and logs it" . onBoard 1 60 $ \port board -> do
    withClient port $ \client -> do
      hPutStrLn client (replicate 5000 'x')
      hGetContents' client `shouldReturn` "welcome\na notice has at most 200 bytes\n"
    end board
    hGetContents' (problems board) >>= (`shouldSatisfy` isInfixOf "a line is longer than 200 bytes")

  it "gives up a client that takes too long" . onBoard 1 1 $ \port _ ->
    withClient port (\client -> hGetContents' client `shouldReturn` "welcome\ntoo slow\n")

  it "says good-bye at SIGTERM, when the next version already serves its port" . onBoard 5 60 $ \port board ->
    withClient port $ \client -> do
      hGetLine client `shouldReturn` "welcome"
      withBoard port 5 60 $ \_ -> do
        end board
        hGetContents' client `shouldReturn` "the board closes: good-bye\n"
        withClient port (\later -> hGetLine later `shouldReturn` "welcome")

  it "ends at a second SIGTERM, though a client takes no answers" . onBoard 5 300 $ \port board ->
    bracket (connectWhenReady port) close $ \client -> do
      sendAll client (Char8.unlines (replicate 20 (Char8.replicate 190 'x')))
      -- Each line gets four kilobytes. At last the board can send no more, and then it takes no more.
      let fill = timeout 1000000 (sendAll client (Char8.concat (replicate 10000 "read\n"))) >>= mapM_ (const fill)
      within 30 "a full connection" fill
      terminateProcess (process board)
      untilRefused port
      getProcessExitCode (process board) `shouldReturn` Nothing
      end board

data Board = Board {process :: ProcessHandle, problems :: Handle}

-- With the most clients at a time, and the seconds for a line.
onBoard :: Int -> Int -> (PortNumber -> Board -> IO a) -> IO a
onBoard clients seconds use = freePort >>= \port -> withBoard port clients seconds (use port)

withBoard :: PortNumber -> Int -> Int -> (Board -> IO a) -> IO a
withBoard port clients seconds use =
  bracket (createProcess program) (\(_, _, _, handle) -> stop handle) $ \(_, output, errors, handle) -> do
    let said = maybe (fail "no output") hGetLine output
    within 20 "the start" said `shouldReturn` "ready"
    within 60 "the conversation" (maybe (fail "no errors") (use . Board handle) errors)
  where
    program = (proc "notice-board" [show port, show clients, show seconds]) {std_out = CreatePipe, std_err = CreatePipe}

-- Its own time of grace is longer.
end :: Board -> IO ()
end board = do
  terminateProcess (process board)
  within 20 "the end" (waitForProcess (process board)) `shouldReturn` ExitSuccess

withClient :: PortNumber -> (Handle -> IO a) -> IO a
withClient port = bracket open hClose
  where
    open = do
      connection <- connectWhenReady port >>= (`socketToHandle` ReadWriteMode)
      connection <$ hSetBuffering connection LineBuffering

untilRefused :: PortNumber -> IO ()
untilRefused port = do
  attempt <- try (withClient' (\_ -> pure ())) :: IO (Either IOException ())
  unless (either (const True) (const False) attempt) (threadDelay 20000 >> untilRefused port)
  where
    withClient' = bracket (socket AF_INET Stream defaultProtocol >>= \s -> s <$ connect s loopback) close
    loopback = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))
