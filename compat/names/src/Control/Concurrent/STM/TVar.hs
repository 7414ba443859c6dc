{-# LANGUAGE PackageImports #-}

-- | "Control.Concurrent.STM.TVar" of stm, in which 'registerDelay' is Millrace's.
module Control.Concurrent.STM.TVar (module Stm, registerDelay) where

import "stm" Control.Concurrent.STM.TVar as Stm hiding (registerDelay)
import Millrace.Timer (registerDelay)
