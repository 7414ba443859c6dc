{-# LANGUAGE OverloadedStrings #-}

-- | Which site and which route a request goes to, and what becomes of its path.
module Millrace.Cli.Serve.SitesSpec (spec) where

import Control.Exception (finally)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy.Char8 as Lazy
import qualified Data.CaseInsensitive as CI
import Data.IORef (newIORef, readIORef, writeIORef)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Options
import Millrace.Cli.Middleware.CrossOrigin
import Millrace.Cli.Middleware.SitePolicy
import Millrace.Cli.Serve.Sites
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Internal (Response (..), ResponseReceived (..))
import Test.Hspec

spec :: Spec
spec = do
  describe "chooses by host" $
    forM_
      [ ("a.org", "exact /"),
        ("A.oRg:8080", "exact /"),
        ("a.org.", "exact /"),
        ("b.a.org", "below /"),
        ("c.b.a.org", "below /"),
        ("x.deep.a.org", "deeper /"),
        ("deep.a.org", "below /"),
        ("xa.org", "any /"),
        (".a.org", "below /"),
        ("[::1]:80", "six /"),
        ("", "any /"),
        ("org", "any /")
      ]
      $ \(host, expected) -> it (show host) $ bodyFor sites [("Host", host)] "/" `shouldReturn` (200, expected)
  it "refuses a host that no site has" $ fst <$> bodyFor (init sites) [("Host", "other")] "/" `shouldReturn` 404
  describe "chooses by path" $
    forM_
      [ ("/", (200, "root /")),
        ("/x/y", (200, "root /x/y")),
        ("/api", (200, "proxy /api")),
        ("/api/x", (200, "proxy /api/x")),
        ("/apix", (200, "root /apix")),
        ("/%61pi/x", (200, "proxy /%61pi/x")),
        ("//api//x", (200, "proxy //api//x")),
        ("/docs/a/b", (200, "docs /a/b")),
        ("/docs//a", (200, "docs //a")),
        ("/d%6Fcs/%61", (200, "docs /%61")),
        ("/docs/", (200, "docs /")),
        ("/docs/inner/x", (200, "inner /x")),
        ("/docs%2Finner/x", (400, "400 Bad Request\n")),
        ("/docs/a%2Fb;v=1", (200, "docs /a%2Fb;v=1")),
        ("/x;v=1/y", (200, "root /x;v=1/y")),
        ("/%E2%82%AC%25", (200, "root /%E2%82%AC%25")),
        ("/api;v=1/x", (400, "400 Bad Request\n")),
        ("/;/api", (400, "400 Bad Request\n")),
        ("/a/..;/api", (400, "400 Bad Request\n")),
        ("/a/../api", (400, "400 Bad Request\n")),
        ("/a/%2e%2E/api", (400, "400 Bad Request\n")),
        ("/./api", (400, "400 Bad Request\n")),
        ("/a\\api", (400, "400 Bad Request\n")),
        ("/%00", (400, "400 Bad Request\n"))
      ]
      $ \(path, expected) -> it (show path) $ bodyFor routes [] path `shouldReturn` expected
  it "leads to the slash behind a directory" $ locationFor routes "/docs?q=1" `shouldReturn` (308, Just "/docs/?q=1")
  it "redirects with what is behind the route" $ do
    locationFor routes "/old/a%20b?c" `shouldReturn` (308, Just "https://new.example/x/a%20b?c")
    locationFor routes "/old" `shouldReturn` (308, Just "https://new.example/x")
  it "sets fields, and those of a route before those of its site" $ do
    response <- answerOf routes [] "/api"
    [value | ("X-From", value) <- responseHeaders response] `shouldBe` ["site"]
    [value | ("X-Of-Route", value) <- responseHeaders response] `shouldBe` ["yes"]
  describe "lets pages of other origins read what it is told, whatever a target allows" $ do
    let shared =
          [ SiteOptions
              [AnyHost]
              plainPolicy
                { policySharing =
                    Just (CrossOrigin (TheseOrigins ["https://a"]) [] [] ["X-From"] False 600)
                }
              [files [] "root"]
          ]
        granted origin =
          filter (isOfSharing . fst) . responseHeaders
            <$> answerOf shared [("Origin", name) | Just name <- [origin]] "/"
        isOfSharing name = "access-control-" `Char8.isPrefixOf` CI.foldedCase name
    it "to an origin that is allowed" $
      granted (Just "https://a")
        `shouldReturn` [("Access-Control-Allow-Origin", "https://a"), ("Access-Control-Expose-Headers", "X-From")]
    it "to an origin that is not" $ granted (Just "https://b") `shouldReturn` []
    it "to no origin" $ granted Nothing `shouldReturn` []
  describe "names the origin in Vary where the answer depends on it, for caches" $ do
    let answers who =
          [ lookupAll response
            | origin <-
                [[], [("Origin", "https://a")], [("Origin", "https://b")]],
              response <-
                [ answerOf
                    [ SiteOptions
                        [AnyHost]
                        plainPolicy
                          { policySharing =
                              Just (CrossOrigin who [] [] [] False 600),
                            policyHeaders = [("Vary", "X-Own")]
                          }
                        [files [] "root"]
                    ]
                    origin
                    "/"
                ]
          ]
        lookupAll response =
          (\fields -> ([value | ("Access-Control-Allow-Origin", value) <- fields], [value | ("Vary", value) <- fields]))
            . responseHeaders
            <$> response
    it "where all origins may read it, it is the same for all" $
      sequence (answers AnyOrigin) `shouldReturn` replicate 3 (["*"], ["X-Own"])
    it "where some may" $
      sequence (answers (TheseOrigins ["https://a"]))
        `shouldReturn` [(origin, ["Origin", "X-Own"]) | origin <- [[], ["https://a"], []]]
  it "ends all applications when the action ends" $ do
    open <- newIORef (0 :: Int)
    let counting options use = do
          readIORef open >>= writeIORef open . (+ 1)
          makeFiles named options use `finally` (readIORef open >>= writeIORef open . subtract 1)
    withSites named {makeFiles = counting} sites (\_ -> readIORef open `shouldReturn` length sites)
    readIORef open `shouldReturn` 0
  where
    sites =
      [ SiteOptions [ExactHost "a.org"] plainPolicy [files [] "exact"],
        SiteOptions [HostsBelow "a.org"] plainPolicy [files [] "below"],
        SiteOptions [HostsBelow "deep.a.org"] plainPolicy [files [] "deeper"],
        SiteOptions [ExactHost "[::1]"] plainPolicy [files [] "six"],
        SiteOptions [AnyHost] plainPolicy [files [] "any"]
      ]
    routes =
      [ SiteOptions
          [AnyHost]
          plainPolicy {policyHeaders = [("X-From", "site")]}
          [ files [] "root",
            RouteOptions
              ["api"]
              plainPolicy {policyHeaders = [("X-From", "route"), ("X-Of-Route", "yes")]}
              (PassOn (plainProxy ["1"])),
            files ["docs"] "docs",
            files ["docs", "inner"] "inner",
            RouteOptions ["old"] plainPolicy (RedirectTo "https://new.example/x")
          ]
      ]
    files path directory = RouteOptions path plainPolicy (ServeFiles (plainFiles directory))

-- | Applications that answer with what they are called, and with the path that they see.
named :: Makers
named =
  Makers
    { makeFiles = \options use -> use (saying (Char8.pack (filesDirectory options))),
      makeProxy = \_ use -> use AsTheyAre (saying "proxy"),
      madeUpstreams = pure []
    }
  where
    saying name request respond =
      respond
        ( responseLBS
            status200
            (("X-From", "application") : generous)
            (Lazy.fromStrict (name <> " " <> rawPathInfo request))
        )
    generous =
      [ ("Access-Control-Allow-Origin", "*"),
        ("access-control-allow-credentials", "true"),
        ("Access-Control-Expose-Headers", "*")
      ]

answerOf :: [SiteOptions] -> RequestHeaders -> ByteString -> IO Response
answerOf sites headers target = do
  answer <- newIORef Nothing
  let (path, query) = Char8.break (== '?') target
      request =
        defaultRequest
          { rawPathInfo =
              path,
            pathInfo = decodePathSegments path,
            rawQueryString = query,
            requestHeaderHost = lookup "Host" headers,
            requestHeaders = headers
          }
  withSites named sites $ \application -> do
    ResponseReceived <- application request (\response -> ResponseReceived <$ writeIORef answer (Just response))
    pure ()
  readIORef answer >>= maybe (fail "no answer") pure

bodyFor :: [SiteOptions] -> RequestHeaders -> ByteString -> IO (Int, Lazy.ByteString)
bodyFor sites headers path = do
  response <- answerOf sites headers path
  case response of
    ResponseBuilder status _ body -> pure (statusCode status, Builder.toLazyByteString body)
    _ -> fail "another kind of response"

locationFor :: [SiteOptions] -> ByteString -> IO (Int, Maybe ByteString)
locationFor sites path = do
  response <- answerOf sites [] path
  pure (statusCode (responseStatus response), lookup hLocation (responseHeaders response))
