{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | Rules for all answers of a site or a route: which users and which pages of other sites get them, and the fields
-- that they have.
module Millrace.Cli.Middleware.SitePolicy
  ( SitePolicy (..),
    SecurityHeaders (..),
    UsersOptions (..),
    plainPolicy,
    addingFields,
    Admission,
    admission,
    admittedBy,
    OwnAnswers (..),
  )
where

import Control.Applicative ((<|>))
import Control.Exception (throwIO, try)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Maybe (fromMaybe)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.NameBytes
import Millrace.Cli.Middleware.BasicAuthentication
import Millrace.Cli.Middleware.CrossOrigin
import Network.HTTP.Types.Header (hVary)
import Network.Wai

-- | The rules of a site or a route. They hold for files, proxies and redirects alike.
data SitePolicy = SitePolicy
  { -- | Fields of all answers. They replace those of the same name, except Vary.
    policyHeaders :: [(String, String)],
    policySecurity :: SecurityHeaders,
    -- | The origins whose pages may read the answers. 'Nothing': the answers say nothing about it.
    policySharing :: Maybe CrossOrigin,
    -- | The users who get answers, after they have given a password. 'Nothing': everybody does.
    policyUsers :: Maybe UsersOptions
  }
  deriving (Eq, Show)

-- | Whether answers have the fields of "Millrace.Cli.Middleware.SitePolicy".
data SecurityHeaders
  = NoSecurityHeaders
  | UsualSecurityHeaders
  deriving (Eq, Show)

-- | Names and passwords.
data UsersOptions = UsersOptions
  { usersFile :: FilePath,
    -- | What the password is for, as clients show it.
    usersRealm :: String
  }
  deriving (Eq, Show)

-- | No fields, and everybody gets answers.
plainPolicy :: SitePolicy
plainPolicy = SitePolicy [] NoSecurityHeaders Nothing Nothing

-- | Adds the fields that a site or a route has.
addingFields :: SitePolicy -> Middleware
addingFields policy = setting (policyHeaders policy) . secured
  where
    secured = if policySecurity policy == UsualSecurityHeaders then securing else id

-- | The checks that a request must pass: of the page that it comes from, and of the user.
data Admission = Admission (Maybe Middleware) (Maybe Middleware)

-- | A site's admission, then that of its route. The route's settings replace the site's, each where the route has one.
instance Semigroup Admission where
  Admission sharing' users <> Admission ofRoute usersOfRoute = Admission (ofRoute <|> sharing') (usersOfRoute <|> users)

-- | Reads the file of users, if there is one. Throws 'FileFailure'.
admission :: SitePolicy -> IO Admission
admission policy = Admission (sharing <$> policySharing policy) <$> traverse asked (policyUsers policy)

-- | Whether the server's own answers, such as the demand for a password, are adapted.
data OwnAnswers
  = AsTheyAre
  | -- | With a page of the site, for example.
    Adapted (Response -> IO Response)

-- | Preflight requests need no password: browsers send them without one.
admittedBy :: OwnAnswers -> Admission -> Middleware
admittedBy own (Admission sharing' users) = fromMaybe id sharing' . maybe id (adapting own) users

-- Adapts what a middleware answers in place of the application.
adapting :: OwnAnswers -> Middleware -> Middleware
adapting AsTheyAre middleware = middleware
adapting (Adapted adapt) middleware = \application request respond -> do
  answerer <- newIORef ByMiddleware
  let reached asked' respond' = writeIORef answerer ByApplication >> application asked' respond'
      answered response =
        readIORef answerer >>= \by -> if by == ByApplication then respond response else adapt response >>= respond
  middleware reached request answered

data Answerer = ByMiddleware | ByApplication
  deriving (Eq)

asked :: UsersOptions -> IO Middleware
asked options = do
  content <- try (readTextFile (usersFile options)) >>= either (throwIO . unreadable) pure
  users <- readUsers content >>= either (throwIO . unusable) pure
  asking (nameBytes (usersRealm options)) users
  where
    attempt = "use the users in " <> usersFile options
    unreadable failure = unusable (ioe_description (failure :: IOException))
    unusable reason = FileFailure ["users", "file"] (usersFile options) (Failure attempt reason remedy)
    remedy = "'users' names a file with lines NAME:HASH. 'htpasswd -B -c FILE NAME' makes one."

-- Adds these fields. Vary keeps its other values: without them a cache would give the answer for one client to another.
setting :: [(String, String)] -> Middleware
setting [] application = application
setting fields application =
  \request respond ->
    application request (respond . mapResponseHeaders (\others -> filter ((`notElem` replaced) . fst) others <> chosen))
  where
    chosen = [(CI.mk (Char8.pack name), Char8.pack value) | (name, value) <- fields]
    replaced = filter (/= hVary) (map fst chosen)

------------------------------------------------------------------------------------------------------------------------
-- Security headers

-- | Adds those that an answer does not have:
--
-- * @X-Content-Type-Options: nosniff@: a text is not run as a script because it looks like one.
-- * @X-Frame-Options: SAMEORIGIN@: pages of others cannot show this one in a frame, to have it clicked on unseen.
-- * @Referrer-Policy: strict-origin-when-cross-origin@: other sites learn where a visitor comes from, not from which
--   page.
-- * @Cross-Origin-Opener-Policy: same-origin@: a page that was opened from another site has no handle on it.
--
-- @Strict-Transport-Security@ is not among them, because it cannot be taken back for as long as it says.
securing :: Middleware
securing application request respond = application request (respond . mapResponseHeaders with)
  where
    with headers = headers <> [field | field@(name, _) <- usual, name `notElem` map fst headers]
    usual =
      [ ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "SAMEORIGIN"),
        ("Referrer-Policy", "strict-origin-when-cross-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin")
      ]
