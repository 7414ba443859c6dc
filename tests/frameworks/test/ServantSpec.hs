{-# LANGUAGE DataKinds #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TypeOperators #-}

-- | An application written with Servant, on Millrace.
module ServantSpec (spec) where

import Clients
import qualified Data.ByteString.Lazy as L
import Servant
import Servant.Types.SourceT (source)
import Test.Hspec

type Interface =
  "sum" :> Capture "a" Int :> QueryParam' '[Required] "b" Int :> Get '[JSON] Int
    :<|> "reverse" :> ReqBody '[OctetStream] L.ByteString :> Post '[OctetStream] L.ByteString
    :<|> "stream" :> StreamGet NewlineFraming JSON (SourceIO Int)

spec :: Spec
spec = describe "Servant" $ do
  it "captures, decodes and encodes" $
    serving (return application) $ \address -> do
      get (address ++ "/sum/40?b=2") `shouldReturn` (200, "42")
      get (address ++ "/sum/40") >>= (`shouldBe` 400) . fst
      get (address ++ "/sum/x?b=2") >>= (`shouldBe` 400) . fst
  it "reads bodies of all sizes" $
    serving (return application) $ \address -> do
      post (address ++ "/reverse") "application/octet-stream" "abc" `shouldReturn` (200, "cba")
      (status, body) <- post (address ++ "/reverse") "application/octet-stream" (L.replicate 1000000 0x61 <> "b")
      (status, L.length body, L.take 2 body) `shouldBe` (200, 1000001, "ba")
      post (address ++ "/reverse") "text/plain" "abc" >>= (`shouldBe` 415) . fst
  it "streams" $
    serving (return application) $ \address ->
      get (address ++ "/stream") `shouldReturn` (200, "1\n2\n3\n")
  where
    application = serve (Proxy :: Proxy Interface) (add :<|> (return . L.reverse) :<|> return (source [1, 2, 3]))
    add a b = return (a + b)
