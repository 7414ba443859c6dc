{-# LANGUAGE PackageImports #-}

-- | "Control.Concurrent.STM" of stm, in which 'registerDelay' is Millrace's.
module Control.Concurrent.STM (module Stm, registerDelay) where

import "stm" Control.Concurrent.STM as Stm hiding (registerDelay)
import Millrace.Timer (registerDelay)
