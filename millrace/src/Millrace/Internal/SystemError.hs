-- Must not know: sockets, operations.

-- | Error codes of the system as 'IOError's.
--
-- From base 4.20 on, 'errnoToIOError' makes a @safe@ foreign call for the text of each error. Other threads run
-- meanwhile, in an order that depends on real time, so that runs of a simulation would not repeat. So each error is
-- made once and kept, and a simulation makes all of them before it begins.
module Millrace.Internal.SystemError
  ( systemError,
    prepareSystemErrors,
  )
where

import Control.Exception (evaluate)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Foreign.C.Error (Errno (..), eTIMEDOUT, errnoToIOError)
import System.IO.Error (ioeSetErrorString, ioeSetFileName, ioeSetLocation)

-- | @systemError attempted code object@ is 'errnoToIOError' without a handle. A passed deadline is called so.
systemError :: String -> Errno -> Maybe FilePath -> IOError
systemError attempted code@(Errno number) object
  | number >= 0 && index < sizeofSmallArray known =
    maybe id (flip ioeSetFileName) object (indexSmallArray known index `ioeSetLocation` attempted)
  | otherwise = inOurWords code (errnoToIOError attempted code Nothing object)
  where
    index = fromIntegral number

-- The system's words for a deadline are "Connection timed out", and make one look for a fault of the network.
inOurWords :: Errno -> IOError -> IOError
inOurWords code problem
  | code == eTIMEDOUT = problem `ioeSetErrorString` "the deadline has passed, or the peer answers no more"
  | otherwise = problem

-- Linux and BSD have fewer than 140 codes; the few that Windows has above are made when they are needed.
known :: SmallArray IOError
known = smallArrayFromList (map made [0 .. 139])
  where
    made number = let code = Errno number in inOurWords code (errnoToIOError "" code Nothing Nothing)
{-# NOINLINE known #-}

-- | Makes all errors. Takes a tenth of a millisecond, once.
prepareSystemErrors :: IO ()
prepareSystemErrors = mapM_ (evaluate . indexSmallArray known) [0 .. sizeofSmallArray known - 1]
