-- | Runs every Spec. The programs that it starts end with it.
module Main (main) where

import GHC.IO.Encoding (mkTextEncoding, setFileSystemEncoding, setLocaleEncoding, utf8)
import qualified Millrace.Cli.Base.AddressSpec
import qualified Millrace.Cli.Base.FailureSpec
import qualified Millrace.Cli.Base.RequestPathSpec
import qualified Millrace.Cli.BrowserSpec
import qualified Millrace.Cli.Config.CommandSpec
import qualified Millrace.Cli.Config.ConfigurationSpec
import qualified Millrace.Cli.Config.LimitSpec
import qualified Millrace.Cli.Config.ReferenceSpec
import qualified Millrace.Cli.Config.UsualLimitSpec
import qualified Millrace.Cli.Config.YamlTextSpec
import qualified Millrace.Cli.CostSpec
import qualified Millrace.Cli.ExplanationSpec
import qualified Millrace.Cli.Files.AcceptSpec
import qualified Millrace.Cli.Files.CacheRuleSpec
import qualified Millrace.Cli.Files.CachedFileSpec
import qualified Millrace.Cli.Files.CompressedFileSpec
import qualified Millrace.Cli.Files.CompressionSpec
import qualified Millrace.Cli.Files.ConditionalRequestSpec
import qualified Millrace.Cli.Files.ContentCodingSpec
import qualified Millrace.Cli.Files.ErrorPageSpec
import qualified Millrace.Cli.Files.ListingSpec
import qualified Millrace.Cli.Files.MediaTypeSpec
import qualified Millrace.Cli.Files.ReadingsSpec
import qualified Millrace.Cli.Files.SingleFlightSpec
import qualified Millrace.Cli.Files.SinglePageSpec
import qualified Millrace.Cli.Files.StaticFilesSpec
import qualified Millrace.Cli.HaproxySpec
import qualified Millrace.Cli.LogSpec
import qualified Millrace.Cli.NameSpec
import qualified Millrace.Cli.Observe.AccessLogSpec
import qualified Millrace.Cli.Observe.MetricsSpec
import qualified Millrace.Cli.PasswordAttackSpec
import qualified Millrace.Cli.ProgramSpec
import qualified Millrace.Cli.SecuritySpec
import qualified Millrace.Cli.Serve.CheckSpec
import qualified Millrace.Cli.Serve.DoctorSpec
import qualified Millrace.Cli.Serve.Http3Spec
import qualified Millrace.Cli.Serve.ProcessorsSpec
import qualified Millrace.Cli.Serve.RestartSpec
import qualified Millrace.Cli.Serve.ReverseProxySpec
import qualified Millrace.Cli.Serve.RunLimitSpec
import qualified Millrace.Cli.Serve.RunSpec
import qualified Millrace.Cli.Serve.ServiceManagerSpec
import qualified Millrace.Cli.Serve.SitePolicySpec
import qualified Millrace.Cli.Serve.SitesSpec
import qualified Millrace.Cli.Serve.StartSpec
import qualified Millrace.Cli.Serve.TlsSpec
import qualified Millrace.Cli.ServeSpec
import Millrace.Cli.StackOptionsSpec (interruptedValues, takeUpInterrupted)
import qualified Millrace.Cli.StackOptionsSpec
import qualified Millrace.Cli.StopSpec
import Program (within)
import System.Environment (getArgs)
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
  arguments <- getArgs
  if arguments == [interruptedValues] then takeUpInterrupted else hspec (around_ (within 180 "the test") specs)

specs :: Spec
specs = do
  describe "Accept" Millrace.Cli.Files.AcceptSpec.spec
  describe "AccessLog" Millrace.Cli.Observe.AccessLogSpec.spec
  describe "Address" Millrace.Cli.Base.AddressSpec.spec
  describe "CacheRule" Millrace.Cli.Files.CacheRuleSpec.spec
  describe "Command" Millrace.Cli.Config.CommandSpec.spec
  describe "Compression" Millrace.Cli.Files.CompressionSpec.spec
  describe "Configuration" Millrace.Cli.Config.ConfigurationSpec.spec
  describe "ContentCoding" Millrace.Cli.Files.ContentCodingSpec.spec
  describe "The cost of lists" Millrace.Cli.CostSpec.spec
  describe "Doctor" Millrace.Cli.Serve.DoctorSpec.spec
  describe "Failure" Millrace.Cli.Base.FailureSpec.spec
  describe "Behind HAProxy" Millrace.Cli.HaproxySpec.spec
  describe "Limits" Millrace.Cli.Config.LimitSpec.spec
  describe "The usual value of a limit is the library's:" Millrace.Cli.Config.UsualLimitSpec.spec
  describe "Listing" Millrace.Cli.Files.ListingSpec.spec
  describe "SingleFlight" Millrace.Cli.Files.SingleFlightSpec.spec
  describe "MediaType" Millrace.Cli.Files.MediaTypeSpec.spec
  describe "Metrics" Millrace.Cli.Observe.MetricsSpec.spec
  describe "Names" Millrace.Cli.NameSpec.spec
  describe "Processors" Millrace.Cli.Serve.ProcessorsSpec.spec
  describe "Readings" Millrace.Cli.Files.ReadingsSpec.spec
  describe "Texts in YAML" Millrace.Cli.Config.YamlTextSpec.spec
  describe "The reference" Millrace.Cli.Config.ReferenceSpec.spec
  describe "RequestPath" Millrace.Cli.Base.RequestPathSpec.spec
  describe "Sites" Millrace.Cli.Serve.SitesSpec.spec
  describe "Start" Millrace.Cli.Serve.StartSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.ConditionalRequestSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.CachedFileSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.SinglePageSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.ErrorPageSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.CompressedFileSpec.spec
  describe "StaticFiles" Millrace.Cli.Files.StaticFilesSpec.spec
  describe "Browser" Millrace.Cli.BrowserSpec.spec
  describe "Program" Millrace.Cli.StackOptionsSpec.spec
  describe "Program" Millrace.Cli.StopSpec.spec
  describe "Program" Millrace.Cli.ExplanationSpec.spec
  describe "Program" Millrace.Cli.ServeSpec.spec
  describe "Program" Millrace.Cli.LogSpec.spec
  describe "Program" Millrace.Cli.ProgramSpec.spec
  describe "Proxy" Millrace.Cli.Serve.ReverseProxySpec.spec
  describe "Restart" Millrace.Cli.Serve.RestartSpec.spec
  describe "Run" Millrace.Cli.Serve.SitePolicySpec.spec
  describe "Run" Millrace.Cli.Serve.CheckSpec.spec
  describe "Run" Millrace.Cli.Serve.RunLimitSpec.spec
  describe "Run" Millrace.Cli.Serve.RunSpec.spec
  describe "Security" $ do
    Millrace.Cli.SecuritySpec.spec
    Millrace.Cli.PasswordAttackSpec.spec
  describe "ServiceManager" Millrace.Cli.Serve.ServiceManagerSpec.spec
  describe "TLS" Millrace.Cli.Serve.TlsSpec.spec
  describe "HTTP/3" Millrace.Cli.Serve.Http3Spec.spec
