-- |
-- The state of a request that is served over HTTP\/2 or HTTP\/3: each field by name, with the type of its content. Must not know: sockets,
-- listeners, WAI.
module Millrace.Http.Multiplexed.State
  ( StreamState,
    newStreamState,
    responseBytes,
    declaredLength,
    isStreaming,
    reading,
    totalDeadline,
    writerWaited,
    sentBefore,
    writeIsPartial,
    expectationWord,
    Reading (..),
  )
where

import Data.Primitive.ByteArray (newByteArray, readByteArray, setByteArray, writeByteArray)
import Millrace.Deadline (Deadline)
import Millrace.Http.Field
import Millrace.Internal.AtomicWord (AtomicWord (..), AtomicWords)

-- | The state of one request and its response.
newtype StreamState = StreamState AtomicWords

instance Record StreamState where
  readWord (StreamState words') offset = readByteArray words' (offset `quot` wordSize)
  {-# INLINE readWord #-}
  writeWord (StreamState words') offset = writeByteArray words' (offset `quot` wordSize)
  {-# INLINE writeWord #-}

wordSize, wordCount :: Int
wordSize = 8
wordCount = 9

-- | The state of a new request: no response, no limits.
newStreamState :: IO StreamState
newStreamState = do
  words' <- newByteArray (wordCount * wordSize)
  setByteArray words' 0 wordCount (0 :: Int)
  let state = StreamState words'
  writeField state responseBytes Nothing
  writeField state declaredLength Nothing
  return state

-- | The number of the response's body's bytes so far, if it has a body.
responseBytes :: Field StreamState (Maybe Int)
responseBytes = Field 0

-- | The length that the response's head declares, if it declares one.
declaredLength :: Field StreamState (Maybe Int)
declaredLength = Field 8

-- | Whether the application's code for a stream runs in the thread that serves the request.
isStreaming :: Field StreamState Bool
isStreaming = Field 16

-- | The word of "Millrace.Http.Expectation".
expectationWord :: StreamState -> AtomicWord
expectationWord (StreamState words') = AtomicWord words' (24 `quot` wordSize)

-- | The rule for reading the request's body.
reading :: Field StreamState Reading
reading = Field 32

-- | The deadline of all waiting for the client.
totalDeadline :: Field StreamState Deadline
totalDeadline = Field 40

-- | For how many nanoseconds the response's writer has waited for the client since the last check of its rate, and the
-- progress until then, in bytes.
writerWaited, sentBefore :: Field StreamState Int
writerWaited = Field 48
sentBefore = Field 56

-- | Whether a write of the application has passed a part of its bytes on, and not yet the rest.
writeIsPartial :: Field StreamState Bool
writeIsPartial = Field 64

-- | What holds for reading the request's body.
data Reading
  = WithinTimeLimits
  | WithoutTimeLimits
  | -- | The request is over. Another thread of the application may still wait for more.
    Over
  deriving (Eq, Enum)

instance Unboxed Reading where
  toWord = fromEnum
  {-# INLINE toWord #-}
  fromWord = toEnum
  {-# INLINE fromWord #-}
