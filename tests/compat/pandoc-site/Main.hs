{-# LANGUAGE LambdaCase #-}

-- | Pandoc's server, started as pandoc's command starts it, on Warp. Usage: pandoc-site PORT.
module Main (main) where

import Network.Wai.Handler.Warp (run)
import System.Environment (getArgs)
import Text.Pandoc.Server (app)

main :: IO ()
main =
  getArgs >>= \case
    [port] -> run (read port) app
    _ -> fail "usage: pandoc-site PORT"
