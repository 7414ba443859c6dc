{-# LANGUAGE OverloadedStrings #-}

-- | Configuration files: what they mean, what is wrong with them, and where.
module Millrace.Cli.Config.ConfigurationSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isLower)
import Data.Either (isRight)
import Data.List (isInfixOf, nub)
import Data.Text (pack)
import Data.Text.Encoding (encodeUtf8)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.ConfigurationText
import Millrace.Cli.Config.Document (Mistake (..), renderMistake)
import Millrace.Cli.Config.Options
import Millrace.Cli.Middleware.SitePolicy
import System.Directory (doesFileExist)
import Test.Hspec
import UsualOptions
import WholeConfiguration

spec :: Spec
spec = do
  describe "is understood" $ do
    it "with nothing but a directory" $
      ["sites:", "  files: a"] `means` usual {configurationSites = [SiteOptions [AnyHost] plainPolicy [files [] "a"]]}
    it "with every key" $ every `means` everything
    it "with comments, quotes and numbers as texts" $
      ["# mine", "sites:", "- hosts: 'A.Example'", "  proxy: 3000 # here"]
        `means` usual
          { configurationSites =
              [ SiteOptions
                  [ExactHost "a.example"]
                  plainPolicy
                  [RouteOptions [] plainPolicy (PassOn (usualProxy ["3000"]))]
              ]
          }
    it "with numbers in all ways to write them" $
      ["process: {cores: 0x10, drain-seconds: +60}", "sites: {proxy: 0o5670}"]
        `means` usual
          { configurationServer =
              (configurationServer usual) {serverCores = Just 16, serverDrainSeconds = 60},
            configurationSites =
              [SiteOptions [AnyHost] plainPolicy [RouteOptions [] plainPolicy (PassOn (usualProxy ["3000"]))]]
          }
    it "with texts that look like something else" $
      [ "sites:",
        "- files: 'true'",
        "- {hosts: x.org, files: 1.2.3.4}",
        "- {hosts: y.org, files: \"5\"}",
        "- {hosts: z.org, files: !!str 1.5}"
      ]
        `means` usual
          { configurationSites =
              [ SiteOptions [host] plainPolicy [files [] directory]
                | (host, directory) <-
                    [ (AnyHost, "true"),
                      (ExactHost "x.org", "1.2.3.4"),
                      (ExactHost "y.org", "5"),
                      (ExactHost "z.org", "1.5")
                    ]
              ]
          }
    it "with references to what was written before" $
      [ "sites:",
        "- hosts: &names [a.org, b.org]",
        "  files: a",
        "- hosts: c.org",
        "  files: &there b",
        "- hosts: d.org",
        "  files: *there"
      ]
        `means` usual
          { configurationSites =
              [ SiteOptions (map ExactHost hosts) plainPolicy [files [] directory]
                | (hosts, directory) <-
                    [(["a.org", "b.org"], "a"), (["c.org"], "b"), (["d.org"], "b")]
              ]
          }
    it "with the path of a check alone" $
      ["sites: {proxy: {targets: 3000, health: /up}}"]
        `means` usual
          { configurationSites =
              [ SiteOptions
                  [AnyHost]
                  plainPolicy
                  [ RouteOptions
                      []
                      plainPolicy
                      (PassOn (usualProxy ["3000"]) {proxyHealth = Just (usualHealth "/up")})
                  ]
              ]
          }
  describe "is refused" $ do
    it "with all mistakes at once, in their order" $
      ["process: {cores: many, backend: select}", "site: a", "sites:", "- {files: a, proxy: 1, hosts: [-x y]}"]
        `isRefused` [ (1, 18, "a number from 1 to 256 is wanted here"),
                      (1, 33, "'select' is none of: auto, hybrid, epoll, io_uring, kqueue, iocp"),
                      (2, 1, "a configuration has no key 'site'. Did you mean 'sites'?"),
                      (4, 21, "only one of these keys may be here: files, proxy, redirect"),
                      (4, 32, "'-x y' is not the name of a host")
                    ]
    it "without sites" $ ["{}"] `isRefused` [(1, 1, "the key 'sites' is missing here")]
    it "without anything" $ [] `isRefused` [(1, 1, "the key 'sites' is missing here")]
    it "when it is not YAML" $
      ["sites: [a"]
        `isRefused` [(2, 1, "this is not YAML: did not find expected ',' or ']', while parsing a flow sequence")]
    it "when a name with a star has no quotes" $
      ["sites:", "- hosts: *.a", "  files: b"] `isRefused` [(2, 10, "a text that begins with * must be in quotes")]
    it "when a name that begins with a star has no quotes" $
      ["sites: {hosts: *, files: b}"] `isRefused` [(1, 16, "a text that begins with * must be in quotes")]
    it "when it has a reference to nothing" $
      ["sites:", "- files: *there"] `isRefused` [(2, 10, "a text that begins with * must be in quotes")]
    it "when it has a tag" $ ["sites: {files: !path b}"] `isRefused` [(1, 16, "the tag !path has no meaning here")]
    it "when it has a second document" $
      ["sites: {files: a}", "---", "sites: {files: b}"] `isRefused` [(3, 1, "a second document begins here")]
    forM_
      [ ("1.5", "a number with a fraction"),
        (".5e3", "a number with a fraction"),
        ("~", "nothing"),
        ("True", "true or false")
      ]
      $ \(scalar, said) ->
        it ("when a text is " <> scalar) $ ["sites: {files: " <> scalar <> "}"] `isRefused` [(1, 16, said)]
    it "when a key is there twice" $
      ["sites: {files: a}", "sites: {files: b}"] `isRefused` [(2, 1, "this key is already in the mapping")]
    it "when two sites have one name" $
      ["sites:", "- {hosts: [a, b], files: a}", "- {hosts: B, files: b}"]
        `isRefused` [(1, 1, "two sites have the host b")]
    it "when two routes have one path" $
      ["sites:", "- files: a", "  routes:", "  - {path: /x/, files: b}", "  - {path: //x, files: c}"]
        `isRefused` [(2, 3, "two routes of this site have the path /x")]
    it "when a site has nothing for some paths" $
      ["sites: {routes: [{path: /x, files: a}]}"] `isRefused` [(1, 8, "this site has nothing for the path /")]
    it "when https has no certificate, or a certificate no https" $ do
      ["listen: {https: 443}", "sites: {files: a}"]
        `isRefused` [(1, 1, "'listen' has https, and so 'certificates' is needed")]
      ["certificates: {certificate: a, key: b}", "sites: {files: a}"]
        `isRefused` [(1, 1, "'certificates' is of no use: 'listen' has no https")]
      ["listen: {http: 80, http3: on}", "sites: {files: a}"]
        `isRefused` [(1, 9, "'http3' is for an element with 'https'")]
      ["listen: {redirect-to-https: 80}", "sites: {files: a}"]
        `isRefused` [(1, 1, "'listen' has redirect-to-https, and no https")]
    it "when two elements of 'listen' have one port, or one has the port of the status pages" $ do
      ["listen: [{http: 80}, {http: '[::1]:80'}, {http: 127.0.0.1:80}]", "sites: {files: a}"]
        `isRefused` [(1, 42, "port 80 is taken: the server also listens on 127.0.0.1:80")]
      forM_ [("0.0.0.0", "1.2.3.4"), ("1.2.3.4", "0.0.0.0"), ("'[::]", "0.0.0.0"), ("a.org", "'[::]")] $
        \(one, other) ->
          do
            let port host = host <> ":80" <> take 1 (filter (== '\'') host)
            ["listen: ", "- http: " <> port one, "- redirect-to-https: " <> port other, "- https: 443"]
              `isRefused'` [(3, 3, "port 80 is taken: the server also listens on ")]
      ["listen: {http: 80}", "process: {status: 80}", "sites: {files: a}"]
        `isRefused` [(1, 9, "port 80 is taken: 'status' has it")]
      let distinct = "listen: [{http: 0}, {http: 0}, {http: 1.2.3.4:80}, {http: 1.2.3.5:80}, {http: '[::1]:80'}]"
      readConfiguration (Char8.pack (unlines [distinct, "process: {status: 0}", "sites: {files: a}"]))
        `shouldSatisfy` isRight
    it "when limits contradict each other" $
      ["limits: {url-bytes: 2000, head-bytes: 1024}", "sites: {files: a}"]
        `isRefused` [(1, 9, "'url-bytes' is 2000, more than 'head-bytes', which is 1024")]
    it "when a log that is not written has a format" $
      ["process: {log-format: json}", "sites: {files: a}"]
        `isRefused` [(1, 1, "'log-format' is of no use: 'process' has no 'access-log'")]
    forM_ ["x", "70000", "a:b:80", "[::1]", ":80", "::1:80", "host:", "1.2.3.4:99999"] $ \address ->
      it ("for the address " <> address) $
        ["listen: {http: '" <> address <> "'}", "sites: {files: a}"]
          `isRefused` [(1, 16, "'" <> address <> "' is not HOST:PORT")]
    forM_ [("Content-Length", "1"), ("transfer-encoding", "x"), ("A B", "x"), ("A", "\\n")] $ \(name, value) ->
      it ("for the field " <> name <> ": " <> value) $ do
        let outcome =
              readConfiguration (Char8.pack ("sites: {files: a, headers: {'" <> name <> "': \"" <> value <> "\"}}"))
        either (map mistakeColumn) (const []) outcome `shouldBe` [28]
    forM_ ["x", "/a/../b", "/a?b", "/%61", "/a\\b"] $ \path ->
      it ("for the path " <> path) $
        ["sites: {files: a, routes: [{path: '" <> path <> "', files: b}]}"] `isRefused` [(1, 35, "'" <> path)]
    it "for a redirect to something else" $
      ["sites: {redirect: 'javascript:x'}"] `isRefused` [(1, 19, "'javascript:x' is not the beginning of an address")]
    it "for a limit of a proxy that is misspelt, and for a check without a path" $
      ["sites:", "- proxy: {targets: 1, tunnel-second: 5, health: {every-seconds: 1}}"]
        `isRefused` [ (2, 23, "'proxy' has no key 'tunnel-second'. Did you mean 'tunnel-seconds'?"),
                      (2, 49, "the key 'path' is missing here")
                    ]
    it "for a target that is none" $ ["sites: {proxy: 'http://a/b'}"] `isRefused` [(1, 16, "")]
    forM_ ["'*'", "['*']"] $ \star ->
      it ("when pages of all origins could act as users: " <> star) $
        ["sites:", "- files: a", "  cors: {origins: " <> star <> ", credentials: true}"]
          `isRefused` [(3, 9, "List the origins that may")]
  describe "has a page in the guide" $ do
    it "whose example is one" . withPage $ \text -> case drop 1 (dropWhile (/= "```yaml") (lines text)) of
      [] -> expectationFailure "no example"
      found ->
        either
          (expectationFailure . unlines . map (renderMistake "example"))
          (const (pure ()))
          (readConfiguration (encodeUtf8 (pack (unlines (takeWhile (/= "```") found)))))
    it "with every key" . withPage $ \text ->
      filter (\key -> not (("`" <> key <> "`") `isInfixOf` text)) keys `shouldBe` []
  describe "is written so that it is read again" $
    forM_ [("the usual one", plain), ("one with every key", everything), ("odd names", odd')] $ \(name, found) ->
      it name $ (readConfiguration . encodeUtf8 . pack <$> renderConfiguration found) `shouldBe` Right (Right found)
  where
    means text expected = readConfiguration (Char8.pack (unlines text)) `shouldBe` Right expected
    isRefused' text = isRefused (text <> ["certificates: {certificate: a, key: b}", "sites: {files: a}"])
    isRefused text expected = case readConfiguration (Char8.pack (unlines text)) of
      Right found -> expectationFailure (show found)
      Left mistakes -> do
        map (\mistake -> (mistakeLine mistake, mistakeColumn mistake)) mistakes
          `shouldBe` [(line, column) | (line, column, _) <- expected]
        sequence_ [renderMistake "f" mistake `shouldContain` said | (mistake, (_, _, said)) <- zip mistakes expected]
    -- In lower case: others are fields of answers.
    keys =
      nub
        ( filter
            (all (\letter -> isLower letter || letter == '-'))
            ( map
                (takeWhile (/= ':') . dropWhile (\letter -> letter == ' ' || letter == '-'))
                (lines (either error id (renderConfiguration everything)))
            )
        )
    withPage use = do
      isThere <- doesFileExist page
      if isThere then readFile page >>= use else pendingWith "the guide is not in the source archive of this package"
    page = "../docs/guide/configuring.md"
    plain = usual {configurationSites = [SiteOptions [AnyHost] plainPolicy [files [] "a"]]}
    odd' =
      usual
        { configurationSites =
            [SiteOptions [HostsBelow "b.c"] plainPolicy {policyHeaders = [("X", "'\" # \233 :")]} [files [] "true"]]
        }
