-- | What of a file the system has in memory: on Windows it does not say.
module Millrace.Internal.PageCache (bringIn, bringIntoMemory) where

import Data.Int (Int64)
import System.Posix.Types (Fd)

-- | Does nothing.
bringIn :: Fd -> Int64 -> Int64 -> IO ()
bringIn _ _ _ = return ()

-- | On Windows it does nothing.
bringIntoMemory :: Fd -> Int64 -> Int64 -> IO ()
bringIntoMemory _ _ _ = return ()
