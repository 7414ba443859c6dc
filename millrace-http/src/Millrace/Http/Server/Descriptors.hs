-- |
-- The descriptors of the process: which of them connections may have, and which are for files, logs and other servers. Must not
-- know: connections.
--
-- The system gives a new descriptor the lowest number that is free. So the number of an accepted socket shows how many descriptors the
-- whole process has open, whoever opened them, and no counting is needed: if the number is beyond the share of connections, all
-- lower ones are in use.
module Millrace.Http.Server.Descriptors (Share, connectionShare, shareOf, isBeyond, isBeyondNumber, hasRoom, renumbered, isStarving) where

import Control.Exception (bracket, catch, try)
import Data.Maybe (isJust)
import Foreign.C.Error (Errno (..), eMFILE, eNFILE)
import Foreign.C.Types (CInt)
import GHC.IO.Exception (IOException (..))
import Millrace.Http.System (descriptorLimit)
import Millrace.Socket
import Millrace.Timer (timeout)
import Millrace.Wait (threadWaitRead)

-- | The descriptors that connections may have: those with numbers below the first one here. The second one is the process's limit.
data Share = Share !Int !Int
  deriving (Eq, Show)

-- | The share of this process, as its soft limit is now, with so many descriptors reserved for other purposes. 'Nothing': there is no
-- limit.
connectionShare :: Maybe Int -> IO (Maybe Share)
connectionShare reserved = fmap (shareOf reserved) <$> descriptorLimit

-- | The same for a limit. Without a number of the settings, an eighth of the limit is reserved, at least 16 and at most 1024.
shareOf :: Maybe Int -> Int -> Share
shareOf reserved limit = Share (max smallest (limit - maybe (max 16 (min 1024 (limit `quot` 8))) (max 0) reserved)) limit
  where
    -- With less hardly any client would be served: the lowest numbers are those of standard streams, listeners and managers.
    smallest = min limit 24

-- | Whether a socket has a descriptor beyond the share.
isBeyond :: Share -> Socket -> IO Bool
isBeyond share s = isBeyondNumber share <$> unsafeFdSocket s

-- | The same for its number. The numbers of simulated machines are beyond the limit, and do not count.
isBeyondNumber :: Share -> CInt -> Bool
isBeyondNumber (Share end limit) number = fromIntegral number >= end && fromIntegral number < limit

-- | Whether a descriptor within the share is free.
hasRoom :: Share -> IO Bool
hasRoom share = either (const False) not <$> numbered
  where
    numbered :: IO (Either IOException Bool)
    numbered = try (bracket (socket AF_INET Stream defaultProtocol) close (isBeyond share))

-- | The same connection with the lowest number that is free, so that it does not stay among those that are left to others.
renumbered :: Socket -> IO Socket
renumbered s = (socketToFd s >>= mkSocket) `catch` kept
  where
    -- No number was free any more. The socket is still there.
    kept :: IOException -> IO Socket
    kept _ = return s

-- | Whether a connection waits at a listening socket, and no descriptor is free for it.
isStarving :: Socket -> IO Bool
isStarving listener = do
  left <- isDescriptorLeft
  if left then return False else (isJust <$> timeout 1000 (withFdSocket listener (threadWaitRead . fromIntegral))) `catch` gone
  where
    gone :: IOException -> IO Bool
    gone _ = return False

isDescriptorLeft :: IO Bool
isDescriptorLeft =
  (True <$ bracket (socket AF_INET Stream defaultProtocol) close return) `catch` \failure ->
    return (ioe_errno failure `notElem` [Just number | Errno number <- [eMFILE, eNFILE]])
