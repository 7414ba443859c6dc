{-# LANGUAGE OverloadedStrings #-}

-- | Media types by the names of files.
module Millrace.Cli.Files.MediaTypeSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Files.MediaType
import Test.Hspec

spec :: Spec
spec = do
  forM_ expected $ \(name, contentType) -> it (show name) $ mediaType name `shouldBe` contentType
  forM_ compressible $ \name ->
    it (show name <> " becomes smaller when it is compressed") $ isCompressible (mediaType name) `shouldBe` True
  forM_ dense $ \name -> it (show name <> " does not") $ isCompressible (mediaType name) `shouldBe` False
  where
    compressible =
      [ "a.html",
        "a.css",
        "a.js",
        "a.mjs",
        "a.json",
        "a.map",
        "a.svg",
        "a.xml",
        "a.rss",
        "a.wasm",
        "a.ttf",
        "a.otf",
        "a.eot",
        "a.ico",
        "a.csv",
        "a.md",
        "a.yaml",
        "a.webmanifest",
        "a.geojson",
        "a.xhtml",
        "a.txt",
        "a.bmp",
        "a.gltf"
      ]
    dense =
      [ "a.png",
        "a.jpg",
        "a.webp",
        "a.avif",
        "a.gif",
        "a.woff",
        "a.woff2",
        "a.mp4",
        "a.mp3",
        "a.zip",
        "a.gz",
        "a.br",
        "a.zst",
        "a.tgz",
        "a.pdf",
        "a.docx",
        "a.epub",
        "a.bin",
        "a"
      ]
    expected =
      [ ("index.html", "text/html; charset=utf-8"),
        ("INDEX.HTML", "text/html; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("notes.txt", "text/plain; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.min.mjs", "text/javascript; charset=utf-8"),
        ("data.json", "application/json"),
        ("logo.svg", "image/svg+xml"),
        ("photo.jpeg", "image/jpeg"),
        ("photo.avif", "image/avif"),
        ("code.wasm", "application/wasm"),
        ("font.woff2", "font/woff2"),
        ("site.webmanifest", "application/manifest+json"),
        ("main.rs", "text/plain; charset=utf-8"),
        ("logo.svgz", "image/svg+xml"),
        ("part-1.ts", "video/mp2t"),
        ("stream.mpd", "application/dash+xml"),
        ("places.geojson", "application/geo+json"),
        ("thing.jsonld", "application/ld+json"),
        ("log.ndjson", "application/x-ndjson"),
        ("settings.yaml", "application/yaml"),
        ("settings.yml", "application/yaml"),
        ("Cargo.toml", "application/toml"),
        ("module.cjs", "text/javascript; charset=utf-8"),
        ("scene.glb", "model/gltf-binary"),
        ("scene.gltf", "model/gltf+json"),
        ("photo.heic", "image/heic"),
        ("moving.apng", "image/apng"),
        ("archive.unheard-of", "application/octet-stream"),
        ("README", "application/octet-stream"),
        ("\xff\xfe.css", "text/css; charset=utf-8")
      ]
