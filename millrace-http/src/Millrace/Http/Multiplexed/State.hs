-- |
-- The state of a request that is served over HTTP\/2 or HTTP\/3: each field by name, with the type of its content. Must
-- not know: sockets,
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

import Millrace.Deadline (Deadline)
import Millrace.Http.Field
import Millrace.Internal.AtomicWord (AtomicWord)

-- | The state of one request and its response.
type StreamState = Words StreamField

-- | The names of its words.
data StreamField
  = ResponseBytes
  | DeclaredLength
  | IsStreaming
  | ExpectationWord
  | ReadingNow
  | TotalDeadline
  | WriterWaited
  | SentBefore
  | WriteIsPartial
  deriving (Bounded, Enum)

-- | The state of a new request: no response, no limits.
newStreamState :: IO StreamState
newStreamState = do
  state <- newWords
  writeField state responseBytes Nothing
  writeField state declaredLength Nothing
  return state

-- | The number of the response's body's bytes so far, if it has a body.
responseBytes :: Field StreamState (Maybe Int)
responseBytes = named ResponseBytes

-- | The length that the response's head declares, if it declares one.
declaredLength :: Field StreamState (Maybe Int)
declaredLength = named DeclaredLength

-- | Whether the application's code for a stream runs in the thread that serves the request.
isStreaming :: Field StreamState Bool
isStreaming = named IsStreaming

-- | The word of "Millrace.Http.Expectation".
expectationWord :: StreamState -> AtomicWord
expectationWord = atomicWord ExpectationWord

-- | The rule for reading the request's body.
reading :: Field StreamState Reading
reading = named ReadingNow

-- | The deadline of all waiting for the client.
totalDeadline :: Field StreamState Deadline
totalDeadline = named TotalDeadline

-- | For how many nanoseconds the response's writer has waited for the client since the last check of its rate, and the
-- progress until then, in bytes.
writerWaited, sentBefore :: Field StreamState Int
writerWaited = named WriterWaited
sentBefore = named SentBefore

-- | Whether a write of the application has passed a part of its bytes on, and not yet the rest.
writeIsPartial :: Field StreamState Bool
writeIsPartial = named WriteIsPartial

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
