-- | What can be told of a request when it is over. Knows nothing of who wants to know.
module Millrace.Cli.Observation
  ( Observation (..)
  , observed
  ) where

import Control.Exception (finally)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Internal (Response (..))

-- | A request that is over.
--
-- @since 0.1.0
data Observation = Observation
  { observedRequest :: Request
  , observedStatus :: Status
  -- ^ 500 if the application threw before it responded
  , observedBytes :: Maybe Int
  -- ^ of the body, as announced; 'Nothing' if the response does not say
  , observedNanoseconds :: Word64
  -- ^ from the head of the request to the last byte that was handed to the server
  }

-- | An application whose requests are reported when they are over, in the thread that served them, however they end.
--
-- @since 0.1.0
observed :: (Observation -> IO ()) -> Middleware
observed report application request respond = do
  start <- getMonotonicTimeNSec
  seen <- newIORef (internalServerError500, Nothing)
  let note response = do
        writeIORef seen (responseStatus response, announcedBytes request response)
        respond response
      finish = do
        (status, bytes) <- readIORef seen
        end <- getMonotonicTimeNSec
        report (Observation request status bytes (end - start))
  application request note `finally` finish

announcedBytes :: Request -> Response -> Maybe Int
announcedBytes request response
  | requestMethod request == methodHead || statusCode (responseStatus response) `elem` [204, 304] = Just 0
  | ResponseFile _ _ _ (Just part) <- response = Just (fromInteger (filePartByteCount part))
  | otherwise = fst <$> (lookup hContentLength (responseHeaders response) >>= Char8.readInt)
