-- Must not know: servers, requests.

-- | A directory to serve, and what is said about how.
module Millrace.Cli.Files.Site (Site (..), plainSite) where

import Millrace.Cli.Files.CacheRule (CacheRule)
import Millrace.Cli.Files.Compressor
import Millrace.Cli.Files.ErrorPage
import Millrace.Cli.Files.FileCache
import Millrace.Cli.Files.Policy (Fallback (..))
import Millrace.Cli.Files.Root

-- | A directory to serve, and how.
data Site = Site
  { siteRoot :: Root,
    siteCache :: Maybe FileCache,
    -- | Does a directory without an index answer with a list of its files?
    siteListing :: Bool,
    siteFallback :: Fallback,
    siteErrorPages :: Maybe ErrorPages,
    -- | 'Nothing': nothing is compressed.
    siteCompressor :: Maybe Compressor,
    -- | The last rule that fits a file decides.
    siteCacheRules :: [CacheRule],
    -- | Called with the name of a request in messages and the reason why the system could not look it up: the disk
    -- failed, or there was no memory or no descriptor. The answer is 500 or 503.
    siteOnFault :: String -> String -> IO ()
  }

-- | A site without cache, listings, pages for errors and compression. Faults are reported to nobody.
plainSite :: Root -> Site
plainSite root =
  Site
    { siteRoot = root,
      siteCache = Nothing,
      siteListing = False,
      siteFallback = NotFound,
      siteErrorPages = Nothing,
      siteCompressor = Nothing,
      siteCacheRules = [],
      siteOnFault = \_ _ -> pure ()
    }
