{-# LANGUAGE OverloadedStrings #-}

-- | Responses with representations, from memory and from files. Calls the application directly, without a server.
module RepresentationSpec (spec) where

import Control.Exception (try)
import Control.Monad (forM_, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.Maybe (fromMaybe)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Network.Wai.Internal (ResponseReceived (..))
import Support (withFolder)
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = describe "respondWith" $
  forM_ [("bytes in memory", \_ -> return (bytesRepresentation validators fields content)), ("a file", fileOf)] $
    \(source, make) ->
      describe ("from " ++ source) . around (\use -> withFolder (make >=> use)) $ do
        it "answers with all of it, and with its validators" $ \representation -> do
          (status, given, body) <- get representation []
          (statusCode status, body) `shouldBe` (200, content)
          [lookup name given | name <- ["ETag", "Last-Modified", "Accept-Ranges", "Content-Type", "Vary"]]
            `shouldBe` [ Just "\"v1\"",
                         Just "Sun, 06 Nov 1994 08:49:37 GMT",
                         Just "bytes",
                         Just "text/plain",
                         Just "Accept"
                       ]
        forM_
          [ ("If-None-Match", "\"v1\"", 304),
            ("If-None-Match", "\"v2\"", 200),
            ("If-Modified-Since", date, 304),
            ("If-Match", "\"v2\"", 412),
            ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", 412),
            ("Range", "bytes=7-", 206),
            ("Range", "bytes=99-", 416),
            ("Range", "bytes=x", 200)
          ]
          $ \(name, value, expected) ->
            it (show name ++ " " ++ show value ++ " gets a " ++ show expected) $ \representation -> do
              (status, _, _) <- get representation [(name, value)]
              statusCode status `shouldBe` expected
        it "a 304 has the validators, and nothing about the bytes" $ \representation -> do
          (_, given, body) <- get representation [("If-None-Match", "*")]
          body `shouldBe` ""
          let names = ["ETag", "Vary", "Content-Type", "Content-Encoding", "Content-Length", "Accept-Ranges"]
          map (`lookup` given) names
            `shouldBe` [Just "\"v1\"", Just "Accept", Nothing, Nothing, Nothing, Nothing]
        forM_ [("If-Match", "\"v2\""), ("Range", "bytes=99-")] $ \field ->
          it ("what is refused for " ++ show field ++ " is not kept for as long as the representation") $
            \representation ->
              do
                (_, given, body) <- get representation [field]
                (body, lookup "Cache-Control" given) `shouldBe` ("", Nothing)
        it "one range" $ \representation -> do
          (status, given, body) <- get representation [("Range", "bytes=7-11")]
          (statusCode status, body, lookup "Content-Range" given) `shouldBe` (206, "world", Just "bytes 7-11/13")
        it "several ranges are one body in parts, of the announced length" $ \representation -> do
          (status, given, body) <- get representation [("Range", "bytes=0-4,-3")]
          let boundary = B.drop 31 (fromMaybe "" (lookup "Content-Type" given))
              part (range, bytes) =
                ["--" <> boundary, "Content-Type: text/plain", "Content-Range: bytes " <> range, "", bytes]
          (statusCode status, body)
            `shouldBe` ( 206,
                         C8.intercalate
                           "\r\n"
                           ( concatMap part [("0-4/13", "Hello"), ("10-12/13", "ld\n")]
                               ++ ["--" <> boundary <> "--", ""]
                           )
                       )
          lookup "Content-Length" given `shouldBe` Just (C8.pack (show (B.length body)))
        it "of HEAD a range is ignored, a condition is not" $ \representation -> do
          statusOf' representation methodHead [("Range", "bytes=0-0")] `shouldReturn` 200
          statusOf' representation methodHead [("If-None-Match", "*")] `shouldReturn` 304
        it "of other methods both are ignored" $ \representation ->
          statusOf' representation methodPost [("Range", "bytes=0-0"), ("If-Match", "\"v2\"")] `shouldReturn` 200
        it "without validators nothing matches but any" $ \_ -> do
          let plain = bytesRepresentation (Validators Nothing Nothing False) [] content
          map fst'
            <$> mapM
              (\field -> get plain [field])
              [("If-None-Match", "\"v1\""), ("If-Modified-Since", date), ("If-None-Match", "*")]
            `shouldReturn` [200, 200, 304]
        it "a file that has become shorter does not end the parts early: it throws" $ \_ ->
          withFolder $ \folder -> do
            representation <- fileOf folder
            B.writeFile (folder </> "file") "Hello"
            outcome <- try (get representation [("Range", "bytes=0-1,7-8")])
            either (\failure -> failure == FileTruncated (folder </> "file")) (const False) outcome `shouldBe` True
  where
    content = "Hello, world\n"
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    fields = [("Content-Type", "text/plain"), ("Vary", "Accept"), ("Cache-Control", "max-age=60")]
    validators = Validators (Just (EntityTag Strong "v1")) (Just 784111777) True
    fileOf folder = do
      B.writeFile (folder </> "file") content
      return (fileRepresentation validators fields (folder </> "file") 13)
    fst' (status, _, _) = statusCode status
    statusOf' representation method wanted = fst' <$> ask representation method wanted
    get representation = ask representation methodGet

ask :: Representation -> Method -> RequestHeaders -> IO (Status, ResponseHeaders, ByteString)
ask representation method wanted = do
  answer <- newIORef Nothing
  ResponseReceived <-
    respondWith representation defaultRequest {requestMethod = method, requestHeaders = wanted} $ \response ->
      do
        let (status, fields, withBody) = responseToStream response
        chunks <- newIORef []
        withBody (\body -> body (\chunk -> modifyIORef' chunks (toLazyByteString chunk :)) (return ()))
        body <- L.toStrict . L.concat . reverse <$> readIORef chunks
        ResponseReceived <$ writeIORef answer (Just (status, fields, body))
  readIORef answer >>= maybe (fail "no answer") return
