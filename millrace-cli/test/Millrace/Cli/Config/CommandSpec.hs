-- | The command line: what is accepted, and what is refused.
module Millrace.Cli.Config.CommandSpec (spec) where

import Control.Monad (forM_)
import Data.List (isInfixOf)
import Data.List.NonEmpty (NonEmpty (..))
import Millrace.Cli.Config.Command
import Millrace.Cli.Config.Options
import Millrace.Cli.Files.CacheRule (cacheRule)
import Millrace.Cli.Files.Policy (Compression (..), Fallback (..), OnError (..))
import Millrace.Manager (Backend (..))
import Network.Wai.Millrace.AccessLog (LogFormat (..))
import Options.Applicative
import System.Exit (ExitCode (..))
import Test.Hspec
import UsualOptions

spec :: Spec
spec = do
  describe "is understood" $ do
    ["serve"] `means` Serve files defaults
    ["serve", "public", "--follow-links"]
      `means` Serve files {filesDirectory = "public", filesFollowLinks = True} defaults
    ["serve", "--listing", "--cache-seconds", "0"]
      `means` Serve files {filesListing = True, filesCacheSeconds = 0} defaults
    ["serve", "--spa"] `means` Serve files {filesFallback = SinglePage} defaults
    ["serve", "--error-pages"] `means` Serve files {filesOnError = PageOfSite} defaults
    ["serve", "--compress"] `means` Serve files {filesCompression = CompressOnTheWay} defaults
    ["serve", "--cache-control", "/=no-cache", "--cache-control", "*.css=max-age=60, immutable"]
      `means` Serve
        files
          { filesCacheRules =
              [rule | Right rule <- [cacheRule "/" "no-cache", cacheRule "*.css" "max-age=60, immutable"]]
          }
        defaults
    ["proxy", "3000"] `means` Proxy (usualProxy ["3000"]) defaults
    ["proxy", "a:1", "unix:/b", "--host-field", "target", "--balance", "client", "--trust-forwarded", "--keep", "0"]
      `means` Proxy
        (usualProxy ["a:1", "unix:/b"])
          { proxyHost =
              HostOfTarget,
            proxyLoadBalancing = ByClient,
            proxyTrustsForwarded = True,
            proxyKept = 0
          }
        defaults
    [ "proxy",
      "a:1",
      "--host-field",
      "b",
      "--connect-seconds",
      "1",
      "--response-seconds",
      "2",
      "--health",
      "/up",
      "--target-authorities",
      "c",
      "--error-pages",
      "pages",
      "-p",
      "80"
      ]
      `means` Proxy
        (usualProxy ["a:1"])
          { proxyHost = HostAlways "b",
            proxyConnectSeconds = 1,
            proxyResponseSeconds = 2,
            proxyHealth = Just (usualHealth "/up"),
            proxyAuthorities = Just "c",
            proxyErrorPages = Just "pages"
          }
        (listening (ListenOptions PlainHttp "127.0.0.1" 80 NoProxyHeader Http3IfPossible "--port"))
    ["pong"] `means` Pong defaults
    ["pong", "--port", "0", "--host", "::1", "--backend", "epoll", "--cores", "3"]
      `means` Pong
        (listening (ListenOptions PlainHttp "::1" 0 NoProxyHeader Http3IfPossible "--port"))
          { serverBackend =
              Just Epoll,
            serverCores = Just 3
          }
    ["pong", "--access-log", "a.log", "--log-format", "json", "--status", "9090"]
      `means` Pong defaults {serverAccessLog = Just "a.log", serverLogFormat = JsonLines, serverStatusPort = Just 9090}
    ["pong", "--reuse-port"] `means` Pong defaults {serverReusePort = True}
    ["pong", "--drain-seconds", "60"] `means` Pong defaults {serverDrainSeconds = 60}
    ["pong", "--proxy-protocol"] `means` Pong (listening usual {listenProxyHeader = ProxyHeaderRequired})
    [ "pong",
      "--certificate",
      "a",
      "--key",
      "b",
      "--certificate",
      "c",
      "--key",
      "d",
      "--redirect-to-https",
      "80",
      "--client-authorities",
      "e",
      "--ticket-keys",
      "f"
      ]
      `means` Pong
        defaults
          { serverListens =
              usual {listenSpeaking = Https}
                :| [ListenOptions RedirectToHttps "127.0.0.1" 80 NoProxyHeader Http3IfPossible "--redirect-to-https"],
            serverTls = Just (TlsOptions [("a", "b"), ("c", "d")] (Just "e") ["f"])
          }
    ["pong", "--certificate", "a", "--key", "b", "--http3", "off"]
      `means` Pong
        (listening usual {listenSpeaking = Https, listenHttp3 = NoHttp3})
          { serverTls =
              Just (TlsOptions [("a", "b")] Nothing [])
          }
    ["pong", "--host", "[::1]"] `means` Pong (listening usual {listenHost = "::1"})
    ["pong", "--backend=io_uring"] `means` Pong defaults {serverBackend = Just IoUring}
    ["pong", "--backend=auto"] `means` Pong defaults
    ["doctor"] `means` Doctor (DoctorOptions Nothing False)
    ["doctor", "--json", "--backend", "epoll"] `means` Doctor (DoctorOptions (Just Epoll) True)
  describe "is refused" $ do
    ["pong", "--port", "65536"] `isRefused` "'65536' is not a number from 0 to 65535"
    ["pong", "--port", "-1"] `isRefused` "'-1' is not a number"
    ["pong", "--drain-seconds", "0"] `isRefused` "'0' is not a number from 1 to 3600"
    ["pong", "--cores", "0"] `isRefused` "'0' is not a number from 1 to 256"
    ["pong", "--backend", "select"]
      `isRefused` "there is no backend 'select'; choose one of: auto, hybrid, epoll, io_uring"
    ["serve", "--cache-control", "assets=no-cache"] `isRefused` "'assets' is not a pattern"
    ["serve", "--cache-control", "/assets"] `isRefused` "'/assets' is not PATTERN=VALUE"
    ["serve", "--cache-control", "/assets/=a\nb"] `isRefused` "cannot be the value of Cache-Control"
    ["serve", "--cache-seconds", "3601"] `isRefused` "'3601' is not a number from 0 to 3600"
    ["serve", "--log-format", "xml"] `isRefused` "there is no log format 'xml'; choose one of: combined, json"
    ["serve", "--log-format", "json"] `isRefused` "--log-format needs --access-log"
    ["serve", "--port", "0x50"] `isRefused` "'0x50' is not a number from 0 to 65535"
    ["serve", "--port", " 80"] `isRefused` "' 80' is not a number from 0 to 65535"
    ["serve", "--certificate", "a"] `isRefused` "each --certificate needs a --key"
    ["serve", "--key", "a"] `isRefused` "each --key needs a --certificate"
    ["serve", "--redirect-to-https", "80"] `isRefused` "--redirect-to-https needs --certificate and --key"
    ["serve", "--client-authorities", "a"] `isRefused` "--client-authorities needs --certificate and --key"
    ["serve", "--ticket-keys", "a"] `isRefused` "--ticket-keys needs --certificate and --key"
    ["serve", "--http3", "off"] `isRefused` "--http3 needs --certificate and --key"
    ["serve", "--http3", "off"] `isRefused` "Usage: millrace serve [DIR]"
    ["serve", "--limit", "url-bytes=51201"] `isRefused` "'url-bytes' is 51201, more than 'head-bytes', which is 51200"
    ["serve", "--limit", "stream-window-bytes=70000", "--limit", "largest-window-bytes=65535"]
      `isRefused` "'stream-window-bytes' is 70000, more than 'largest-window-bytes', which is 65535"
    ["serve", "--limit", "idle-second=5"] `isRefused` "there is no limit 'idle-second'. Did you mean 'idle-seconds'?"
    ["serve", "-p", "80", "--status", "80"] `isRefused` "--port: port 80 is taken: 'status' has it"
    ["serve", "-p", "80", "--certificate", "a", "--key", "b", "--redirect-to-https", "80"]
      `isRefused` "--redirect-to-https: port 80 is taken: the server also listens on 127.0.0.1:80"
    ["serve", "--prot", "80"] `isRefused` "Did you mean --port?"
    ["serve", "site", "--listin"] `isRefused` "Did you mean --listing?"
    ["proxy", "3000", "--print-confg"] `isRefused` "Did you mean --print-config?"
    ["doctor", "--jso"] `isRefused` "Did you mean --json?"
    ["serve", "--certificate", "a", "--key", "b", "--http3", "yes"]
      `isRefused` "there is no choice for HTTP/3, 'yes'; choose one of: auto, on, off"
    ["proxy"] `isRefused` "Usage: millrace proxy TARGET..."
    ["proxy", "3000", "--balance", "luck"]
      `isRefused` "there is no way to choose 'luck'; choose one of: turn, load, client, path"
    ["proxy", "3000", "--health", "up"] `isRefused` "'up' is not a path"
    ["proxy", "3000", "--host-field", "a b"] `isRefused` "'a b' is not the name of a host"
    ["serve", "--bogus"] `isRefused` "Usage: millrace serve [DIR]"
    ["serve", "a", "b"] `isRefused` "Invalid argument `b'"
    ["dance"] `isRefused` "Invalid argument `dance'"
    [] `isRefused` "Usage: millrace"
  describe "is explained" $
    forM_ [["--help"], ["serve", "--help"], ["proxy", "--help"], ["pong", "--help"], ["doctor", "--help"]] $
      \arguments ->
        it (unwords arguments) $ do
          let (text, code) = ending arguments
          code `shouldBe` ExitSuccess
          text `shouldSatisfy` isInfixOf "Examples:\n  "
  where
    defaults = listening usual
    usual = ListenOptions PlainHttp "127.0.0.1" 8080 NoProxyHeader Http3IfPossible "--port"
    listening = usualServer
    files = usualFiles "."
    means arguments expected =
      it (unwords arguments) $ getParseResult (readCommand arguments) `shouldBe` Just expected
    isRefused arguments message =
      it (unwords ("millrace" : arguments)) $ do
        let (text, code) = ending arguments
        code `shouldBe` ExitFailure 2
        text `shouldSatisfy` isInfixOf message
    ending arguments = case readCommand arguments of
      Failure failure -> renderFailure failure "millrace"
      _ -> ("parsed", ExitSuccess)
