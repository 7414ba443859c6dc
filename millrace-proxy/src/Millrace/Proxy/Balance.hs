{-# LANGUAGE TupleSections #-}

-- Must not know: connections.

-- | Chooses one of several targets for a request (load balancing).
module Millrace.Proxy.Balance
  ( Balancer,
    newBalancer,
    balancerMembers,
    chooseMember,
  )
where

import Control.Monad (filterM)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Foldable (maximumBy, minimumBy)
import Data.IORef
import Data.List.NonEmpty (nonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Ord (comparing)
import Data.Word (Word64)
import Millrace.Proxy.Member
import Millrace.Proxy.Settings
import Millrace.Proxy.Target (showTarget)
import Network.Wai (Request)

-- | The members, and the number of the one that has the next turn.
data Balancer = Balancer !Balancing [Member] !(IORef Int)

newBalancer :: Balancing -> [Member] -> IO Balancer
newBalancer how members = Balancer how members <$> newIORef 0

-- | All members.
balancerMembers :: Balancer -> [Member]
balancerMembers (Balancer _ members _) = members

-- | Chooses a member for a request, other than those that were tried already. 'Nothing': there is no other. If no
-- member is known to be well, it chooses any of them, because what is known may be out of date.
chooseMember :: Balancer -> Request -> [Member] -> IO (Maybe Member)
chooseMember (Balancer how members turn) request tried = case (members, tried) of
  ([only], []) -> return (Just only)
  _ -> do
    let left = filter ((`notElem` map memberTarget tried) . memberTarget) members
    usable <- filterM isUsable left
    traverse pick (nonEmpty (if null usable then left else usable))
  where
    pick candidates = case how of
      HashOf key -> return (maximumBy (comparing (weight (hashOf (key request)))) candidates)
      RoundRobin -> rotated candidates
      LeastConnections -> do
        first <- rotatedList candidates
        counted <- mapM (\member -> (,member) <$> readIORef (memberActive member)) first
        return (snd (minimumBy (comparing fst) counted))
    rotated candidates = NonEmpty.head <$> rotatedList candidates
    rotatedList candidates = do
      number <- atomicModifyIORef' turn (\count -> (if count == maxBound then 0 else count + 1, count))
      let (before, from) = NonEmpty.splitAt (number `mod` length candidates) candidates
      return (NonEmpty.fromList (from ++ before))

-- The weight of a pair of key and member. The heaviest member gets the key (rendezvous hashing): if a member goes, the
-- keys of the others stay with them.
weight :: Word64 -> Member -> Word64
weight key member = scrambled (key `xor` scrambled (hashOf (Char8.pack (showTarget (memberTarget member)))))

-- FNV-1a
hashOf :: ByteString -> Word64
hashOf = ByteString.foldl' (\hash byte -> (hash `xor` fromIntegral byte) * 0x100000001b3) 0xcbf29ce484222325

scrambled :: Word64 -> Word64
scrambled number =
  let product' = (number `xor` (number `div` 0x100000000)) * 0xd6e8feb86659fd93
   in product'
        `xor` (product' `div` 0x100000000)
