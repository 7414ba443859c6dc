{-# LANGUAGE OverloadedStrings #-}

-- | An application written with Scotty, on Millrace.
module ScottySpec (spec) where

import Clients
import qualified Data.Text.Lazy as Text
import Network.HTTP.Types (status418)
import Releases
import Test.Hspec
import qualified Web.Scotty as Scotty

spec :: Spec
spec = describe "Scotty" $ do
  it "routes, captures and reads forms" $
    serving (Scotty.scottyApp application) $ \address -> do
      get (address ++ "/hello/world?times=2") `shouldReturn` (200, "hello world, hello world")
      curl ["-d", "a=1&b=two%20words", address ++ "/form"] `shouldReturn` "1, two words"
      get (address ++ "/nowhere") >>= (`shouldBe` 404) . fst
      get (address ++ "/teapot") `shouldReturn` (418, "short and stout")
  it "answers errors of handlers, and the connection continues" $
    serving (Scotty.scottyApp application) $ \address ->
      curl
        [ "-o",
          "/dev/null",
          "-w",
          "%{http_code} ",
          address
            ++ "/error",
          "-o",
          "/dev/null",
          address
            ++ "/hello/x?times=1"
        ]
        `shouldReturn` "500 200 "
  where
    application = do
      Scotty.get "/hello/:name" $ do
        name <- pathParameter "name"
        times <- queryParameter "times"
        Scotty.text (Text.intercalate ", " (replicate times ("hello " <> name)))
      Scotty.post "/form" $ do
        one <- formParameter "a"
        other <- formParameter "b"
        Scotty.text (one <> ", " <> other)
      Scotty.get "/teapot" (Scotty.status status418 >> Scotty.text "short and stout")
      Scotty.get "/error" failingAction
