-- | Runs every Spec. The programs that it starts end with it.
module Main (main) where

import GHC.IO.Encoding (mkTextEncoding, setFileSystemEncoding, setLocaleEncoding, utf8)
import qualified Millrace.Cli.AcceptSpec
import qualified Millrace.Cli.AccessLogSpec
import qualified Millrace.Cli.AddressSpec
import qualified Millrace.Cli.BrowserSpec
import qualified Millrace.Cli.CacheRuleSpec
import qualified Millrace.Cli.CommandSpec
import qualified Millrace.Cli.CompressionSpec
import qualified Millrace.Cli.ConfigurationSpec
import qualified Millrace.Cli.ContentCodingSpec
import qualified Millrace.Cli.CostSpec
import qualified Millrace.Cli.DoctorSpec
import qualified Millrace.Cli.FailureSpec
import qualified Millrace.Cli.HaproxySpec
import qualified Millrace.Cli.Http3Spec
import qualified Millrace.Cli.LimitSpec
import qualified Millrace.Cli.ListingSpec
import qualified Millrace.Cli.MadeOnceSpec
import qualified Millrace.Cli.MediaTypeSpec
import qualified Millrace.Cli.MetricsSpec
import qualified Millrace.Cli.NameSpec
import qualified Millrace.Cli.ProcessorsSpec
import qualified Millrace.Cli.ProgramSpec
import qualified Millrace.Cli.ProxySpec
import qualified Millrace.Cli.ReadingsSpec
import qualified Millrace.Cli.RequestPathSpec
import qualified Millrace.Cli.RestartSpec
import qualified Millrace.Cli.RunSpec
import qualified Millrace.Cli.SecuritySpec
import qualified Millrace.Cli.ServiceManagerSpec
import qualified Millrace.Cli.SitesSpec
import qualified Millrace.Cli.StandardStreamSpec
import qualified Millrace.Cli.StartSpec
import qualified Millrace.Cli.StaticFilesSpec
import qualified Millrace.Cli.TlsSpec
import Program (within)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Posix.Signals (Handler (Default), installHandler, sigHUP)
import Test.Hspec

main :: IO ()
main = do
  -- The programs that it starts would ignore it as well, if nohup has started this one.
  _ <- installHandler sigHUP Default Nothing
  -- The tests name files, and read what programs print, in UTF-8, whatever the locale.
  mkTextEncoding "UTF-8//ROUNDTRIP" >>= setFileSystemEncoding
  setLocaleEncoding utf8
  hSetBuffering stdout LineBuffering
  hspec (around_ (within 180 "the test") specs)

specs :: Spec
specs = do
  describe "Accept" Millrace.Cli.AcceptSpec.spec
  describe "AccessLog" Millrace.Cli.AccessLogSpec.spec
  describe "Address" Millrace.Cli.AddressSpec.spec
  describe "CacheRule" Millrace.Cli.CacheRuleSpec.spec
  describe "Command" Millrace.Cli.CommandSpec.spec
  describe "Compression" Millrace.Cli.CompressionSpec.spec
  describe "Configuration" Millrace.Cli.ConfigurationSpec.spec
  describe "ContentCoding" Millrace.Cli.ContentCodingSpec.spec
  describe "The cost of lists" Millrace.Cli.CostSpec.spec
  describe "Doctor" Millrace.Cli.DoctorSpec.spec
  describe "Failure" Millrace.Cli.FailureSpec.spec
  describe "Behind HAProxy" Millrace.Cli.HaproxySpec.spec
  describe "Limits" Millrace.Cli.LimitSpec.spec
  describe "Listing" Millrace.Cli.ListingSpec.spec
  describe "MadeOnce" Millrace.Cli.MadeOnceSpec.spec
  describe "MediaType" Millrace.Cli.MediaTypeSpec.spec
  describe "Metrics" Millrace.Cli.MetricsSpec.spec
  describe "Names" Millrace.Cli.NameSpec.spec
  describe "Processors" Millrace.Cli.ProcessorsSpec.spec
  describe "Readings" Millrace.Cli.ReadingsSpec.spec
  describe "RequestPath" Millrace.Cli.RequestPathSpec.spec
  describe "Sites" Millrace.Cli.SitesSpec.spec
  describe "StandardStream" Millrace.Cli.StandardStreamSpec.spec
  describe "Start" Millrace.Cli.StartSpec.spec
  describe "StaticFiles" Millrace.Cli.StaticFilesSpec.spec
  describe "Browser" Millrace.Cli.BrowserSpec.spec
  describe "Program" Millrace.Cli.ProgramSpec.spec
  describe "Proxy" Millrace.Cli.ProxySpec.spec
  describe "Restart" Millrace.Cli.RestartSpec.spec
  describe "Run" Millrace.Cli.RunSpec.spec
  describe "Security" Millrace.Cli.SecuritySpec.spec
  describe "ServiceManager" Millrace.Cli.ServiceManagerSpec.spec
  describe "TLS" Millrace.Cli.TlsSpec.spec
  describe "HTTP/3" Millrace.Cli.Http3Spec.spec
