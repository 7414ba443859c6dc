{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | The sites of a configuration as one application: chooses by the host that is asked for, and then by the path.
module Millrace.Cli.Serve.Sites
  ( Makers (..),
    withSites,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (toLower)
import Data.Foldable (asum, find)
import Data.List (isPrefixOf, sortOn)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))
import Millrace.Cli.Base.HostField (nameOfHost)
import Millrace.Cli.Base.NameBytes (nameBytes)
import Millrace.Cli.Base.Refusal
import Millrace.Cli.Base.RequestPath (encodeBeyondAscii, encodeSegment)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Options (FilesOptions, ProxyOptions)
import Millrace.Cli.Files.Readings
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Cli.Observe.Upstream (Upstream)
import Network.HTTP.Types
import Network.Wai

-- | Functions that make the applications of routes. Each application exists while an action runs.
data Makers = Makers
  { makeFiles :: FilesOptions -> (Application -> IO ()) -> IO (),
    -- | Also decides how the server's own answers on the proxy's routes are adapted.
    makeProxy :: ProxyOptions -> (OwnAnswers -> Application -> IO ()) -> IO (),
    -- | The targets of all proxies that exist now.
    madeUpstreams :: IO [Upstream]
  }

-- | Runs an action with the application of these sites. A request is refused if its host belongs to no site, or if
-- programs could read its path as that of another route.
withSites :: Makers -> [SiteOptions] -> (Application -> IO ()) -> IO ()
withSites makers sites use = gathered withSite sites (use . serving . tableOf)
  where
    withSite found continue = do
      ofSite <- admission (sitePolicy found)
      gathered (withRoute makers ofSite) (siteRoutes found) $ \routes ->
        continue (siteHosts found, addingFields (sitePolicy found) (answering (sortOn (Down . length . fst) routes)))
    serving table request respond = case siteFor table (requestHeaderHost request) of
      Nothing -> respond (refusal notFound404 [])
      Just site -> site request respond

-- Runs an action with what a function makes of each element of a list. They end in the opposite order.
gathered :: (a -> (b -> IO ()) -> IO ()) -> [a] -> ([b] -> IO ()) -> IO ()
gathered with = go []
  where
    go made [] use = use (reverse made)
    go made (one : others) use = with one (\found -> go (found : made) others use)

------------------------------------------------------------------------------------------------------------------------
-- Hosts

data Table = Table (Map ByteString Application) (Map ByteString Application) (Maybe Application)

tableOf :: [([HostPattern], Application)] -> Table
tableOf sites = Table (Map.fromList exact) (Map.fromList below) (lookup AnyHost entries)
  where
    entries = [(host, application) | (hosts, application) <- sites, host <- hosts]
    exact = [(Char8.pack name, application) | (ExactHost name, application) <- entries]
    below = [(Char8.pack name, application) | (HostsBelow name, application) <- entries]

-- The whole name, or else the longest end of it, or else any host.
siteFor :: Table -> Maybe ByteString -> Maybe Application
siteFor (Table exact below others) host = asum [named, others]
  where
    named = do
      name <- canonical <$> (nameOfHost =<< host)
      asum (Map.lookup name exact : map (`Map.lookup` below) (endsOf name))
    endsOf name = case Char8.uncons (Char8.dropWhile (/= '.') name) of
      Just (_, rest) -> rest : endsOf rest
      Nothing -> []

-- As patterns have it: without a dot at its end, in lower case.
canonical :: ByteString -> ByteString
canonical name = Char8.map toLower (fromMaybe name (Char8.stripSuffix "." name))

------------------------------------------------------------------------------------------------------------------------
-- Paths

-- The application of a route, with the parts of its path. The route's 'users' and 'cors' replace those of its
-- site: one field Authorization could not satisfy two lists of users.
withRoute :: Makers -> Admission -> RouteOptions -> (([ByteString], Application) -> IO ()) -> IO ()
withRoute makers ofSite route use = do
  ofRoute <- admission (routePolicy route)
  let finishedWith own application =
        use (parts, addingFields (routePolicy route) (admittedBy own (ofSite <> ofRoute) application))
      finished = finishedWith AsTheyAre
  case routeAction route of
    ServeFiles options -> makeFiles makers options (finished . belowPath parts (toDirectory parts))
    PassOn options -> makeProxy makers options finishedWith
    RedirectTo target ->
      finished (belowPath parts (redirectingTo (Char8.pack target)) (redirectingTo (Char8.pack target)))
  where
    parts = map nameBytes (routePath route)

-- Chooses the route of a request. A path belongs to one route in all the ways in which programs may read it, or it is
-- refused. Otherwise a client could choose the rules that apply to a file or to a program behind a proxy.
answering :: [([ByteString], Application)] -> Application
answering [(_, application)] = application
answering routes = \request respond -> case map routeOf <$> readings (rawPathInfo request) of
  Just (found : others)
    | all ((== fmap fst found) . fmap fst) others ->
      maybe (respond (refusal notFound404 [])) (\(_, application) -> application request respond) found
  _ -> respond (refusal badRequest400 [])
  where
    routeOf parts = find ((`isPrefixOf` parts) . fst) routes

-- Removes these parts from the path of a request. The first application is for a request that has nothing behind them.
belowPath :: [ByteString] -> Application -> Middleware
belowPath [] _ application request respond = application request respond
belowPath parts bare application request respond = case restOf parts (rawPathInfo request) of
  Nothing -> respond (refusal notFound404 [])
  Just rest ->
    (if Char8.null rest then bare else application)
      request
        { rawPathInfo =
            rest,
          pathInfo = decodePathSegments rest
        }
      respond

-- The links of a page count from the slash behind the directory's name.
toDirectory :: [ByteString] -> Application
toDirectory parts request respond =
  respond
    ( refusal
        permanentRedirect308
        [(hLocation, foldMap (("/" <>) . encodeSegment) parts <> "/" <> encodeBeyondAscii (rawQueryString request))]
    )

restOf :: [ByteString] -> ByteString -> Maybe ByteString
restOf [] path = Just path
restOf (part : others) path
  | urlDecode False segment == part = restOf others rest
  | otherwise = Nothing
  where
    (segment, rest) = Char8.break (== '/') (Char8.dropWhile (== '/') path)

redirectingTo :: ByteString -> Application
redirectingTo target request respond
  | Char8.take 1 (rawPathInfo request) `elem` ["/", ""] =
    respond
      ( refusal
          permanentRedirect308
          [(hLocation, target <> encodeBeyondAscii (rawPathInfo request <> rawQueryString request))]
      )
  | otherwise = respond (refusal badRequest400 [])
