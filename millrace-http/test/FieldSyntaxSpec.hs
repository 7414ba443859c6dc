{-# LANGUAGE OverloadedStrings #-}

-- | Tokens, values and lists of fields, and the text of an address.
module FieldSyntaxSpec (spec) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Word (Word16)
import Millrace.Http.FieldSyntax
import Network.Socket (SockAddr (..), tupleToHostAddress, tupleToHostAddress6)
import Test.Hspec
import Test.QuickCheck

spec :: Spec
spec = do
  it "a token has letters, digits and some characters" $
    filter (isToken . C8.singleton) ['\0' .. '\255']
      `shouldBe` "!#$%&'*+-." ++ ['0' .. '9'] ++ ['A' .. 'Z'] ++ "^_`" ++ ['a' .. 'z'] ++ "|~"
  it "an empty text is a value and no token" $ (isToken "", isFieldValue "") `shouldBe` (False, True)
  it "a value has no control characters but the tabulator" $
    filter (not . isFieldValue . C8.singleton) ['\0' .. '\255'] `shouldBe` ['\0' .. '\8'] ++ ['\10' .. '\31'] ++ "\DEL"
  it "what is made harmless is a value, of the same length, and a value stays as it is" . property $ \bytes ->
    let value = B.pack bytes
     in isFieldValue (harmless value) && B.length (harmless value) == length bytes
          && (harmless value == value) == isFieldValue value
  describe "a list" $ do
    it "has the members of all lines, without blanks, and no empty ones" $
      listMembers ["a,\tb c ,, ", "", " , d;q=\"1\""] `shouldBe` Just ["a", "b c", "d;q=\"1\""]
    it "has at most so many members and parameters" $ do
      fmap length (listMembers [C8.intercalate "," (replicate membersMax "a")]) `shouldBe` Just membersMax
      listMembers [C8.intercalate "," (replicate (membersMax + 1) "a")] `shouldBe` Nothing
      listMembers [C8.replicate membersMax ';'] `shouldBe` Nothing
      listMembers (replicate (membersMax + 1) "") `shouldBe` Nothing
  describe "an address" $ do
    it "of IPv4 is written with dots" $
      hostText (SockAddrInet 80 (tupleToHostAddress (192, 0, 2, 255))) `shouldBe` Just "192.0.2.255"
    it "of IPv6 is written as RFC 5952 says" $
      mapM
        (hostText . ipv6)
        [ (0, 0, 0, 0, 0, 0, 0, 0),
          (0, 0, 0, 0, 0, 0, 0, 1),
          (1, 0, 0, 0, 0, 0, 0, 0),
          (0x2001, 0xdb8, 0, 0, 1, 0, 0, 1),
          (0x2001, 0xdb8, 0, 1, 1, 0, 0, 1),
          (0x2001, 0xdb8, 0, 1, 1, 1, 1, 1),
          (0xfe80, 0xA, 1, 2, 3, 4, 5, 0xABCD)
        ]
        `shouldBe` Just
          [ "::",
            "::1",
            "1::",
            "2001:db8::1:0:0:1",
            "2001:db8:0:1:1::1",
            "2001:db8:0:1:1:1:1:1",
            "fe80:a:1:2:3:4:5:abcd"
          ]
    it "of IPv4 in the form of IPv6 is that of IPv4" $ do
      hostText (ipv6 (0, 0, 0, 0, 0, 0xffff, 0xc000, 0x02ff)) `shouldBe` Just "192.0.2.255"
      hostText (ipv6 (0, 0, 0, 0, 1, 0xffff, 0xc000, 0x02ff)) `shouldBe` Just "::1:ffff:c000:2ff"
    it "of a Unix socket has none" $ hostText (SockAddrUnix "/run/socket") `shouldBe` Nothing

ipv6 :: (Word16, Word16, Word16, Word16, Word16, Word16, Word16, Word16) -> SockAddr
ipv6 groups = SockAddrInet6 80 0 (tupleToHostAddress6 groups) 0
