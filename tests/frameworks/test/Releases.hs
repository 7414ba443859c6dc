{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What differs between the releases of Scotty and wai-extra that Debian has. The only module here with conditions.
module Releases (pathParameter, queryParameter, formParameter, failingAction, gzipDefaults) where

#if MIN_VERSION_scotty(0,21,0)
import Control.Exception (throwIO)
import Control.Monad.IO.Class (liftIO)
#endif
import Data.String (fromString)
import Network.Wai.Middleware.Gzip (GzipSettings)
import qualified Network.Wai.Middleware.Gzip as Gzip
import Web.Scotty (ActionM, Parsable)
import qualified Web.Scotty as Scotty

pathParameter, queryParameter, formParameter :: Parsable a => String -> ActionM a
#if MIN_VERSION_scotty(0,20,0)
pathParameter = Scotty.captureParam . fromString
queryParameter = Scotty.queryParam . fromString
formParameter = Scotty.formParam . fromString
#else
pathParameter = Scotty.param . fromString
queryParameter = Scotty.param . fromString
formParameter = Scotty.param . fromString
#endif

failingAction :: ActionM ()
#if MIN_VERSION_scotty(0,21,0)
failingAction = liftIO (throwIO (userError "fault"))
#else
failingAction = Scotty.raise "fault"
#endif

gzipDefaults :: GzipSettings
#if MIN_VERSION_wai_extra(3,1,14)
gzipDefaults = Gzip.defaultGzipSettings
#else
gzipDefaults = Gzip.def
#endif
