{-# LANGUAGE OverloadedStrings #-}

-- | Messages for the user.
module Millrace.Cli.Base.FailureSpec (spec) where

import Control.Exception (ErrorCall (..), throwIO, try)
import Control.Monad (forM_)
import Millrace.Cli.Base.Failure (encodedWith, reasonOf)
import System.IO (mkTextEncoding)
import Test.Hspec

spec :: Spec
spec = do
  describe "a message in the locale's encoding" $
    forM_
      [ ("ASCII//ROUNDTRIP", "gr\xDCE4\&fe", "gr\xE4\&fe"),
        ("ASCII//ROUNDTRIP", "--\xFFFD x", "--? x"),
        ("ASCII//ROUNDTRIP", "\xE9\xDCE9", "?\xE9"),
        ("ISO8859-1", "\xE9\x20AC", "\xE9?"),
        ("UTF-8", "\xE9\xFFFD", "\xC3\xA9\xEF\xBF\xBD")
      ]
      $ \(name, text, bytes) ->
        it ("is never lost: " <> show text <> " in " <> name) $
          (mkTextEncoding name >>= (`encodedWith` text)) `shouldReturn` bytes
  describe "the reason of an exception that was thrown" $ do
    it "is what it says, without a backtrace" $
      (either reasonOf id <$> try (throwIO (ErrorCall "the reason"))) `shouldReturn` "the reason"
    it "is the system's, of an IOException" $
      (either reasonOf id <$> try (ioError (userError "the reason"))) `shouldReturn` "the reason"
