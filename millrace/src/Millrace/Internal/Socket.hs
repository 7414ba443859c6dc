-- | The socket type, and the calls that set a socket up; nothing here waits.
module Millrace.Internal.Socket
  ( Socket (..)
  , Kept (..)
  , newSocketFrom
  , describe
  , keepBytes
  , keepsBytes
  , keepConnection
  , takeKept
  , firstBytes
  , checkSize
  , callOn
  , withAddress
  , addressFrom
  , makeOurs
  ) where

import Control.Exception (throwIO)
import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Foreign.C.Error (eINTR, errnoToIOError, getErrno)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Network.Socket (SockAddr)
import System.IO.Error (ioeSetErrorString, mkIOError)
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)

import Millrace.Internal.Foreign
import Millrace.Operation (Handle, adopt, descriptorOf)

-- | A socket whose operations go through Millrace. Two are equal if they are the same socket.
--
-- A socket that is no longer referred to is not closed by the garbage collector: close it, for instance with
-- @bracket@.
--
-- @since 0.1.0
data Socket = Socket !Handle !(IORef Kept)

instance Eq Socket where
  Socket a _ == Socket b _ = a == b

instance Show Socket where
  showsPrec _ (Socket handle _) = showString "<socket: " . shows (descriptorOf handle) . showChar '>'

-- | What arrived for a thread that had been interrupted meanwhile, and waits for the next one who asks.
data Kept
  = KeptNothing
  | KeptBytes !ByteString
  | KeptConnections [(Socket, SockAddr)] -- ^ the next one first
  | KeptClosed -- ^ the socket is closed, and keeps nothing any more

newSocketFrom :: CInt -> IO Socket
newSocketFrom descriptor = Socket <$> adopt descriptor <*> newIORef KeptNothing

-- | For error messages.
describe :: Socket -> String
describe = show

-- | Gives back bytes: the next receive begins with them.
keepBytes :: Socket -> ByteString -> IO ()
keepBytes (Socket _ ref) bytes = unless (ByteString.null bytes) $ atomicModifyIORef' ref (\kept -> (before kept, ()))
  where
    before KeptNothing = KeptBytes bytes
    before (KeptBytes later) = KeptBytes (bytes <> later)
    before other = other

-- | Will the next receive begin with bytes that were given back?
keepsBytes :: Socket -> IO Bool
keepsBytes (Socket _ ref) = readIORef ref >>= \kept -> return $ case kept of
  KeptBytes _ -> True
  _ -> False
{-# INLINE keepsBytes #-}

-- | Gives back a connection: the next accept returns it. 'False': the socket is closed, and the connection is still the
-- caller's.
keepConnection :: Socket -> (Socket, SockAddr) -> IO Bool
keepConnection (Socket _ ref) connection = atomicModifyIORef' ref before
  where
    before KeptNothing = (KeptConnections [connection], True)
    before (KeptConnections others) = (KeptConnections (connection : others), True)
    before other = (other, False)

-- | Looks at what is kept and leaves what the function returns first. Costs one read when nothing is kept.
takeKept :: Socket -> (Kept -> (Kept, a)) -> a -> IO a
takeKept (Socket _ ref) split nothing = do
  kept <- readIORef ref
  case kept of
    KeptNothing -> return nothing
    _ -> atomicModifyIORef' ref split
{-# INLINE takeKept #-}

-- | Repeats a call that a signal interrupted, and throws what else it fails with.
callOn :: String -> String -> IO CInt -> IO CInt
callOn attempted object call = do
  result <- call
  if result >= 0 then return result else do
    code <- getErrno
    if code == eINTR
      then callOn attempted object call
      else throwIO (errnoToIOError attempted code Nothing (Just object))

withAddress :: SockAddr -> (Ptr SockAddr -> Int -> IO a) -> IO a
withAddress address use = allocaBytes size $ \pointer -> do
  pokeSocketAddress pointer address
  use pointer size
  where size = sizeOfSocketAddress address

addressFrom :: Ptr a -> IO SockAddr
addressFrom = peekSocketAddress . castPtr

-- | Makes a descriptor that came from elsewhere what every socket of ours is: non-blocking, and closed by exec.
makeOurs :: CInt -> IO ()
makeOurs descriptor =
  void $ callOn "Millrace.Socket.fromNetworkSocket" ("descriptor " ++ show descriptor) (c_make_ours descriptor)

-- | An end of stream and an empty buffer would look the same.
checkSize :: String -> Socket -> Int -> IO ()
checkSize attempted s size
  | size > 0 = return ()
  | otherwise = throwIO (mkIOError InvalidArgument attempted Nothing (Just (describe s))
                          `ioeSetErrorString` ("the size must be positive, not " ++ show size))
{-# INLINE checkSize #-}

-- | At most so many of the bytes that are kept.
firstBytes :: Int -> Kept -> (Kept, ByteString)
firstBytes size (KeptBytes bytes)
  | ByteString.length bytes <= size = (KeptNothing, bytes)
  | otherwise = let (first, rest) = ByteString.splitAt size bytes in (KeptBytes rest, first)
firstBytes _ other = (other, ByteString.empty)
