{-# LANGUAGE OverloadedStrings #-}

-- | Applications for the tests, and clients.
module Applications (WithClient, telling) where

import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import qualified Millrace.Socket as Socket
import Millrace.Tls hiding (Negotiated (..))
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support

type WithClient = Socket.PortNumber -> (Client -> IO ()) -> IO ()

-- | Answers with what the application knows about the connection.
telling :: Application
telling request respond =
  respond . responseLBS status200 [] . L.fromStrict . C8.unwords $
    [ C8.pack (show (isSecure request)),
      rawPathInfo request,
      maybe "-" negotiatedVersion (getNegotiated request),
      maybe
        "-"
        (C8.pack . certificateSubject)
        (clientCertificate request)
    ]
