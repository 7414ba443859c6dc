{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of answers share.
module AnswerSupport
  ( told,
    hostOf,
    answersTo,
  )
where

import Data.IORef
import Data.Word (Word8)
import Network.HTTP.Types
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Wai
import Network.Wai.Handler.Millrace
import Support

-- | The status of an answer, and the number of its bytes.
told :: Answer -> (Int, Maybe Int)
told answer = (statusCode (answerStatus answer), answerBytes answer)

-- | The bytes of an address of IPv4 that the tests use.
hostOf :: SockAddr -> Maybe (Word8, Word8, Word8, Word8)
hostOf (SockAddrInet _ host) =
  lookup host [(tupleToHostAddress address, address) | address <- [(127, 0, 0, 1), (192, 0, 2, 7)]]
hostOf _ = Nothing

-- | The result of an action that uses the server, and the answers that the observer got, in order.
answersTo :: (Settings -> Settings) -> Application -> (Int -> IO a) -> IO (a, [Answer])
answersTo change application talk = do
  answers <- newIORef []
  result <- withServerToItsEnd (change . setOnAnswer (\answer -> modifyIORef' answers (answer :))) application talk
  (,) result . reverse <$> readIORef answers
