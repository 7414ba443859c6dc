-- | The functions that the C program embedded.c calls. The program's main is in C, and not here.
module Main (main) where

import Millrace.Timer (threadDelay)

foreign export ccall "embedded_nap" nap :: IO ()

nap :: IO ()
nap = threadDelay 1000

main :: IO ()
main = pure ()
