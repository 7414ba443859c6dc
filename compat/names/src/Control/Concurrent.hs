{-# LANGUAGE PackageImports #-}

-- | "Control.Concurrent" of base, in which waiting for time and descriptors is Millrace's.
module Control.Concurrent
  ( module Base,
    threadDelay,
    threadWaitRead,
    threadWaitWrite,
    threadWaitReadSTM,
    threadWaitWriteSTM,
  )
where

import "base" Control.Concurrent as Base hiding
  ( threadDelay,
    threadWaitRead,
    threadWaitReadSTM,
    threadWaitWrite,
    threadWaitWriteSTM,
  )
import Millrace.Timer (threadDelay)
import Millrace.Wait (threadWaitRead, threadWaitReadSTM, threadWaitWrite, threadWaitWriteSTM)
