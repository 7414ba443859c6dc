-- | What the C program of embedded.c calls. Its main is not the program's: that is C's.
module Main (main) where

import Millrace.Timer (threadDelay)

foreign export ccall "embedded_nap" nap :: IO ()

nap :: IO ()
nap = threadDelay 1000

main :: IO ()
main = pure ()
