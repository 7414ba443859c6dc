-- |
-- The settings of a server in the form that the engine of HTTP\/3 takes. Must not know: sockets, servers.
module Millrace.Http.Http3.Settings (engineLimits, credentialsOf) where

import Control.Exception (throwIO)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef (readIORef)
import Data.Maybe (isJust)
import Data.Word (Word16)
import Millrace.Http.FieldValue (harmless)
import Millrace.Http.Http3.Engine (Credentials, Early (..), EngineLimits (..), Pem (..), newCredentials)
import Millrace.Http.Server.Limits
import Millrace.Http.Server.Settings (Allowance (..), Http2Settings (..), Settings (..))
import Millrace.Http.Tls.Settings (CertSettings (..), EarlyData (..), TLSSettings (..))

-- | The limits of HTTP\/2 count for HTTP\/3, too. The numbers are the beginning of connection IDs, and the bytes of the largest datagram.
engineLimits :: Word16 -> Int -> TLSSettings -> Settings -> EngineLimits
engineLimits owner datagram tls settings =
  EngineLimits
    { limitStreams = http2MaximumStreams own,
      limitFields = fieldsMax limits,
      limitHead = headMax limits,
      limitTarget = targetMax limits,
      limitStreamWindow = http2StreamWindow own,
      limitConnectionWindow = connectionWindow,
      limitWindow = maximum [http2MaximumWindow own, http2StreamWindow own, connectionWindow],
      limitTable = http2CompressionTable own,
      limitSkipped = skippedBytesMax limits,
      limitResets = resets,
      limitResetsPerSecond = resetsPerSecond,
      limitConnections = settingsMaximumConnections settings,
      limitIdle = if idleMicros limits == 0 then 0 else max 1 (idleMicros limits `quot` 1000),
      limitHandshake = 1000 * tlsHandshakeSeconds tls,
      limitDatagram = datagram,
      limitAllowed = headAllowed limits,
      limitEarly = case tlsEarlyData tls of
        NoEarlyData -> ServesNothingEarly
        SafeEarlyData -> ServesEarly,
      limitOwner = owner,
      limitServerName = harmless (settingsServerName settings)
    }
  where
    own = settingsHttp2 settings
    limits = limitsOf settings
    Allowance resets resetsPerSecond = http2Resets own
    -- In HTTP/3 the bytes of heads count for it, too: uploads that nobody reads yet must leave room for further requests.
    connectionWindow = max 1048576 (http2ConnectionWindow own)

-- | Reads the certificates. Throws an @IOError@ if they cannot be read or used.
credentialsOf :: TLSSettings -> IO Credentials
credentialsOf settings
  | isJust (tlsCredentials settings) || isJust (tlsCredentialsFor settings) =
    throwIO (userError "HTTP/3: certificates must be given as files or bytes, not as tlsCredentials or tlsCredentialsFor, because another library than OpenSSL uses them")
  | null (certSettings settings) = throwIO (userError "HTTP/3: there is no certificate")
  | otherwise = mapM load (certSettings settings) >>= newCredentials
  where
    load source = case source of
      CertFromFile certificate chain key -> Pem <$> (joined <$> mapM B.readFile (certificate : chain)) <*> B.readFile key
      CertFromMemory certificate chain key -> return (Pem (joined (certificate : chain)) key)
      CertFromRef certificate chain key -> Pem <$> (joined <$> mapM readIORef (certificate : chain)) <*> readIORef key
    -- A file may end without a line end.
    joined = B.intercalate (C8.pack "\n")
