{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE QuasiQuotes #-}
{-# LANGUAGE TemplateHaskell #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE ViewPatterns #-}
-- mkYesod generates definitions that are not used here.
{-# OPTIONS_GHC -Wno-unused-top-binds #-}

-- | An application written with Yesod, on Millrace.
module YesodSpec (spec) where

import Clients
import qualified Data.ByteString.Lazy as L
import Data.Text (Text)
import Test.Hspec
import Yesod.Core

data Site = Site

mkYesod
  "Site"
  [parseRoutes|
/page PageR GET
/name/#Text NameR GET
/upload UploadR POST
/stream StreamR GET
|]

-- No sessions, because they would write a key into the working directory.
instance Yesod Site where
  makeSessionBackend _ = return Nothing

getPageR :: Handler Html
getPageR = defaultLayout (toWidget [hamlet|<p>A page|])

getNameR :: Text -> Handler Text
getNameR name = return ("name: " <> name)

postUploadR :: Handler Text
postUploadR = lookupPostParam "field" >>= maybe (invalidArgs ["field"]) return

getStreamR :: Handler TypedContent
getStreamR = respondSource "text/plain" (mapM_ (\number -> sendChunkText number >> sendFlush) ["one ", "two ", "three"])

spec :: Spec
spec = describe "Yesod" $ do
  it "renders pages and routes" $
    serving (toWaiApp Site) $ \address -> do
      (status, body) <- get (address ++ "/page")
      (status, "<p>A page" `isPartOf` body) `shouldBe` (200, True)
      get (address ++ "/name/a%20b") `shouldReturn` (200, "name: a b")
      get (address ++ "/nowhere") >>= (`shouldBe` 404) . fst
  it "reads forms, and refuses one that is too large" $
    serving (toWaiApp Site) $ \address -> do
      curl ["-d", "field=value", address ++ "/upload"] `shouldReturn` "value"
      curl ["-F", "field=multipart", address ++ "/upload"] `shouldReturn` "multipart"
      (status, _) <-
        post (address ++ "/upload") "application/x-www-form-urlencoded" ("field=" <> L.replicate 3000000 0x61)
      status `shouldBe` 413
  it "streams" $ serving (toWaiApp Site) $ \address -> get (address ++ "/stream") `shouldReturn` (200, "one two three")
  where
    isPartOf piece whole = any (L.isPrefixOf piece) (L.tails whole)
