{-# LANGUAGE OverloadedStrings #-}

-- | @millrace check@.
module Millrace.Cli.Serve.CheckSpec (spec) where

import Certificates
import ConfigurationFile
import Data.List (isInfixOf)
import Program
import Site (withDirectory, write)
import System.Directory (doesFileExist)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = do
  it "checks a file without serving it, a thousand sites within a second" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( "sites:" :
        concat
          [["  - hosts: s" <> show number <> ".test", "    files: " <> folder </> "one"] | number <- [1 .. 1000 :: Int]]
      )
    found <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeOutput found `shouldContain` "OK, 1000 sites, 1 address"
    outcomeExit found `shouldBe` ExitSuccess
    configured folder ["sites: {file: one}"]
    wrong <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeExit wrong `shouldBe` ExitFailure 1
    outcomeErrors wrong `shouldContain` "m.yaml:1:9: "
    configured
      folder
      ("sites:" : ["  - {hosts: s" <> show number <> ".test, file: one}" | number <- [1 .. 1000 :: Int]])
    many <- runMillrace [] ["check", folder </> "m.yaml"]
    map (`isInfixOf` outcomeErrors many) ["2000 mistakes", "m.yaml:11:", "m.yaml:12:", "and 1980 more"]
      `shouldBe` [True, True, False, True]
    missing <- runMillrace [] ["check", folder </> "none.yaml"]
    outcomeErrors missing `shouldContain` "No such file"
  it "checks certificates, keys, and the folders of what it will write" . withCertificates $ \folder -> do
    write folder "one/index.html" "one"
    let checked certificates more = do
          configured
            folder
            ( "listen: {https: 127.0.0.1:0}" :
              ("certificates: {" <> certificates <> "}") :
              more
                <> ["sites: {files: " <> folder </> "one}"]
            )
          runMillrace [] ["check", folder </> "m.yaml"]
        good = "certificate: " <> folder </> "one.pem, key: " <> folder </> "one.key"
        isRefused said outcome = do
          outcomeExit outcome `shouldBe` ExitFailure 1
          outcomeErrors outcome `shouldContain` said
    checked
      good
      [ "tls: {client-authorities: "
          <> folder </> "two.pem}",
        "process: {access-log: "
          <> folder </> "log, pid-file: "
          <> folder </> "pid}"
      ]
      >>= (`shouldBe` ExitSuccess) . outcomeExit
    -- It has written nothing.
    mapM (doesFileExist . (folder </>)) ["log", "pid"] `shouldReturn` [False, False]
    checked ("certificate: " <> folder </> "none.pem, key: " <> folder </> "one.key") []
      >>= isRefused "m.yaml:2:29: cannot read the certificates"
    checked ("certificate: " <> folder </> "one.pem, key: " <> folder </> "two.key") []
      >>= isRefused "the private key belongs to another certificate"
    checked good ["tls: {client-authorities: " <> folder </> "none.pem}"] >>= isRefused "none.pem"
    checked good ["tls: {ticket-keys: " <> folder </> "one.pem}"] >>= isRefused "a key for session tickets has 80 bytes"
    checked good ["process: {access-log: " <> folder </> "none/log}"]
      >>= isRefused ("there is no folder " <> folder </> "none")
    checked good ["process: {pid-file: " <> folder </> "none/pid}"]
      >>= isRefused "m.yaml:3:21: cannot write the pid file"
    checked good ["process: {access-log: " <> folder </> "one}"]
      >>= isRefused "m.yaml:3:23: cannot write the access log"
    checked good ["process: {access-log: " <> folder </> "one}"] >>= isRefused "one mistake"
    checked good ["process: {pid-file: " <> folder <> "}"] >>= isRefused "it is a directory"
    made <- checked good ["process: {pid-file: /run/millrace-cli-test-none/pid}"]
    outcomeExit made `shouldBe` ExitSuccess
    outcomeErrors made `shouldContain` "there is no /run/millrace-cli-test-none now"
