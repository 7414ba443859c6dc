-- | Sending files, from Warp's internal interface, and a function from within Warp that the same spec calls.
module Network.Wai.Handler.Warp.SendFile (packHeader, readSendFile) where

import Data.ByteString (ByteString)
import Network.Wai.Handler.Warp.Internal (BufSize, Buffer, readSendFile)

-- | Throws: Millrace has nothing like it.
packHeader :: Buffer -> BufSize -> (ByteString -> IO ()) -> IO () -> [ByteString] -> Int -> IO Int
packHeader _ _ _ _ _ _ = ioError (userError "Millrace packs no heads into buffers of Warp")
