-- |
-- What an application can ask of its server besides what WAI has, given a request. Must not know: protocols.
module Millrace.Http.Context
  ( Context (..),
    contextVault,
    liftedBy,
    earlyHints,
    pauseTimeout,
    getFileInfo,
    sendEarlyHints,
    isConnected,
    onDisconnect,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Exception (bracket)
import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Char (isAlphaNum, isAscii)
import Data.Maybe (fromMaybe)
import qualified Data.Vault.Lazy as Vault
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange
import Millrace.Http.FieldValue (harmless)
import Millrace.Http.FileCache (FileCache, FileInfo, fileInfo)
import Millrace.Timer (threadDelay)
import Network.HTTP.Types (Header, ResponseHeaders, hConnection, hContentLength)
import Network.HTTP.Types.Header (hTransferEncoding)
import Network.Wai (Request, vault)
import System.IO.Unsafe (unsafePerformIO)

-- | What the functions of this module work on.
data Context = Context
  { contextExchange :: !Exchange,
    contextFiles :: !FileCache
  }

contextKey :: Vault.Key Context
contextKey = unsafePerformIO Vault.newKey
{-# NOINLINE contextKey #-}

-- | A vault with nothing else in it.
contextVault :: Context -> Vault.Vault
contextVault context = Vault.insert contextKey context Vault.empty

-- What lifts the limit of a request, if it has one.
liftKey :: Vault.Key (IO ())
liftKey = unsafePerformIO Vault.newKey
{-# NOINLINE liftKey #-}

-- | The request, of which 'pauseTimeout' also does this.
liftedBy :: IO () -> Request -> Request
liftedBy lift request = request {vault = Vault.insert liftKey lift (vault request)}

contextOf :: Request -> Maybe Context
contextOf request = Vault.lookup contextKey (vault request)

-- | Lifts the one limit that counts the application's own time: from now on 'Network.Wai.Handler.Millrace.setTotalTimeout'
-- does not concern this request, say because its response is a stream without end. The other limits hold: they count
-- only the time for which the client is waited for, so that what programs written for Warp call this for, work between
-- reading and writing, needs no pause. Does nothing in other threads than the one the application was called in, and
-- for requests that were not made by this server. Does not block.
--
-- @since 0.1.0
pauseTimeout :: Request -> IO ()
pauseTimeout request = forM_ (contextOf request) $ \(Context exchange _) ->
  ifServing exchange (liftTimeLimit exchange >> fromMaybe (return ()) (Vault.lookup liftKey (vault request)))

-- | Size and time of a file, remembered for as long as 'Network.Wai.Handler.Millrace.setFileInfoCacheDuration' says.
-- Throws an @IOError@ if it is no regular file, cannot be read, or the request was not made by this server.
--
-- @since 0.1.0
getFileInfo :: Request -> FilePath -> IO FileInfo
getFileInfo request path = case contextOf request of
  Just context -> fileInfo (contextFiles context) path
  Nothing -> ioError (userError "getFileInfo: not a request of Network.Wai.Handler.Millrace")

-- | Sends a 103 (Early Hints) response with these fields at once, ahead of the response proper (RFC 8297). May be
-- repeated. Does nothing for HTTP\/1.0 clients, once the application has responded, in other threads than the one
-- the application was called in, and for requests that were not made by this server. Parks until the kernel has taken
-- it; throws 'InvalidFieldName' for a name that is no token. Content-Length, Transfer-Encoding and Connection are left out.
--
-- > sendEarlyHints request [("Link", "</style.css>; rel=preload; as=style")]
--
-- @since 0.1.0
sendEarlyHints :: Request -> ResponseHeaders -> IO ()
sendEarlyHints request fields = forM_ (contextOf request) $ \(Context exchange _) -> ifServing exchange (inform exchange fields)

-- | The 103 response itself. No interim response is framed (RFC 9110, section 8.6; RFC 9112, section 6.1), and whether the
-- connection stays is for the final one to say.
earlyHints :: ResponseHeaders -> Either InvalidResponse ByteString
earlyHints fields = do
  fieldLines <- traverse fieldLine (filter (not . isOurs . fst) fields)
  Right (B.concat (C8.pack "HTTP/1.1 103 Early Hints\r\n" : fieldLines ++ [C8.pack "\r\n"]))
  where
    isOurs name = name `elem` [hContentLength, hTransferEncoding, hConnection]

fieldLine :: Header -> Either InvalidResponse ByteString
fieldLine (name, value)
  | C8.null text || not (C8.all isTokenCharacter text) = Left (InvalidFieldName text)
  | otherwise = Right (B.concat [text, C8.pack ": ", harmless value, C8.pack "\r\n"])
  where
    text = CI.original name

-- RFC 9110, section 5.6.2
isTokenCharacter :: Char -> Bool
isTokenCharacter character = isAscii character && (isAlphaNum character || character `elem` "!#$%&'*+-.^_`|~")

-- | Is the client still there, as far as the system knows? One that has ended its half of the connection counts as
-- gone: that it only will not send any more cannot be told from its end. Does not block. True for requests that were
-- not made by this server.
--
-- @since 0.1.0
isConnected :: Request -> IO Bool
isConnected request = maybe (return True) (fmap not . hasClientEnded . contextExchange) (contextOf request)

-- | @onDisconnect request callback action@ runs the action; if the client goes away meanwhile ('isConnected'), runs
-- the callback once, in a thread of its own. When the action ends, a callback
-- that is still running is interrupted.
--
-- > onDisconnect request (cancel query) (wait query) >>= respond . page
--
-- While bytes that nobody reads wait on the connection, such as the client's next request, the client is looked
-- after five times a second only.
--
-- @since 0.1.0
onDisconnect :: Request -> IO () -> IO a -> IO a
onDisconnect request callback action = case contextOf request of
  Nothing -> action
  Just context -> bracket (watch (contextExchange context)) killThread (const action)
  where
    watch exchange = forkIOWithUnmask (\unmask -> unmask (awaitEnd exchange >> callback))

awaitEnd :: Exchange -> IO ()
awaitEnd exchange = do
  awaitClientInput exchange
  gone <- hasClientEnded exchange
  unless gone (threadDelay pauseMicros >> awaitEnd exchange)
  where
    pauseMicros = 200000
