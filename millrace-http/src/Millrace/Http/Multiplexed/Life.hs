-- |
-- The life of a request of HTTP\/2 or HTTP\/3: it begins with its stream and ends when its handler has returned. Then
-- the engine frees the
-- stream. An application may keep the request, and may use it in any thread at any time. So whatever reaches the stream
-- for such a use
-- does so while the request is alive, and the end of its life waits for that. Must not know: connections.
module Millrace.Http.Multiplexed.Life (Life, newLife, whileAlive, isAlive, endLife) where

import Control.Concurrent.MVar (MVar, newMVar, putMVar, readMVar, takeMVar, withMVar)
import Control.Exception (uninterruptibleMask_)
import Network.HTTP.Types (RequestHeaders)

-- | The life of one request.
newtype Life = Life (MVar State)

data State
  = Alive
  | -- | The trailers of the request.
    Over RequestHeaders

-- | A life that begins.
newLife :: IO Life
newLife = Life <$> newMVar Alive

-- | @whileAlive life ended action@ runs the action if the request is alive, which it stays meanwhile. Otherwise runs
-- @ended@, with the trailers that the request had. Any thread may call this. The action must be short, because the end
-- waits for it, and must not use the life.
whileAlive :: Life -> (RequestHeaders -> IO a) -> IO a -> IO a
whileAlive (Life state) ended action = withMVar state choose
  where
    choose Alive = action
    choose (Over trailers) = ended trailers
{-# INLINEABLE whileAlive #-}

-- | Whether it is alive. Only the thread that ends the life knows that it stays so.
isAlive :: Life -> IO Bool
isAlive (Life state) = alive <$> readMVar state
  where
    alive Alive = True
    alive (Over _) = False

-- | Ends the life. The action reads the trailers.
endLife :: Life -> IO RequestHeaders -> IO ()
endLife (Life state) readLast = uninterruptibleMask_ (takeMVar state >> readLast >>= putMVar state . Over)
{-# INLINEABLE endLife #-}
