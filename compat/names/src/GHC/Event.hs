{-# LANGUAGE PackageImports #-}

-- | "GHC.Event" of base, in which timers are Millrace's. Callbacks about descriptors are still those of GHC's manager.
module GHC.Event
  ( module Base,
    TimerManager,
    TimeoutKey,
    TimeoutCallback,
    getSystemTimerManager,
    registerTimeout,
    updateTimeout,
    unregisterTimeout,
  )
where

import "base" GHC.Event as Base hiding
  ( TimeoutCallback,
    TimeoutKey,
    TimerManager,
    getSystemTimerManager,
    registerTimeout,
    unregisterTimeout,
    updateTimeout,
  )
import Millrace.Timer
  ( TimeoutCallback,
    TimeoutKey,
    TimerManager,
    getSystemTimerManager,
    registerTimeout,
    unregisterTimeout,
    updateTimeout,
  )
