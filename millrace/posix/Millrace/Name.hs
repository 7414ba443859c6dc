-- | Names of hosts and services, looked up by the system's functions (@getaddrinfo@, @getnameinfo@) in at most 32
-- helper threads, which do only this. A look-up whose deadline passes, or whose thread is interrupted, continues
-- without its caller. So name servers that do not answer delay other look-ups, but nothing else.
--
-- > main = do
-- >   deadline <- deadlineAfter (seconds 2)
-- >   found <- lookUpBefore deadline (host "example.org" "https")
-- >   mapM_ (print . addrAddress) found
--
-- Errors are @IOError@s that say what was looked up, of the type 'System.IO.Error.isDoesNotExistError' as those of
-- network's @getAddrInfo@; 'nameProblem' says why. A deadline that passes is one as everywhere
-- ('Millrace.Deadline.isDeadlineError'). Within "Millrace.Simulation" these functions are refused.
--
-- >>> import Millrace
-- >>> map addrAddress <$> lookUp (host "127.0.0.1" "80")
-- [127.0.0.1:80]
-- >>> lookUpName (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))) [NI_NUMERICHOST, NI_NUMERICSERV]
-- ("127.0.0.1","80")
module Millrace.Name
  ( -- * Addresses of a name
    Query (..),
    host,
    passive,
    lookUp,
    lookUpBefore,

    -- * Names of an address
    lookUpName,
    lookUpNameBefore,

    -- * Cache
    Cache,
    newCache,
    lookUpIn,
    lookUpInBefore,

    -- * Errors
    Problem (..),
    nameProblem,
  )
where

import Control.Concurrent.MVar (MVar, modifyMVar, newMVar)
import Control.Exception (throwIO)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAscii)
import Data.Int (Int32, Int64)
import Data.List (sortOn)
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))
import Data.Word (Word8)
import Foreign.C.Error (Errno (..))
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (mallocForeignPtrBytes, withForeignPtr)
import Foreign.Ptr (FunPtr, Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOErrorType (NoSuchThing), IOException (..))
import Millrace.Deadline (Deadline, Duration, deadlineAfter, noDeadline, seconds)
import Millrace.Internal.Constants.Names
import Millrace.Internal.HelperJob
import Millrace.Internal.LookUpError (lookUpError)
import Millrace.Internal.Socket (addressFrom)
import Network.Socket
  ( AddrInfo (..),
    AddrInfoFlag (..),
    Family (..),
    HostName,
    NameInfoFlag (..),
    ProtocolNumber,
    ServiceName,
    SockAddr,
    SocketType (..),
    defaultProtocol,
    packFamily,
    unpackFamily,
  )
import Network.Socket.Address (pokeSocketAddress, sizeOfSocketAddress)

foreign import ccall "&mrh_do_find_addresses" c_find_addresses :: FunPtr Work

foreign import ccall "&mrh_do_find_name" c_find_name :: FunPtr Work

-- | A look-up.
data Query = Query
  { -- | 'Nothing': this machine
    queryHost :: !(Maybe HostName),
    -- | a name or a number
    queryService :: !(Maybe ServiceName),
    -- | 'AF_UNSPEC': any
    queryFamily :: !Family,
    -- | 'NoSocketType': any
    queryType :: !SocketType,
    queryProtocol :: !ProtocolNumber,
    queryFlags :: [AddrInfoFlag]
  }
  deriving (Eq, Show)

-- | Addresses to connect a stream to.
host :: HostName -> ServiceName -> Query
host name service = Query (Just name) (Just service) AF_UNSPEC Stream defaultProtocol [AI_ADDRCONFIG]

-- | Addresses of this machine to listen on, for a service.
passive :: ServiceName -> Query
passive service = Query Nothing (Just service) AF_UNSPEC Stream defaultProtocol [AI_PASSIVE]

-- | Why a look-up has failed.
data Problem
  = -- | There is no such name, or it has no address.
    NoSuchName
  | -- | The host exists, but not the service.
    NoSuchService
  | -- | No name server has answered, or it says that it cannot answer now. Trying again may help.
    TemporaryFailure
  | -- | The name server refuses or fails for good.
    PermanentFailure
  | -- | The combination of family, type and flags makes no sense here.
    NotSupported
  | -- | The name has letters beyond ASCII. The caller must convert them (IDNA): look up @xn--mnchen-3ya.de@ for
    -- @münchen.de@.
    NotAscii
  | -- | another one of @getaddrinfo@'s errors, by its number
    OtherProblem !Int
  deriving (Eq, Ord, Show)

-- | Why a look-up has failed, if the error is that of a look-up.
--
-- >>> import System.IO.Error (tryIOError)
-- >>> either nameProblem (const Nothing) <$> tryIOError (lookUp (host "127.0.0.1" "no such service"))
-- Just NoSuchService
nameProblem :: IOError -> Maybe Problem
nameProblem problem = case ioe_errno problem of
  Just number | number >= firstCode -> Just (problemOf (fromIntegral (number - firstCode)))
  _ -> Nothing

-- getaddrinfo's own codes overlap with those of the system, so they are moved beyond them.
firstCode :: CInt
firstCode = fromIntegral nameErrorBase

nameError :: String -> String -> CInt -> IOError
nameError function described code =
  IOError Nothing NoSuchThing function text (Just (firstCode + code)) (Just described)
  where
    text = case problemOf (fromIntegral code) of
      NoSuchName -> "there is no such name, or it has no address of this kind"
      NoSuchService -> "the service is not known for this type of socket; give its port's number"
      TemporaryFailure -> "no answer from the name servers now; try again later"
      PermanentFailure -> "the name servers cannot answer"
      NotSupported -> "this family, type or flag is not supported"
      NotAscii -> "it has letters beyond ASCII, which must be converted first (IDNA, xn--...)"
      OtherProblem number -> "getaddrinfo's error " ++ show number

-- | Looks up the addresses of a name, in the order in which they should be tried (RFC 6724). There is at least one.
-- Names beyond ASCII are refused ('NotAscii'). Interruptible.
lookUp :: Query -> IO [AddrInfo]
lookUp = lookUpBefore noDeadline

-- | 'lookUp' with a deadline.
lookUpBefore :: Deadline -> Query -> IO [AddrInfo]
lookUpBefore deadline query
  | any ('\NUL' `elem`) [hostText, serviceText] = refused (fromIntegral errorNoName)
  | not (all isAscii (hostText ++ serviceText)) = refused codeNotAscii
  | otherwise = runJobBefore deadline what >>= either (failed function described) return
  where
    function = "Millrace.Name.lookUp"
    refused = throwIO . nameError function described
    described = fromMaybe "this machine" (queryHost query) ++ maybe "" (':' :) (queryService query)
    hostText = fromMaybe "" (queryHost query)
    serviceText = fromMaybe "" (queryService query)
    what =
      (job c_find_addresses numbers [Char8.pack hostText, Char8.pack serviceText]) {jobPool = Names} `meaning` addresses
    numbers =
      [ flagsOf (queryFlags query),
        fromIntegral (packFamily (queryFamily query)),
        typeNumber (queryType query),
        fromIntegral
          (queryProtocol query)
      ]
    typeNumber (GeneralSocketType number) = fromIntegral number

flagsOf :: [AddrInfoFlag] -> Int64
flagsOf = sum . map number
  where
    number flag = maybe 0 fromIntegral (lookup flag addressFlags)
    addressFlags =
      [ (AI_ADDRCONFIG, flagAddressConfigured),
        (AI_ALL, flagAll4),
        (AI_CANONNAME, flagCanonicalName),
        (AI_NUMERICHOST, flagNumericHost),
        (AI_NUMERICSERV, flagNumericService),
        (AI_PASSIVE, flagPassive),
        (AI_V4MAPPED, flagMapped)
      ]

-- Parses the output of mrh_do_find_addresses.
addresses :: Int64 -> Output -> IO [AddrInfo]
addresses count (Output memory bytes) = do
  canonical <- peekCString (castPtr (memory `plusPtr` (fromIntegral count * recordSize)))
  let isThere = fromIntegral count * recordSize + 1 < bytes
  mapM (record (if isThere then Just canonical else Nothing)) [0 .. fromIntegral count - 1]
  where
    record canonical i = do
      let here = memory `plusPtr` (i * recordSize) :: Ptr Word8
      family <- peekByteOff here 4 :: IO Int32
      kind <- peekByteOff here 8 :: IO Int32
      protocol <- peekByteOff here 12 :: IO Int32
      size <- peekByteOff here 16 :: IO Int32
      address <- addressFrom (here `plusPtr` recordAddress) (fromIntegral size)
      return
        AddrInfo
          { addrFlags = [],
            addrFamily = unpackFamily (fromIntegral family),
            addrSocketType = GeneralSocketType (fromIntegral kind),
            addrProtocol = fromIntegral protocol,
            addrAddress = address,
            addrCanonName = if i == 0 then canonical else Nothing
          }

-- The errors of getaddrinfo have other numbers than those of the system: they are beyond them.
failed :: String -> String -> Errno -> IO a
failed function described (Errno code)
  | code >= firstCode = throwIO (nameError function described (code - firstCode))
  | otherwise = throwIO (lookUpError function described (Errno code))

-- No function of the system has this code.
codeNotAscii :: CInt
codeNotAscii = 10000

problemOf :: Int -> Problem
problemOf code = fromMaybe (OtherProblem code) (lookup code table)
  where
    table =
      [ (fromIntegral codeNotAscii, NotAscii),
        (errorNoName, NoSuchName),
        (errorNoData, NoSuchName),
        (errorAddressFamily, NoSuchName),
        (errorService, NoSuchService),
        (errorAgain, TemporaryFailure),
        (errorFail, PermanentFailure),
        (errorFamily, NotSupported),
        (errorType, NotSupported),
        (errorFlags, NotSupported)
      ]

-- | Looks up the name of a host and of a service by an address. A host without a name is returned as a number.
-- Interruptible.
lookUpName :: SockAddr -> [NameInfoFlag] -> IO (HostName, ServiceName)
lookUpName = lookUpNameBefore noDeadline

-- | 'lookUpName' with a deadline.
lookUpNameBefore :: Deadline -> SockAddr -> [NameInfoFlag] -> IO (HostName, ServiceName)
lookUpNameBefore deadline address flags = do
  memory <- mallocForeignPtrBytes size
  withForeignPtr memory $ \pointer -> pokeSocketAddress (castPtr pointer) address
  runJobBefore deadline (what memory) >>= either (failed "Millrace.Name.lookUpName" (show address)) return
  where
    size = sizeOfSocketAddress address
    what memory =
      (job c_find_name [fromIntegral size, sum (map number flags)] [])
        { jobPool =
            Names,
          jobMemory = Just memory
        }
        `meaning` const both
    both (Output memory count) = do
      bytes <- ByteString.packCStringLen (castPtr memory, count)
      let (first, rest) = ByteString.break (== 0) bytes
      return (Char8.unpack first, Char8.unpack (ByteString.takeWhile (/= 0) (ByteString.drop 1 rest)))
    number flag = maybe 0 fromIntegral (lookup flag nameFlags)
    nameFlags =
      [ (NI_DGRAM, flagNameDatagram),
        (NI_NAMEREQD, flagNameRequired),
        (NI_NOFQDN, flagNameLocal),
        (NI_NUMERICHOST, flagNameNumericHost),
        (NI_NUMERICSERV, flagNameNumericService)
      ]

-- | A bounded number of answers that were looked up before.
data Cache = Cache
  { cacheAnswers :: !(MVar [(Query, Deadline, [AddrInfo])]),
    cacheMost :: !Int,
    cacheTime :: !Duration
  }

-- | @newCache most time@ is an empty cache for at most @most@ names, and keeps each answer for this time. The system
-- does not say how long an answer is valid, so choose a short time. Failures are not kept.
newCache :: Int -> Duration -> IO Cache
newCache most time = (\answers -> Cache answers (max 1 most) time) <$> newMVar []

-- | 'lookUp' with a cache. Threads that look up the same name at the same time may all do so.
--
-- >>> cache <- newCache 100 (minutes 1)
-- >>> map addrAddress <$> lookUpIn cache (host "127.0.0.1" "80")
-- [127.0.0.1:80]
lookUpIn :: Cache -> Query -> IO [AddrInfo]
lookUpIn = lookUpInBefore noDeadline

-- | 'lookUpIn' with a deadline ('Millrace.Deadline.isDeadlineError').
lookUpInBefore :: Deadline -> Cache -> Query -> IO [AddrInfo]
lookUpInBefore deadline cache query = do
  now <- deadlineAfter (seconds 0)
  known <- modifyMVar (cacheAnswers cache) $ \answers ->
    let valid = [answer | answer@(_, end, _) <- answers, end > now]
     in return (valid, lookup query [(asked, found) | (asked, _, found) <- valid])
  maybe ask return known
  where
    ask = do
      found <- lookUpBefore deadline query
      end <- deadlineAfter (cacheTime cache)
      modifyMVar (cacheAnswers cache) $ \answers ->
        let others = [answer | answer@(asked, _, _) <- answers, asked /= query]
            newestFirst = sortOn (\(_, its, _) -> Down its) others
         in return ((query, end, found) : take (cacheMost cache - 1) newestFirst, found)
