{-# LANGUAGE PackageImports #-}

-- | "GHC.Conc" of base, in which waiting for time and descriptors is Millrace's.
module GHC.Conc
  ( module Base,
    threadDelay,
    registerDelay,
    threadWaitRead,
    threadWaitWrite,
    threadWaitReadSTM,
    threadWaitWriteSTM,
  )
where

import "base" GHC.Conc as Base hiding
  ( registerDelay,
    threadDelay,
    threadWaitRead,
    threadWaitReadSTM,
    threadWaitWrite,
    threadWaitWriteSTM,
  )
import Millrace.Timer (registerDelay, threadDelay)
import Millrace.Wait (threadWaitRead, threadWaitReadSTM, threadWaitWrite, threadWaitWriteSTM)
