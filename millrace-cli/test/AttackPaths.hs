{-# LANGUAGE OverloadedStrings #-}

-- | Paths with which attackers ask for files outside of a site.
module AttackPaths (attackPaths) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString

-- | Ways to write what must not be reached.
attackPaths :: [ByteString]
attackPaths =
  [ "/../secret",
    "/%2e%2e/secret",
    "/%2e%2e%2fsecret",
    "/..%5csecret",
    "/..\\secret",
    "/%252e%252e/secret",
    "/%252e%252e%252fsecret",
    -- Overlong UTF-8 for dots and slashes.
    "/%c0%ae%c0%ae/secret",
    "/%c0%ae%c0%ae%c0%afsecret",
    "/%e0%80%ae%e0%80%ae/secret",
    "/%f0%80%80%ae%f0%80%80%ae/secret",
    "/..%c1%9csecret",
    -- Letters that some programs take for dots and slashes.
    "/%ef%bc%8e%ef%bc%8e/secret",
    "/..%ef%bc%8fsecret",
    "/%e2%80%a5/secret",
    "/..%e2%88%95secret",
    "/%u002e%u002e/secret",
    -- Invalid UTF-8, and surrogates.
    "/%ff%fe",
    "/%ed%a0%80",
    -- The ends of strings and of names.
    "/secret%00.html",
    "/%00",
    "/..;/secret",
    "/../secret%20",
    "/../secret::$DATA",
    -- Devices, hidden files, links.
    "/zero",
    "/environ",
    "/link",
    "/CON",
    "/nul.txt",
    "/.%2f.%2f../secret",
    "/sub/.hidden",
    "/sub/%2ehidden",
    "//secret",
    "/file:///etc/passwd",
    "/~root/x",
    "/" <> ByteString.replicate 300 0x61,
    ByteString.concat (replicate 1500 "/a"),
    ByteString.concat (replicate 1000 "/..")
  ]
