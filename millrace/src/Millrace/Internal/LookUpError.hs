{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets, operations.

-- | The errors of looking up a name, here and in the packages above.
module Millrace.Internal.LookUpError
  ( lookUpError,
    outOfDescriptors,
  )
where

import Foreign.C.Error (Errno, eMFILE, eNFILE)
import GHC.IO.Exception (IOException (..))
import Millrace.Internal.Errors (failure)

-- | @lookUpError attempted name code@ is the @IOError@ of an error code of the system. A look-up opens files and
-- sockets. If descriptors have run out, the error says what helps.
--
-- >>> import Foreign.C.Error (eACCES, eMFILE)
-- >>> lookUpError "looking up the host" "example.net" eACCES
-- example.net: looking up the host: permission denied (Permission denied)
lookUpError :: String -> String -> Errno -> IOError
lookUpError attempted name code
  | code == eMFILE = problem {ioe_description = ioe_description problem ++ remedy}
  | otherwise = problem
  where
    problem = failure attempted name code
    remedy =
      "; the look-up needs some: close others, or raise their limit (ulimit -n, or LimitNOFILE= of a systemd unit)"

-- | Whether an error code says that this process, or the system, can open no more descriptors.
--
-- >>> map outOfDescriptors [eMFILE, eACCES]
-- [True,False]
outOfDescriptors :: Errno -> Bool
outOfDescriptors code = code `elem` [eMFILE, eNFILE]
