-- | What the C program of embedded.c calls.
module Embedded () where

import Millrace.Timer (threadDelay)

foreign export ccall "embedded_nap" nap :: IO ()

nap :: IO ()
nap = threadDelay 1000
