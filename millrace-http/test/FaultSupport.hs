{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of faults share.
module FaultSupport
  ( awaitReport,
    twice,
    streaming,
    Fault (..),
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (Exception (..))
import qualified Data.ByteString as B
import Data.IORef
import Network.HTTP.Types
import Network.Wai
import Support

-- | Waits until something has been reported.
awaitReport :: IORef [a] -> IO ()
awaitReport reports =
  untilQuick
    (fmap (\reported -> if null reported then Nothing else Just ()) (threadDelay 10000 >> readIORef reports))

-- | Two requests, pipelined.
twice :: B.ByteString
twice = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"

-- | Answers with a stream.
streaming :: StreamingBody -> Application
streaming body _ respond = respond (responseStream status200 [] body)

-- | What the applications throw.
data Fault = Fault
  deriving (Eq, Show)

instance Exception Fault
