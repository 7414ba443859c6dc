-- Must not know: sockets.

-- | Contexts: settings as OpenSSL's objects, for many connections.
module Millrace.Tls.Internal.Context
  ( Context,
    withContext,
    newContext,
    useAlgorithms,
    useProtocols,
    useTrust,
    useIdentities,
    refuseUnknownNames,
    askIdentities,
    resumeSessions,
    staple,
    logKeys,

    -- * Session tickets
    Tickets (..),
    TicketRing,
    newTicketRing,
    useTickets,
  )
where

import Control.Exception (mask_, throwIO)
import Control.Monad (forM, forM_, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toLower)
import Data.Function (on)
import Data.List (intercalate, nub, nubBy)
import Foreign.C.Error (throwErrnoPath)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import qualified GHC.Foreign as Encoded
import GHC.IO.Encoding (getFileSystemEncoding)
import Millrace.Tls.Error
import Millrace.Tls.Internal.Identity
import Millrace.Tls.Internal.TlsCalls
import Millrace.Tls.Settings

-- | Settings as OpenSSL's objects.
newtype Context = Context (ForeignPtr ContextState)

withContext :: Context -> (Ptr ContextState -> IO a) -> IO a
withContext (Context state) = withForeignPtr state

newContext :: Role -> IO Context
newContext role = mask_ $ do
  state <- c_contextNew (if role == Client then roleClient else roleServer)
  when (state == nullPtr) $ lastError >>= throwIO . SettingsError "OpenSSL" OutOfMemory
  Context <$> newForeignPtr c_contextRelease state

-- Throws if OpenSSL refuses.
orThrow :: String -> SettingsProblem -> Bool -> IO ()
orThrow source problem isGood = unless isGood $ lastError >>= throwIO . SettingsError source problem

useAlgorithms :: Context -> Algorithms -> IO ()
useAlgorithms context algorithms = withContext context $ \state -> do
  when (lowestVersion algorithms > highestVersion algorithms) $
    throwIO (SettingsError "the versions" BadVersions "")
  isSet <- c_contextVersions state (number (lowestVersion algorithms)) (number (highestVersion algorithms))
  orThrow "the versions" BadVersions (isSet /= 0)
  areCiphers <- withList (ciphersFor13 algorithms) $ \for13 ->
    withList (ciphersFor12 algorithms) $ \for12 -> c_contextCiphers state for13 for12
  orThrow "the ciphers" UnknownAlgorithms (areCiphers /= 0)
  forM_ (keyGroups algorithms) $ \names -> do
    areGroups <- withList (Just names) (c_contextGroups state)
    orThrow "the groups" UnknownAlgorithms (areGroups /= 0)
  where
    number Tls12 = version12
    number Tls13 = version13

withList :: Maybe [String] -> (CString -> IO a) -> IO a
withList Nothing use = use nullPtr
withList (Just names) use = withCString (intercalate ":" names) use

-- | Application protocols (ALPN), the preferred one first.
useProtocols :: Context -> [ByteString] -> IO ()
useProtocols _ [] = return ()
useProtocols context protocols = do
  unless (all (\one -> ByteString.length one `elem` [1 .. 255]) protocols) $
    throwIO (SettingsError "the application protocols" BadProtocols "")
  isSet <- withContext context $ \state ->
    unsafeUseAsCStringLen encoded $ \(memory, size) -> c_contextProtocols state (castPtr memory) (fromIntegral size)
  orThrow "the application protocols" OutOfMemory (isSet /= 0)
  where
    encoded = ByteString.concat [ByteString.cons (fromIntegral (ByteString.length one)) one | one <- protocols]

-- | Sets whether to ask for the peer's certificate, and which authorities are trusted.
useTrust :: Context -> CInt -> Maybe Trust -> IO ()
useTrust context mode trust = withContext context $ \state -> do
  c_contextVerify state mode >>= orThrow "the client's certificates" OutOfMemory . (/= 0)
  forM_ trust $ \(Trust anchors lists) -> do
    mapM_ (addAnchors state) anchors
    forM_ lists $ \pem -> addPem pem "the revocation list" BrokenRevocationList (c_contextRevoke state)
  where
    addAnchors state SystemAnchors =
      c_contextTrustSystem state >>= orThrow "the system's authorities" NoCertificate . (/= 0)
    addAnchors state (Anchors pem) = addPem pem "the anchors" NoCertificate (c_contextTrust state)
    addPem pem what problem call = do
      bytes <- readPem pem
      count <- unsafeUseAsCStringLen bytes $ \(memory, size) -> call (castPtr memory) (fromIntegral size)
      orThrow
        (describePem what pem)
        (if count < 0 && problem == NoCertificate then BrokenCertificate else problem)
        (count > 0)

-- | Sets the identities for each name: the first identity of each kind of key that has the name. The identities for the
-- names of the first one are the default.
useIdentities :: Context -> [Identity] -> IO ()
useIdentities context identities = do
  kinds <- mapM identityKind identities
  let numbered = zip3 [0 :: Int ..] kinds identities
      namesOf one = map (map toLower) (identityNames one)
      allNames = nub (concatMap namesOf identities)
      distinctKinds = nubBy ((==) `on` (\(_, kind, _) -> kind))
      serving name = distinctKinds [one | one@(_, _, identity) <- numbered, name `elem` namesOf identity]
      numbersOf ones = [number | (number, _, _) <- ones]
      defaults = case identities of
        [] -> []
        first : _ ->
          distinctKinds [one | one@(number, _, identity) <- numbered, number == 0 || namesOf identity == namesOf first]
      sets = nubBy ((==) `on` numbersOf) (defaults : map serving allNames)
  groups <- forM (zip [0 :: Int ..] sets) $ \(position, set) -> do
    group <- if position == 0 then return 0 else withContext context c_contextAddGroup
    orThrow "the identities" OutOfMemory (group >= 0)
    forM_ set $ \(_, _, identity) -> use group identity
    return (numbersOf set, group)
  forM_ allNames $ \name ->
    forM_ (lookup (numbersOf (serving name)) groups) $ \group -> do
      isAdded <- withContext context $ \state ->
        Char8.useAsCString (Char8.pack name) $ \text -> c_contextAddName state text group
      orThrow "the identities" OutOfMemory (isAdded /= 0)
  where
    use group identity = do
      isUsed <- withContext context $ \state -> withIdentity identity (c_contextUse state group)
      orThrow (show identity) UnusableIdentity (isUsed /= 0)

-- | Makes handshakes of a server stop for a choice of identities. Call it after the context's own identities were set.
askIdentities :: Context -> IO ()
askIdentities context = withContext context c_contextAskIdentities

-- | Makes a client's context keep sessions and resume them.
resumeSessions :: Context -> IO ()
resumeSessions context = withContext context c_contextResume >>= orThrow "the client's settings" OutOfMemory . (/= 0)

-- | Staples the OCSP answers of identities that have one. Call it after the identities were set.
staple :: Context -> [Identity] -> IO ()
staple context identities = forM_ identities $ \identity -> forM_ (identityStaple identity) $ \answer -> do
  isGood <- withContext context $ \state -> withIdentity identity $ \known ->
    unsafeUseAsCStringLen answer $ \(memory, size) -> c_contextStaple state known (castPtr memory) (fromIntegral size)
  orThrow ("the OCSP answer for " ++ show identity) BrokenStaple (isGood /= 0)

-- | Appends the secrets of all connections to a file.
logKeys :: Context -> FilePath -> IO ()
logKeys context path = do
  encoding <- getFileSystemEncoding
  isOpen <- withContext context $ \state -> Encoded.withCString encoding path (c_contextLogKeys state)
  when (isOpen == 0) $ throwErrnoPath "Millrace.Tls: opening the log of keys" path

-- | How clients may resume sessions without another full handshake.
data Tickets
  = -- | By tickets that keys of this program protect. They change every hour, and tickets are good for two to three
    -- hours.
    OwnTicketKeys
  | -- | By tickets that these keys of 80 bytes protect. Other processes may have the same keys. @openssl rand 80@ makes
    -- one. The first one protects new tickets, and all of them open tickets. To rotate them, put a new one in front
    -- ('Millrace.Tls.Server.replaceServerSettings'), and remove the last one after some hours.
    SharedTicketKeys [ByteString]
  | -- | Not at all.
    NoTickets
  deriving (Eq)

-- | Does not show the keys.
instance Show Tickets where
  show tickets = case tickets of
    OwnTicketKeys -> "OwnTicketKeys"
    SharedTicketKeys keys -> "SharedTicketKeys of " ++ show (length keys)
    NoTickets -> "NoTickets"

-- | Keys for tickets that outlive a context.
newtype TicketRing = TicketRing (ForeignPtr TicketsState)

newTicketRing :: IO TicketRing
newTicketRing = mask_ $ do
  state <- c_ticketsNew
  when (state == nullPtr) $ lastError >>= throwIO . SettingsError "OpenSSL" OutOfMemory
  TicketRing <$> newForeignPtr c_ticketsRelease state

-- | Sets the keys of tickets. Call it after the identities were set.
useTickets :: Context -> TicketRing -> Tickets -> IO ()
useTickets context own tickets = withContext context $ \state -> case tickets of
  NoTickets -> c_contextRefuseTickets state
  OwnTicketKeys -> use state own
  SharedTicketKeys keys -> do
    unless (all ((== ticketKeySize) . ByteString.length) keys) bad
    ring@(TicketRing given) <- newTicketRing
    isTaken <- withForeignPtr given $ \memory ->
      unsafeUseAsCStringLen (ByteString.concat keys) $ \(bytes, _) ->
        c_ticketsSetKeys memory (castPtr bytes) (fromIntegral (length keys))
    when (isTaken == 0) bad
    use state ring
  where
    use state (TicketRing ring) = withForeignPtr ring (c_contextUseTickets state)
    bad = throwIO (SettingsError "the keys for session tickets" BadTicketKeys "")

refuseUnknownNames :: Context -> IO ()
refuseUnknownNames context = withContext context c_contextRefuseUnknownNames
