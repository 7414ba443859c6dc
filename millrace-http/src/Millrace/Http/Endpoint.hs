-- |
-- What all connections of a server share. Knows nothing of any one of them.
module Millrace.Http.Endpoint (Endpoint (..), newEndpoint) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.IORef (IORef, newIORef)
import Millrace.Http.Delivery (Pace, makePace)
import Millrace.Http.FileCache (FileCache, newFileCache)
import Millrace.Http.Limits (Limits, limitsOf)
import Millrace.Http.ServerState (ServerState, newServerState)
import Millrace.Http.Settings (Settings (..))

-- | A server, as its connections see it.
data Endpoint = Endpoint
  { endpointSettings :: !Settings,
    endpointLimits :: !Limits,
    endpointPace :: !Pace,
    -- | The whole Server line, CR LF included, or empty.
    endpointServerLine :: !ByteString,
    -- | The server is shutting down: no connection is kept.
    endpointClosing :: !(IORef Bool),
    endpointState :: !ServerState,
    endpointFiles :: !FileCache
  }

-- | The endpoint of a server that is about to start.
newEndpoint :: Settings -> IO Endpoint
newEndpoint settings =
  Endpoint settings limits (makePace limits) (serverLine (settingsServerName settings))
    <$> newIORef False
    <*> maybe newServerState return (settingsServerState settings)
    <*> newFileCache (settingsFdCacheSeconds settings) (settingsFileInfoCacheSeconds settings)
  where
    limits = limitsOf settings

serverLine :: ByteString -> ByteString
serverLine name
  | C8.null name = C8.empty
  | otherwise = C8.concat [C8.pack "Server: ", C8.map harmless name, C8.pack "\r\n"]
  where
    harmless character = if character < ' ' then ' ' else character
