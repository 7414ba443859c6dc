{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Clients, a proxy and a target on one machine.
module World
  ( world,
    Tally (..),
    Nature (..),
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe, isNothing)
import Frames
import Millrace.Deadline
import Millrace.Proxy hiding (Settings, defaultSettings)
import qualified Millrace.Proxy as Proxy
import Millrace.Simulation (chance)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Network.Wai.Handler.Millrace
  ( defaultSettings,
    runSettingsListener,
    setGracefulShutdownTimeout,
    setOnException,
    setOnExceptionResponse,
    setTimeout,
  )
import Numeric (readHex)
import Script

-- | What the clients saw.
data Tally = Tally
  { tallyExact :: !Int,
    -- | Answered by the proxy itself.
    tallyRefused :: !Int,
    tallyBroken :: !Int,
    tallyLeft :: !Int
  }

-- What everybody knows, and what was seen.
data Knowledge = Knowledge
  { knownScripts :: [Script],
    knownNature :: !Nature,
    -- | Does nothing fail on the machine?
    knownIsSound :: !Bool,
    -- | Do responses come at once?
    knownIsFast :: !Bool,
    -- | Requests that came to the target as a whole.
    knownArrivals :: !(IORef (IntMap.IntMap Int)),
    knownWrongs :: !(IORef [String])
  }

wrong :: Knowledge -> String -> IO ()
wrong knowledge text = atomicModifyIORef' (knownWrongs knowledge) (\known -> (text : known, ()))

-- | Runs clients that ask by scripts, on a machine on which nothing fails, or which is fast. Returns what they saw, and
-- what must not have been.
world :: Nature -> Bool -> Bool -> IO (Tally, [String])
world nature isSound isFast = do
  count <- (+ 1) <$> chance 4
  plans <- forM [0 .. count - 1] $ \client -> do
    connections <- (+ 1) <$> chance 3
    forM [0 .. connections - 1] $ \connection -> do
      version <- chance 3
      requests <- if version == 0 then return 1 else (+ 1) <$> chance 4
      scripts <- mapM (newScript nature) [client * 100 + connection * 10 + request | request <- [0 .. requests - 1]]
      return (if version == 0 then askInFrames else askInBytes, scripts)
  knowledge <-
    Knowledge (concatMap (concatMap snd) plans) nature isSound isFast <$> newIORef IntMap.empty <*> newIORef []
  byFrames <- (== 0) <$> chance 2
  outcomes <- onAddress (SockAddrUnix targetPath) $ \targets _ ->
    serving targets (if byFrames then answerInFrames knowledge else answerInBytes knowledge) $
      onAddress (SockAddrInet 80 (tupleToHostAddress (10, 0, 0, 1))) $ \listener address -> do
        let target = Target (if byFrames then H2c else Http) (AtPath targetPath)
            settings = Proxy.defaultSettings {tracing = PassIdentifiers, forwarding = PassForwarded}
        withProxy settings [target] $ \proxy -> do
          ended <- newEmptyMVar
          void . forkIO $
            (try (runSettingsListener quietly listener proxy) :: IO (Either SomeException ())) >>= putMVar ended
          results <- forM plans $ \connections ->
            inThread . forM connections $ \(ask, scripts) -> ask knowledge address scripts
          outcomes <- concatMap concat <$> mapM takeMVar results
          close listener
          takeMVar ended >>= either throwIO return
          return outcomes
  threadDelay 400000000 -- All stalls and all deadlines are over by then.
  arrivals <- readIORef (knownArrivals knowledge)
  forM_ (knownScripts knowledge) $ \script ->
    case (IntMap.findWithDefault 0 (scriptNumber script) arrivals, scriptDeparture script) of
      (0, _) -> return ()
      (_, LeavesInRequest _) -> wrong knowledge ("a request that its client broke off came as a whole: " ++ show script)
      (times, _) ->
        when (times > 1 && not (isSafeTwice script)) (wrong knowledge (show times ++ " times: " ++ show script))
  wrongs <- readIORef (knownWrongs knowledge)
  let tally outcome = length (filter (== outcome) outcomes)
  return (Tally (tally Exact) (tally Refused) (tally Broken) (tally Left'), wrongs)
  where
    quietly =
      setTimeout
        300
        ( setGracefulShutdownTimeout
            (Just 5)
            (setOnException (\_ _ -> return ()) (setOnExceptionResponse onExceptionResponse defaultSettings))
        )

inThread :: IO [[a]] -> IO (MVar [[a]])
inThread action = do
  result <- newEmptyMVar
  _ <- forkIO (attempt action >>= putMVar result . fromMaybe [])
  return result

-- | A listening socket on an address of the machine.
onAddress :: SockAddr -> (Socket -> SockAddr -> IO a) -> IO a
onAddress address use = bracket (socket family Stream defaultProtocol) close $ \listener -> do
  bind listener address
  listen listener 64
  getSocketName listener >>= use listener
  where
    family = case address of
      SockAddrUnix _ -> AF_UNIX
      _ -> AF_INET

targetPath :: FilePath
targetPath = "/target"

-- | Runs a handler for each connection while the action runs, and waits for their ends.
serving :: Socket -> (Socket -> IO ()) -> IO a -> IO a
serving listener handler use = do
  running <- newIORef []
  isOver <- newIORef False
  let accepting = do
        outcome <- try (accept listener) :: IO (Either IOException (Socket, SockAddr))
        over <- readIORef isOver
        case outcome of
          Right (peer, _) -> do
            done <- newEmptyMVar
            _ <- forkIO ((handler peer `catch` ignored) `finally` (close peer >> putMVar done ()))
            modifyIORef' running (done :)
            accepting
          Left _ -> unless over (threadDelay 1000 >> accepting)
  accepted <- newEmptyMVar
  _ <- forkIO (accepting `finally` putMVar accepted ())
  result <- try use
  writeIORef isOver True
  close listener
  takeMVar accepted
  readIORef running >>= mapM_ takeMVar
  either (throwIO :: SomeException -> IO a) return result

ignored :: SomeException -> IO ()
ignored _ = return ()

-- Longer than every deadline of the proxy together with every stall.
receiveSome :: Socket -> IO ByteString
receiveSome peer = deadlineAfter (seconds 350) >>= \deadline -> recvBefore deadline peer 4096

-- | Sends in random pieces, with pauses. Small bytes go at once now and then.
sendInPieces :: Socket -> ByteString -> IO ()
sendInPieces peer bytes = unless (B.null bytes) $ do
  whole <- chance 3
  size <- if whole == 0 then (+ 1) <$> chance (B.length bytes) else return (B.length bytes)
  let (piece, rest) = B.splitAt size bytes
  sendAll peer piece
  unless (B.null rest) (chance 20000 >>= threadDelay)
  sendInPieces peer rest

-- | The bytes before a position, which is given per mille.
upTo :: Int -> ByteString -> ByteString
upTo position bytes = B.take (B.length bytes * position `div` 1000) bytes

------------------------------------------------------------------------------------------------------------------------
-- Reading

-- | Bytes that were received and not read yet.
data Reader = Reader !(IO ByteString) !(IORef ByteString)

newReader :: Socket -> IO Reader
newReader peer = Reader (receiveSome peer) <$> newIORef B.empty

newtype Ended = Ended String deriving (Show)

instance Exception Ended

-- | More bytes, or 'Nothing' at the end.
more :: Reader -> IO (Maybe ())
more (Reader receive held) = do
  bytes <- receive
  if B.null bytes then return Nothing else Just () <$ modifyIORef' held (<> bytes)

-- | A head with its blank line. 'Nothing' at an end before its first byte.
takeHead :: Reader -> IO (Maybe ByteString)
takeHead reader@(Reader _ held) = do
  bytes <- readIORef held
  case B.breakSubstring "\r\n\r\n" bytes of
    (found, rest) | not (B.null rest) -> Just (found <> "\r\n\r\n") <$ writeIORef held (B.drop 4 rest)
    _ ->
      more reader
        >>= maybe (if B.null bytes then return Nothing else throwIO (Ended "in a head")) (const (takeHead reader))

takeCount :: Reader -> Int -> IO ByteString
takeCount reader@(Reader _ held) count = do
  bytes <- readIORef held
  if B.length bytes >= count
    then B.take count bytes <$ writeIORef held (B.drop count bytes)
    else more reader >>= maybe (throwIO (Ended "in a body")) (const (takeCount reader count))

-- | As 'takeCount', but fewer at the end.
takeFrames :: Reader -> Int -> IO ByteString
takeFrames reader count = takeCount reader count `catch` \(Ended _) -> return ""

takeToEnd :: Reader -> IO ByteString
takeToEnd reader@(Reader _ held) =
  more reader >>= maybe (readIORef held <* writeIORef held "") (const (takeToEnd reader))

takeChunks :: Reader -> IO ByteString
takeChunks reader = do
  size <- takeLine ""
  case readHex (C8.unpack size) of
    [(0, "")] -> "" <$ expect "\r\n"
    [(count, "")] -> do
      piece <- takeCount reader count
      expect "\r\n"
      (piece <>) <$> takeChunks reader
    _ -> throwIO (Ended ("a chunk of the size " ++ show size))
  where
    takeLine line
      | "\r\n" `B.isSuffixOf` line = return (B.take (B.length line - 2) line)
      | otherwise = takeCount reader 1 >>= \byte -> takeLine (line <> byte)
    expect text =
      takeCount reader (B.length text) >>= \found -> when (found /= text) (throwIO (Ended ("no " ++ show text)))

fieldOf :: ByteString -> ByteString -> Maybe ByteString
fieldOf name bytes = case B.breakSubstring ("\r\n" <> name <> ": ") bytes of
  (_, found)
    | B.null found -> Nothing
    | otherwise -> Just (C8.takeWhile (/= '\r') (B.drop (B.length name + 4) found))

------------------------------------------------------------------------------------------------------------------------
-- The target

-- | A request has come as a whole.
arrived :: Knowledge -> Script -> ByteString -> IO ()
arrived knowledge script body = do
  atomicModifyIORef' (knownArrivals knowledge) (\known -> (IntMap.insertWith (+) (scriptNumber script) 1 known, ()))
  when
    (body /= requestBody script)
    (wrong knowledge ("a body of " ++ show (B.length body) ++ " bytes came for " ++ show script))

answerInBytes :: Knowledge -> Socket -> IO ()
answerInBytes knowledge peer = newReader peer >>= loop
  where
    loop reader = do
      found <- takeHead reader
      forM_ found $ \bytes -> case scriptOf (knownScripts knowledge) bytes of
        Nothing -> wrong knowledge ("nobody asked for " ++ show bytes)
        Just script -> do
          body <- case (fieldOf "Content-Length" bytes, fieldOf "Transfer-Encoding" bytes) of
            (Just count, Nothing) -> takeCount reader (read (C8.unpack count))
            (Nothing, Just "chunked") -> takeChunks reader
            (Nothing, Nothing) -> return ""
            _ -> "" <$ wrong knowledge ("two framings: " ++ show bytes)
          unless (scriptMethod script `B.isPrefixOf` bytes) (wrong knowledge ("another method: " ++ show bytes))
          arrived knowledge script body
          answer reader script
    answer reader script = do
      let whole = responseBytes script
      case scriptTrouble script of
        NoTrouble
          | scriptResponse script == LastResponse -> sendInPieces peer whole >> staysSilent reader script
          | otherwise -> sendInPieces peer whole >> unless (isLast script) (loop reader)
        CutAt position -> sendInPieces peer (upTo position whole)
        ResetAt position _ -> sendInPieces peer (upTo position whole)
        StallAt position -> sendInPieces peer (upTo position whole) >> staysSilent reader script
        Garbage -> sendAll peer (whole <> "garbage\r\n") >> staysSilentOnFast reader script
        SilentClose -> sendInPieces peer whole
        broken -> sendInPieces peer (brokenResponse Nothing broken) >> staysSilent reader script
    isLast script = scriptResponse script == UntilEndResponse && scriptStatus script /= 204
    -- No further request may come on this connection.
    staysSilent reader script = do
      rest <- takeToEnd reader
      unless
        (B.null rest)
        (wrong knowledge ("a connection was used again after " ++ show script ++ ": " ++ show (B.take 100 rest)))
    -- Elsewhere, what is behind a response may come after the next request has been sent.
    staysSilentOnFast reader script =
      if knownIsFast knowledge then staysSilent reader script else void (takeToEnd reader)

answerInFrames :: Knowledge -> Socket -> IO ()
answerInFrames knowledge peer = do
  reader <- newReader peer
  sending <- newMVar ()
  let say bytes = withMVar sending (const (sendInPieces peer bytes))
  _ <- takeFrames reader 24
  -- Windows without limits.
  say (frame 4 0 0 "\0\4\x7f\xff\xff\xff" <> frame 8 0 0 "\x70\0\0\0" <> frame 4 1 0 "")
  loop reader say IntMap.empty
  where
    loop reader say open = do
      (kind, flags, stream, content) <- oneFrameFrom (takeFrames reader)
      case kind of
        1 -> case scriptOf (knownScripts knowledge) content of
          Nothing -> wrong knowledge ("nobody asked for " ++ show content)
          Just script -> part reader say open stream script (odd flags) ""
        0 ->
          forM_
            (IntMap.lookup stream open)
            (\(script, before) -> part reader say open stream script (odd flags) (before <> content))
        6 | even flags -> say (frame 6 1 0 content) >> loop reader say open
        _ -> loop reader say open
    part reader say open stream script ends body
      | ends = do
        arrived knowledge script body
        _ <- forkIO (answer say stream script `catch` ignored)
        loop reader say (IntMap.delete stream open)
      | otherwise = loop reader say (IntMap.insert stream (script, body) open)
    answer say stream script = do
      let whole = responseFrames script stream
      case scriptTrouble script of
        NoTrouble -> mapM_ say (framesOf whole)
        CutAt position -> say (upTo position whole) >> shutdown peer ShutdownBoth
        -- Between two frames.
        ResetAt position code -> mapM_ say (framesUpTo position whole) >> say (resetOf stream code)
        StallAt position -> mapM_ say (framesUpTo position whole)
        Garbage -> mapM_ say (framesOf whole) >> say (frame 0 0 stream "garbage")
        SilentClose -> mapM_ say (framesOf whole) >> shutdown peer ShutdownBoth
        broken -> say (brokenResponse (Just stream) broken)

-- | Other streams' frames may be between these.
framesOf :: ByteString -> [ByteString]
framesOf bytes
  | B.length bytes < 9 = []
  | otherwise =
    let (one, rest) =
          B.splitAt (9 + 256 * fromIntegral (B.index bytes 1) + fromIntegral (B.index bytes 2)) bytes
     in one : framesOf rest

-- | Never all of them.
framesUpTo :: Int -> ByteString -> [ByteString]
framesUpTo position bytes = let found = framesOf bytes in take (length found * position `div` 1000) found

------------------------------------------------------------------------------------------------------------------------
-- Clients

-- | What became of a request.
data Outcome = Exact | Refused | Broken | Left'
  deriving (Eq)

-- | What came of a response: the status, if it is known, and the body.
data Got = Whole !(Maybe Int) !ByteString | Partial

judged :: Knowledge -> Script -> Got -> IO Outcome
judged knowledge script got = case got of
  Whole (Just status) body
    | status == scriptStatus script && body == responseBody script -> return Exact
    -- The end of the connection is the end of the body, whoever closes it.
    | status == scriptStatus script && isOpenEnded && body `B.isPrefixOf` responseBody script -> mayFail Broken
    | status `elem` [400, 408, 502, 503, 504] -> mayFail Refused
  Whole Nothing _ -> mayFail Refused
  Whole status body ->
    Broken
      <$ wrong knowledge ("taken for whole: " ++ show (status, B.length body, B.take 60 body) ++ " for " ++ show script)
  Partial -> mayFail Broken
  where
    isOpenEnded =
      scriptResponse script == UntilEndResponse && case scriptTrouble script of
        CutAt _ -> True
        ResetAt _ _ -> True
        _ -> False
    mayFail outcome =
      outcome
        <$ when
          (knownNature knowledge == Faultless && knownIsSound knowledge)
          (wrong knowledge ("not exact, although nothing failed: " ++ show script))

connected :: SockAddr -> (Socket -> IO a) -> IO a
connected address use = bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
  deadlineAfter (seconds 200) >>= \deadline -> connectBefore deadline client address
  use client

-- | Asks one after the other on a connection of HTTP/1.1.
askInBytes :: Knowledge -> SockAddr -> [Script] -> IO [Outcome]
askInBytes knowledge address scripts =
  fromMaybe [] <$> attempt (connected address (\client -> newReader client >>= \reader -> go client reader scripts))
  where
    go _ _ [] = return []
    go client reader (script : others) = case scriptDeparture script of
      LeavesInRequest position -> [Left'] <$ attempt (sendInPieces client (upTo position (requestBytes script)))
      _ -> do
        -- The target may answer before it has all of the request.
        sent <- newEmptyMVar
        _ <- forkIO (attempt (sendInPieces client (requestBytes script)) >>= putMVar sent)
        case scriptDeparture script of
          LeavesInResponse position ->
            [Left']
              <$ (takeMVar sent >> attempt (takeCount reader (B.length (responseBytes script) * position `div` 1000)))
          _ -> do
            found <- attempt (response reader script)
            outcome <- judged knowledge script (maybe Partial fst found)
            when (maybe True snd found) (shutdown client ShutdownBoth `catch` ignored)
            wasSent <- takeMVar sent
            if maybe True snd found || isNothing wasSent
              then return [outcome]
              else (outcome :) <$> go client reader others
    -- With whether the connection ends.
    response reader script = do
      bytes <- takeHead reader >>= maybe (throwIO (Ended "before the head")) return
      let status = read (C8.unpack (B.take 3 (B.drop 9 bytes))) :: Int
          isLast = fieldOf "Connection" bytes == Just "close"
      if status < 200
        then response reader script
        else do
          body <- case (fieldOf "Content-Length" bytes, fieldOf "Transfer-Encoding" bytes) of
            _ | scriptMethod script == "HEAD" || status `elem` [204, 304] -> return ""
            (Just count, _) -> takeCount reader (read (C8.unpack count))
            (_, Just _) -> takeChunks reader
            _ -> takeToEnd reader
          return (Whole (Just status) body, isLast)

-- | Asks on a stream of HTTP/2.
askInFrames :: Knowledge -> SockAddr -> [Script] -> IO [Outcome]
askInFrames knowledge address scripts = fromMaybe [] <$> attempt (mapM one scripts)
  where
    one script = connected address $ \client -> do
      reader <- newReader client
      let request = requestFrames script
          whole = clientOpening <> frame 8 0 0 "\x70\0\0\0" <> request
      case scriptDeparture script of
        LeavesInRequest position ->
          Left'
            <$ attempt
              ( sendInPieces
                  client
                  (B.take (B.length whole - B.length request + B.length request * position `div` 1000) whole)
              )
        departure -> do
          sent <- newEmptyMVar
          _ <- forkIO (attempt (sendInPieces client whole) >>= putMVar sent)
          case departure of
            LeavesInResponse position ->
              Left'
                <$ ( takeMVar sent
                       >> attempt (takeCount reader (B.length (responseFrames script 1) * position `div` 1000))
                   )
            _ -> do
              got <- fromMaybe Partial <$> attempt (response reader Nothing "")
              shutdown client ShutdownBoth `catch` ignored
              _ <- takeMVar sent
              judged knowledge script got
    response reader status body = do
      (kind, flags, stream, content) <- oneFrameFrom (takeFrames reader)
      case kind of
        _ | stream /= 1 -> response reader status body
        0 -> (if odd flags then return . Whole status else response reader status) (body <> content)
        1 ->
          (if odd flags then \found -> return (Whole found body) else \found -> response reader found body)
            (statusOf' content)
        3 -> return Partial
        _ -> response reader status body
    -- Of the static table. The proxy's own have no index.
    statusOf' content =
      lookup (B.take 1 content) [("\x88", 200), ("\x89", 204), ("\x8b", 304), ("\x8d", 404), ("\x8e", 500)]

-- | The request on stream 1.
requestFrames :: Script -> ByteString
requestFrames script = frame 1 (if B.null body then 5 else 4) 1 fields <> go body
  where
    body = requestBody script
    fields =
      B.concat
        ( map
            literal
            ( [(":method", scriptMethod script), (":scheme", "http"), (":path", pathOf script), (":authority", "a")]
                ++ lengthOf
            )
        )
    lengthOf = case scriptRequest script of
      CountedRequest size -> [("content-length", C8.pack (show size))]
      _ -> []
    go bytes
      | B.null bytes = ""
      | otherwise =
        let (piece, rest) = B.splitAt 4000 bytes in frame 0 (if B.null rest then 1 else 0) 1 piece <> go rest

-- | 'Nothing' if the connection failed.
attempt :: forall a. IO a -> IO (Maybe a)
attempt action = (Just <$> action) `catch` failed
  where
    failed :: SomeException -> IO (Maybe a)
    failed _ = return Nothing
