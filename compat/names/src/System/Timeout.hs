-- | "System.Timeout" of base, by Millrace's timers.
module System.Timeout (Timeout, timeout) where

import Millrace.Timer (Timeout, timeout)
