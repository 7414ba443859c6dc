{-# LANGUAGE OverloadedStrings #-}

-- | Requests that are answered in memory: what an application and the server decide, without a protocol.
module InMemory
  ( goodClient,
    answered,
    answeredTo,
    outcomeFor,
    getting,
    asReply,
    bodyOf,
    statusIn,
    always,
    reportingTo,
    module Millrace.Http.Exchange.Memory,
  )
where

import Control.Exception (SomeException, throwIO, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Char (toLower)
import Data.IORef (IORef, modifyIORef')
import Millrace.Http.Answer.Application (serveExchange)
import Millrace.Http.Exchange.Memory
import Network.HTTP.Types
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Wai
import Network.Wai.Handler.Millrace (Settings, defaultSettings, setOnException)
import Support (Reply (..), quiet)

-- | A client on this machine that reads everything and sends nothing.
goodClient :: Client
goodClient = goodClientAt (SockAddrInet 1 (tupleToHostAddress (127, 0, 0, 1)))

-- | What a client that reads everything receives from an application.
answered :: Application -> Request -> IO Received
answered = answeredTo goodClient id

-- | What a client receives from a server with other settings.
answeredTo :: Client -> (Settings -> Settings) -> Application -> Request -> IO Received
answeredTo client change application request = do
  (outcome, result) <- outcomeFor client change application request
  either throwIO return (result <$ outcome)

-- | What a client receives, and how the service of the request ended.
outcomeFor :: Client -> (Settings -> Settings) -> Application -> Request -> IO (Either SomeException (), Received)
outcomeFor client change application request = do
  memory <- newMemoryExchange client
  outcome <- try (serveExchange (change (quiet defaultSettings)) application (memoryExchange memory) request)
  (,) outcome <$> received memory

-- | A GET request with these fields.
getting :: RequestHeaders -> Request
getting fields = defaultRequest {requestHeaders = fields}

-- | A complete response, in the form that tests of bytes use.
asReply :: Received -> IO Reply
asReply result = case receivedFinal result of
  Just final -> do
    body <- case finalContent final of
      Content bytes Complete -> return bytes
      Content bytes Unfinished -> fail ("cut off after " ++ show (B.length bytes) ++ " bytes")
      _ -> return B.empty
    return
      ( Reply
          (statusCode (finalStatus final))
          (statusMessage (finalStatus final))
          [(C8.map toLower (CI.original name), value) | (name, value) <- finalFields final]
          body
      )
  Nothing -> fail "no response"

bodyOf :: Received -> Maybe ByteString
bodyOf result = case finalContent <$> receivedFinal result of
  Just (Content bytes _) -> Just bytes
  _ -> Nothing

statusIn :: Received -> Maybe Int
statusIn = fmap (statusCode . finalStatus) . receivedFinal

-- | An application that gives this response to all requests.
always :: Response -> Application
always response _ respond = respond response

-- | Collects what is reported to 'setOnException'.
reportingTo :: IORef [SomeException] -> Settings -> Settings
reportingTo reports = setOnException (\_ failure -> modifyIORef' reports (failure :))
