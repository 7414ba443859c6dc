{-# LANGUAGE OverloadedStrings #-}

-- | Clients that do not speak TLS.
module InsecureSpec (spec) where

import Applications
import Control.Exception
import qualified Data.ByteString as B
import Data.IORef
import Data.List (isInfixOf)
import Network.Wai.Handler.Millrace (HandshakeFailed (..), setOnException)
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec

spec :: Credentials -> TLSSettings -> WithClient -> Spec
spec _ server client = do
  it "are refused with a text" $ do
    reports <- newIORef []
    withServer
      server {onInsecure = DenyInsecure "https, please"}
      (setOnException (\_ failure -> modifyIORef reports (failure :)))
      telling
      $ \port ->
        do
          reply <- plainExchange port (requestFor "/")
          statusOf reply `shouldBe` "426"
          bodyOf reply `shouldBe` "https, please"
          client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
          found <- readIORef reports
          [reason | Just (HandshakeFailed failure) <- map fromException found, Just reason <- [fromException failure]]
            `shouldBe` [InsecureConnectionDenied]
          map displayException found `shouldSatisfy` all ("does not speak TLS" `isInfixOf`)

  it "are served if they are allowed" $
    withServer server {onInsecure = AllowInsecure} id telling $ \port -> do
      reply <- plainExchange port (requestFor "/plain")
      bodyOf reply `shouldBe` "False /plain - -"
      client port $ \one -> exchangeWith one (requestFor "/tls") >>= (`shouldBe` "True /tls TLSv1.3 -") . bodyOf

  it "may send anything" $
    withServer server id telling $ \port -> do
      (statusOf <$> plainExchange port (B.replicate 100000 0)) `shouldReturn` "426"
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
