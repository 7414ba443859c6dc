-- Must not know: WAI.

-- | The connections of HTTP\/2 to a target. Many exchanges share each of them. Each capability has its own, so that
-- threads seldom meet; when the target allows no further exchange on one, another one is opened.
module Millrace.Proxy.SharedConnections
  ( Shared,
    newShared,
    Version (..),
    knownVersion,
    Got (..),
    beginShared,
    transportOf,
    unusedCount,
    closeUnused,
    closeShared,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (filterM, forM_, join, unless, void, when)
import Data.ByteString (ByteString)
import Data.IORef
import Data.Word (Word64)
import Millrace.Deadline (Deadline, Duration, deadlineFromNanoseconds, durationNanoseconds, monotonicNanoseconds)
import Millrace.HttpClient.Http2
import Millrace.Proxy.Link (Link (..), Version (..))
import Millrace.Proxy.PerCapability
import Millrace.Timer (finishBefore)

-- | A target's connections.
data Shared = Shared
  { sharedSlots :: !(PerCapability Slot),
    sharedNanoseconds :: !Word64,
    -- | The version that the target spoke last, if that was negotiated.
    sharedVersion :: !(IORef (Maybe Version))
  }

-- A capability's connections: those that are used, and those that take no more exchanges but have some left; and
-- whether one is being opened.
data Slot = Slot
  { slotOpen :: [Connection],
    slotLeaving :: [Connection],
    slotOpening :: !(Maybe (MVar (Either SomeException Version))),
    slotPhase :: !ConnectionPhase
  }

data ConnectionPhase = InUse | Over
  deriving (Eq)

-- | Begins without connections. An unused one is kept for this time.
newShared :: Duration -> IO Shared
newShared time = do
  slots <- newPerCapability (Slot [] [] Nothing InUse)
  Shared slots (durationNanoseconds time) <$> newIORef Nothing

-- | The version that the target spoke last. 'Nothing': it is not known yet.
knownVersion :: Shared -> IO (Maybe Version)
knownVersion shared = readIORef (sharedVersion shared)

-- | The outcome of 'beginShared'.
data Got
  = Got !Exchange !Connection
  | -- | The target speaks HTTP\/1.1.
    SpeaksVersion1
  | -- | The connection is not good for this request.
    NotFit
  | -- | The fields are not valid.
    NotValid

-- | @beginShared shared deadline connect fits fields part@ begins an exchange on a connection, or on a new one, for
-- which it waits until the deadline. Call it with asynchronous exceptions masked. Several callers wait for the same new
-- connection; @connect@ runs in a new thread. If it returns 'Nothing', the target speaks HTTP\/1.1. Throws what
-- @connect@ throws, and the deadline's 'IOError'.
beginShared ::
  Shared ->
  Deadline ->
  IO (Maybe Connection) ->
  (Connection -> IO Bool) ->
  [(ByteString, ByteString, Secrecy)] ->
  Part ->
  IO Got
beginShared shared deadline connect fits fields part = go
  where
    go = do
      slot <- ownVariable (sharedSlots shared)
      Slot open _ _ _ <- readIORef slot
      found <- tryAll slot open
      case found of
        Just got -> return got
        Nothing -> do
          now <- monotonicNanoseconds
          outcome <- if deadlineFromNanoseconds now >= deadline then waitUntilPassed else opened slot (length open)
          case outcome of
            Left failure -> throwIO failure
            Right Version1 -> return SpeaksVersion1
            Right Version2 -> go
    -- Other requests took all streams of each new connection.
    waitUntilPassed = finishBefore deadline (newEmptyMVar >>= readMVar)
    tryAll _ [] = return Nothing
    tryAll slot (connection : others) = do
      fit <- fits connection
      if not fit
        then return (Just NotFit)
        else do
          begun <- beginExchange connection fields part
          case begun of
            Begun exchange -> return (Just (Got exchange connection))
            FieldsInvalid -> return (Just NotValid)
            AllTaken -> tryAll slot others
            NoneAllowed -> ioError (userError "the target allows no request on a connection")
            ConnectionLeaving -> retire slot connection >> tryAll slot others
    -- Another thread may have opened one since.
    opened slot before = do
      pending <- newEmptyMVar
      join . atomicModifyIORef' slot $ \known -> case slotOpening known of
        _ | slotPhase known == Over -> (known, ioError (userError "the proxy ends"))
        Just other -> (known, waitFor other)
        Nothing
          | length (slotOpen known) > before -> (known, return (Right Version2))
          | otherwise -> (known {slotOpening = Just pending}, forkIO (openOne slot pending) >> waitFor pending)
    waitFor pending = finishBefore deadline (readMVar pending)
    openOne slot pending = mask $ \restore -> do
      outcome <- try (restore connect)
      case outcome of
        Right (Just connection) -> do
          phase <- atomicModifyIORef' slot (\known -> (add connection known {slotOpening = Nothing}, slotPhase known))
          writeIORef (sharedVersion shared) (Just Version2)
          when (phase == Over) (closeConnection connection)
        Right Nothing ->
          atomicModifyIORef' slot (\known -> (known {slotOpening = Nothing}, ()))
            >> writeIORef (sharedVersion shared) (Just Version1)
        Left _ -> atomicModifyIORef' slot (\known -> (known {slotOpening = Nothing}, ()))
      putMVar pending (maybe Version1 (const Version2) <$> outcome)
    add connection known
      | slotPhase known == Over = known
      | otherwise = known {slotOpen = slotOpen known ++ [connection]}

retire :: IORef Slot -> Connection -> IO ()
retire slot connection = do
  -- One without exchanges is closed now. 'closeUnused' closes another one after its last exchange.
  count <- exchangeCount connection
  atomicModifyIORef' slot $ \known ->
    if any (same connection) (slotOpen known)
      then
        ( known
            { slotOpen =
                filter (not . same connection) (slotOpen known),
              slotLeaving = if count == 0 then slotLeaving known else connection : slotLeaving known
            },
          ()
        )
      else (known, ())
  when (count == 0) (void (forkIO (closeConnection connection)))
  where
    same = sameConnection

-- | Makes a transport of a link. The transport closes the link.
transportOf :: Link -> Transport
transportOf link =
  Transport
    { transportReceive = linkReceive link,
      transportSend = \deadline bytes -> linkSend link deadline [bytes],
      transportInterrupt = linkInterrupt link,
      transportClose = linkClose link
    }

-- | The number of connections that are open and have no exchange. Does not block.
unusedCount :: Shared -> IO Int
unusedCount shared = sum <$> mapM count (allVariables (sharedSlots shared))
  where
    count slot = readIORef slot >>= fmap length . filterM isUnused . slotOpen
    isUnused connection = (&&) <$> isUsable connection <*> ((== 0) <$> exchangeCount connection)

-- | Closes connections that have been unused for too long, those that have done their last exchange, and those that are
-- over or take no more.
closeUnused :: Shared -> IO ()
closeUnused shared = forM_ (allVariables (sharedSlots shared)) $ \slot -> do
  now <- monotonicNanoseconds
  Slot open leaving _ _ <- readIORef slot
  old <- filterM (isOld now) open
  done <- filterM (fmap (== 0) . exchangeCount) leaving
  -- Exchanges that begin at this moment find that the connection takes no more, and open another one.
  mapM_ leaveConnection old
  forM_ old (retire slot)
  unless (null done) $ do
    atomicModifyIORef'
      slot
      (\known -> (known {slotLeaving = filter (\one -> not (any (sameConnection one) done)) (slotLeaving known)}, ()))
    mapM_ closeConnection done
  where
    isOld now connection = do
      since <- idleSince connection
      count <- exchangeCount connection
      usable <- isUsable connection
      return (count == 0 && (not usable || now > since && now - since > sharedNanoseconds shared))

-- | Closes all connections. No further ones are opened.
closeShared :: Shared -> IO ()
closeShared shared = forM_ (allVariables (sharedSlots shared)) $ \slot -> do
  all' <- atomicModifyIORef' slot (\known -> (Slot [] [] Nothing Over, slotOpen known ++ slotLeaving known))
  mapM_ closeConnection all'
