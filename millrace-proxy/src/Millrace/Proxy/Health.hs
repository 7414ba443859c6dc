{-# LANGUAGE OverloadedStrings #-}

-- Must not know: WAI.

-- | Active health checks of targets.
module Millrace.Proxy.Health
  ( watchHealth,
  )
where

import Control.Exception (bracket, finally, mask, throwIO)
import Control.Monad (unless, when)
import qualified Data.ByteString as ByteString
import Data.IORef
import Millrace.Deadline
import qualified Millrace.HttpClient.Http2 as Http2
import Millrace.Proxy.Exchange (reasonOf, synchronously)
import Millrace.Proxy.Link
import Millrace.Proxy.Member
import Millrace.Proxy.Problem
import Millrace.Proxy.ResponseHead
import Millrace.Proxy.Settings
import Millrace.Proxy.SharedConnections (transportOf)
import Millrace.Proxy.Target
import Millrace.Timer (sleep)
import Network.HTTP.Types (statusCode)

-- | Checks a target again and again, until it is interrupted.
watchHealth :: Settings -> Secured -> ActiveCheck -> Member -> IO ()
watchHealth settings secured check member = go (0 :: Int) (0 :: Int)
  where
    go failures successes = do
      outcome <- synchronously (ask settings secured check member)
      well <- readIORef (memberIsWell member)
      case outcome of
        Right () -> do
          when (not well && successes + 1 >= checkSuccesses check) $ do
            writeIORef (memberIsWell member) True
            noteSuccess member
            onHealth settings (memberTarget member) Nothing
          pause
          go 0 (successes + 1)
        Left failure -> do
          when (well && failures + 1 >= checkFailures check) $ do
            writeIORef (memberIsWell member) False
            onHealth settings (memberTarget member) (Just (reasonOf failure))
          pause
          go (failures + 1) 0
    pause = sleep (checkInterval check)

ask :: Settings -> Secured -> ActiveCheck -> Member -> IO ()
ask settings secured check member = do
  deadline <- deadlineAfter (checkLimit check)
  status <- mask $ \restore -> do
    (link, version) <- connectLink deadline secured target
    case version of
      Version1 -> restore (askInBytes deadline link) `finally` linkClose link
      Version2 ->
        bracket
          (Http2.openConnection deadline Http2.defaultSettings (transportOf link))
          Http2.closeConnection
          (restore . askOnStream deadline)
  unless (checkAccepts check status) (wrong ("the status is " <> show (statusCode status)))
  where
    target = memberTarget member
    -- There is no client whose Host could be kept.
    authority = case hostField settings of
      FixedHost name -> name
      _ -> memberAuthority member
    wrong :: String -> IO a
    wrong = throwIO . Problem (Just target) . BadResponse
    askInBytes deadline link = do
      linkSend
        link
        deadline
        [ ByteString.concat
            [ "GET ",
              checkPath check,
              " HTTP/1.1\r\nHost: ",
              authority,
              "\r\nUser-Agent: millrace\r\nConnection: close\r\n\r\n"
            ]
        ]
      receive deadline link ByteString.empty
    askOnStream deadline connection =
      bracket (Http2.beginExchange connection fields Http2.NothingFollows) ended (statusOn deadline)
    statusOn deadline begun = case begun of
      Http2.Begun exchange -> finalStatus deadline exchange
      _ -> wrong "it takes no request"
    ended begun = case begun of
      Http2.Begun exchange -> Http2.endExchange exchange
      _ -> return ()
    finalStatus deadline exchange = do
      status <- Http2.headStatus <$> Http2.receiveHead deadline exchange
      if status < 200 then finalStatus deadline exchange else return (toEnum status)
    fields =
      [ (name, value, Http2.Kept)
        | (name, value) <-
            [ (":method", "GET"),
              (":scheme", if isProtected (targetScheme target) then "https" else "http"),
              (":authority", authority),
              (":path", checkPath check),
              ("user-agent", "millrace")
            ]
      ]
    receive deadline link earlier' = do
      bytes <- linkReceive link deadline 16384
      when (ByteString.null bytes) (wrong "it ended before the response")
      case parseResponseHead (earlier' <> bytes) of
        Parsed found _ -> return (headStatus found)
        Malformed reason -> wrong reason
        Incomplete
          | ByteString.length earlier' > headBytesMax (limits settings) -> wrong "the head is too long"
          | otherwise -> receive deadline link (earlier' <> bytes)
