{-# LANGUAGE OverloadedStrings #-}

-- Must not know: protocols.

-- |
-- What an application can say and ask about the trailers of a response and a request, with the names of Warp.
module Millrace.Http.Trailers
  ( HTTP2Data,
    http2dataPushPromise,
    http2dataTrailers,
    defaultHTTP2Data,
    PushPromise,
    promisedPath,
    promisedFile,
    promisedResponseHeaders,
    promisedWeight,
    defaultPushPromise,
    TrailersMaker,
    NextTrailersMaker (..),
    mayBeTrailer,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.CaseInsensitive as CI
import Data.Set (Set)
import qualified Data.Set as Set
import Network.HTTP.Types (HeaderName, ResponseHeaders)

-- | Makes the trailers of a response. It gets each piece of the body as it is written, and 'Nothing' at the end. Then
-- it returns the trailers; before, it returns the maker for the rest. The pieces may be other ones than the application
-- wrote.
--
-- > checksum :: Context SHA256 -> TrailersMaker
-- > checksum context (Just bytes) = return (NextTrailersMaker (checksum (hashUpdate context bytes)))
-- > checksum context Nothing = return (Trailers [("x-checksum", digest context)])
type TrailersMaker = Maybe ByteString -> IO NextTrailersMaker

-- | What a 'TrailersMaker' returns.
data NextTrailersMaker
  = NextTrailersMaker !TrailersMaker
  | Trailers ResponseHeaders

-- | What an application can say about a response of HTTP\/2. Make one from 'defaultHTTP2Data'.
data HTTP2Data = HTTP2Data
  { -- | Ignored: nothing is pushed. Browsers no longer take it.
    http2dataPushPromise :: [PushPromise],
    -- | Makes the trailers, while and after the body is sent.
    http2dataTrailers :: TrailersMaker
  }

-- | No trailers.
defaultHTTP2Data :: HTTP2Data
defaultHTTP2Data = HTTP2Data [] none
  where
    none (Just _) = return (NextTrailersMaker none)
    none Nothing = return (Trailers [])

-- | A response that Warp would push. Here it is ignored.
data PushPromise = PushPromise
  { -- | The path of the request that it answers.
    promisedPath :: ByteString,
    -- | The file with its body.
    promisedFile :: FilePath,
    -- | The fields of its head.
    promisedResponseHeaders :: ResponseHeaders,
    -- | Its priority, from 1 to 256.
    promisedWeight :: Int
  }
  deriving (Eq, Ord, Show)

-- | Nothing in particular.
defaultPushPromise :: PushPromise
defaultPushPromise = PushPromise B.empty "" [] 16

-- | May a field with this name be a trailer? Not if it says where a message ends, where it goes, who sends it, or how
-- to treat it: a recipient that takes trailers for fields of the head would let them change what was decided by the
-- head (RFC 9110, section 6.5.1). The server leaves such trailers out, in requests and in responses.
--
-- >>> map mayBeTrailer ["grpc-status", "Content-Length", "authorization"]
-- [True,False,False]
mayBeTrailer :: HeaderName -> Bool
mayBeTrailer name = CI.foldedCase name `Set.notMember` onlyInHeads

onlyInHeads :: Set ByteString
onlyInHeads =
  Set.fromList $
    [ "connection",
      "content-length",
      "keep-alive",
      "proxy-connection",
      "te",
      "trailer",
      "transfer-encoding",
      "upgrade",
      "host"
    ]
      ++ [ "authorization",
           "cookie",
           "proxy-authenticate",
           "proxy-authentication-info",
           "proxy-authorization",
           "set-cookie",
           "www-authenticate"
         ]
      ++ [ "cache-control",
           "expect",
           "if-match",
           "if-modified-since",
           "if-none-match",
           "if-range",
           "if-unmodified-since",
           "max-forwards",
           "pragma",
           "range"
         ]
      ++ ["age", "date", "expires", "location", "retry-after", "vary", "warning"]
      ++ ["content-encoding", "content-range", "content-type"]
