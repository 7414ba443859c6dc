{-# LANGUAGE OverloadedStrings #-}

-- | Addresses as people read them.
module Millrace.Cli.Base.AddressSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Base.Address
import Network.Socket
import Test.Hspec

spec :: Spec
spec = describe "the URL of a server" $
  forM_ urls $ \(address, url) -> it url $ addressUrl address `shouldBe` url

urls :: [(SockAddr, String)]
urls =
  [ (SockAddrInet 8080 (tupleToHostAddress (192, 0, 2, 7)), "http://192.0.2.7:8080"),
    (SockAddrInet6 80 0 (tupleToHostAddress6 (0, 0, 0, 0, 0, 0, 0, 1)) 0, "http://[::1]:80"),
    (SockAddrInet6 80 0 (tupleToHostAddress6 (0x2001, 0xdb8, 0, 0, 1, 0, 0, 1)) 0, "http://[2001:db8::1:0:0:1]:80"),
    (SockAddrInet6 80 0 (tupleToHostAddress6 (0, 0, 0, 0, 0, 0xffff, 0xc000, 0x207)) 0, "http://192.0.2.7:80"),
    (SockAddrUnix "/run/a", "unix:/run/a"),
    (SockAddrUnix "\0a", "unix:@a")
  ]
