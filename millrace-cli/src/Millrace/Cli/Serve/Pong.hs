{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | A very small answer, for measuring what a server costs.
module Millrace.Cli.Serve.Pong
  ( pong,
  )
where

import Network.HTTP.Types (hContentType, status200)
import Network.Wai (Application, responseLBS)

-- | Answers every request with 200 and the text @Pong!@.
pong :: Application
pong _request respond = respond (responseLBS status200 [(hContentType, "text/plain")] "Pong!")
