{-# LANGUAGE OverloadedStrings #-}

-- | What programs may take a path for.
module Millrace.Cli.Files.ReadingsSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Files.Readings
import Test.Hspec

spec :: Spec
spec = do
  describe "there is one of a usual path" $
    forM_
      [ ("/", []),
        ("", []),
        ("/a/b.css", ["a", "b.css"]),
        ("//a///b/", ["a", "b"]),
        ("/%61/%E2%82%AC", ["a", "\xE2\x82\xAC"]),
        ("/.well-known/x", [".well-known", "x"]),
        ("/voil%C3%A0", ["voil\xC3\xA0"]),
        ("/a%20b", ["a b"]),
        ("/100%25", ["100%"])
      ]
      $ \(path, parts) -> it (show path) $ readings path `shouldBe` Just [parts]
  describe "a part can be taken for another one" $
    forM_
      [ ("/;/admin", ["admin"]),
        ("/;x%2Fy/admin", ["admin"]),
        ("/admin;x=1/x", ["admin", "x"]),
        ("/admin%3Bx=1", ["admin"]),
        ("/%2561dmin", ["admin"]),
        ("/%252561dmin", ["admin"]),
        ("/%253b/admin", ["admin"]),
        ("/%2Fadmin%2Fx", ["admin", "x"]),
        ("/%252Fadmin", ["admin"]),
        ("/admin%3Fx", ["admin"]),
        ("/admin%23x", ["admin"]),
        ("/admin%20/x", ["admin", "x"]),
        ("/admin./x", ["admin", "x"]),
        ("/admin%09", ["admin"]),
        ("/admin%A0", ["admin"]),
        ("/admin%C2%85", ["admin"]),
        ("/admin\xA0", ["admin"])
      ]
      $ \(path, parts) -> it (show path) $ (elem parts <$> readings path) `shouldBe` Just True
  describe "there is none that anybody should ask for" $
    forM_
      [ "/a/../b",
        "/./a",
        "/a/..;/admin",
        "/a/.;x=1/admin",
        "/a/%2e%2e;/admin",
        "/a/%252e%252e/admin",
        "/a/..%2Fadmin",
        "/a/..%252Fadmin",
        "/a/%2e%2e%3b/admin",
        "/a/..%00/admin",
        "/a\\admin",
        "/a%5cadmin",
        "/a%255cadmin",
        "/%",
        "/%4",
        "/%u0061dmin",
        "/%25252561dmin"
      ]
      $ \path -> it (show path) $ readings path `shouldBe` Nothing
