{-# LANGUAGE OverloadedStrings #-}

-- | Who gets the answers of a site or a route, and what all of them have. Must not know: servers.
module Millrace.Cli.Manner
  ( Manner (..),
    SecurityHeaders (..),
    UsersOptions (..),
    plainManner,
    mannered,
  )
where

import Control.Exception (throwIO, try)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import qualified Data.Text as Text
import Data.Text.Encoding (encodeUtf8)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.BasicAuthentication
import Millrace.Cli.CrossOrigin
import Millrace.Cli.Failure
import Millrace.Cli.SecurityHeaders
import Network.Wai

-- | What a site or a route says beside what it does.
--
-- @since 0.1.0
data Manner = Manner
  { -- | Fields of all answers. They replace those of the same name.
    mannerHeaders :: [(String, String)],
    mannerSecurity :: SecurityHeaders,
    -- | Whose pages may read the answers. 'Nothing': as browsers do without being told.
    mannerSharing :: Maybe CrossOrigin,
    -- | Who must say a password. 'Nothing': everybody gets answers.
    mannerUsers :: Maybe UsersOptions
  }
  deriving (Eq, Show)

-- | Whether answers have the fields of "Millrace.Cli.SecurityHeaders".
--
-- @since 0.1.0
data SecurityHeaders
  = NoSecurityHeaders
  | UsualSecurityHeaders
  deriving (Eq, Show)

-- | Names and passwords.
--
-- @since 0.1.0
data UsersOptions = UsersOptions
  { usersFile :: FilePath,
    -- | What clients are told that the password is for.
    usersRealm :: String
  }
  deriving (Eq, Show)

-- | Nothing of it.
--
-- @since 0.1.0
plainManner :: Manner
plainManner = Manner [] NoSecurityHeaders Nothing Nothing

-- | Reads the file of users, if there is one. Throws 'Failure'. Questions of browsers before a request need no password, because they
-- have none.
--
-- @since 0.1.0
mannered :: Manner -> IO Middleware
mannered manner = do
  users <- maybe (pure id) asked (mannerUsers manner)
  pure (setting (mannerHeaders manner) . secured . maybe id sharing (mannerSharing manner) . users)
  where
    secured = if mannerSecurity manner == UsualSecurityHeaders then securing else id

asked :: UsersOptions -> IO Middleware
asked options = do
  content <- try (ByteString.readFile (usersFile options)) >>= either (throwIO . unreadable) pure
  users <- readUsers content >>= either (throwIO . unusable) pure
  asking (encodeUtf8 (Text.pack (usersRealm options))) users
  where
    attempt = "use the users in " <> usersFile options
    unreadable failure = Failure attempt (ioe_description (failure :: IOException)) remedy
    unusable reason = Failure attempt reason remedy
    remedy = "'users' names a file with lines NAME:HASH. 'htpasswd -B -c FILE NAME' makes one."

setting :: [(String, String)] -> Middleware
setting [] application = application
setting fields application = \request respond -> application request (respond . mapResponseHeaders (\others -> filter ((`notElem` map fst chosen) . fst) others <> chosen))
  where
    chosen = [(CI.mk (Char8.pack name), Char8.pack value) | (name, value) <- fields]
