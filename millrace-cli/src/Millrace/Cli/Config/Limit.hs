-- Must not know: servers.

-- | The limits of a server that its user can change, by the names that they have in configuration files and after
-- @--limit@.
module Millrace.Cli.Config.Limit
  ( Limit (..),
    limitName,
    limitRange,
    limitUnit,
    limitMeaning,
    limitUsual,
    LimitOptions,
    noLimitOptions,
    limitsFrom,
    limitOf,
    limitsWith,
  )
where

import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map

-- | The limits, in the order in which a configuration is printed. "Network.Wai.Handler.Millrace" has the meaning of
-- each.
data Limit
  = LimitConnections
  | LimitReservedDescriptors
  | LimitHeadBytes
  | -- | Bytes of the path and the query of a request.
    LimitUrlBytes
  | LimitFields
  | LimitBodyBytes
  | LimitHeadSeconds
  | LimitBodySeconds
  | LimitSendSeconds
  | LimitIdleSeconds
  | LimitTotalSeconds
  | LimitBytesPerSecond
  | -- | The time over which 'LimitBytesPerSecond' is an average.
    LimitRateSeconds
  | -- | This one and the following ones are for HTTP\/2 and HTTP\/3.
    LimitStreams
  | LimitResets
  | LimitResetsPerSecond
  | LimitUselessFrames
  | LimitUselessFramesPerSecond
  | LimitStreamWindow
  | LimitConnectionWindow
  | LimitLargestWindow
  | LimitCompressionTable
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | The name of a limit in configuration files and after @--limit@.
limitName :: Limit -> String
limitName limit = case described limit of Described name _ _ _ -> name

-- | The least and the greatest number that a limit may have.
limitRange :: Limit -> (Integer, Integer)
limitRange limit = case described limit of Described _ range _ _ -> range

-- | The unit of the number, as a placeholder: @BYTES@.
limitUnit :: Limit -> String
limitUnit limit = case described limit of Described _ _ unit _ -> unit

-- | The meaning of a limit, for the reference.
limitMeaning :: Limit -> String
limitMeaning limit = case described limit of Described _ _ _ meaning -> meaning

-- | The value that holds if the user sets none: that of @defaultSettings@ in "Network.Wai.Handler.Millrace". A test
-- compares them.
limitUsual :: Limit -> String
limitUsual limit = case limit of
  LimitConnections -> "as many as descriptors allow"
  LimitReservedDescriptors -> ""
  LimitHeadBytes -> "51200"
  LimitUrlBytes -> "8192"
  LimitFields -> "128"
  LimitBodyBytes -> "any size"
  LimitHeadSeconds -> "30"
  LimitBodySeconds -> "30"
  LimitSendSeconds -> "30"
  LimitIdleSeconds -> "30"
  LimitTotalSeconds -> "any time"
  LimitBytesPerSecond -> "0"
  LimitRateSeconds -> "10"
  LimitStreams -> "128"
  LimitResets -> "1000"
  LimitResetsPerSecond -> "100"
  LimitUselessFrames -> "4000"
  LimitUselessFramesPerSecond -> "500"
  LimitStreamWindow -> "262144"
  LimitConnectionWindow -> "1048576"
  LimitLargestWindow -> "25165824"
  LimitCompressionTable -> "4096"

data Described = Described String (Integer, Integer) String String

described :: Limit -> Described
described limit = case limit of
  LimitConnections ->
    Described
      "connections"
      (1, 10000000)
      "N"
      "Open connections at a time on each address; at \
      \the limit idle ones are closed for new ones, and if there are none, these wait"
  LimitReservedDescriptors ->
    Described
      "reserved-descriptors"
      (0, 1000000)
      "N"
      "Open files that connections leave to files, logs and targets"
  LimitHeadBytes -> Described "head-bytes" (1024, 1048576) "BYTES" "The size of a request's head"
  LimitUrlBytes ->
    Described
      "url-bytes"
      (1, 1048576)
      "BYTES"
      "The length of a request's path and query, and no \
      \more than `head-bytes`; a longer one gets a 414. Bytes beyond ASCII are taken as they are"
  LimitFields -> Described "fields" (1, 10000) "N" "The number of a request's fields"
  LimitBodyBytes ->
    Described
      "body-bytes"
      (0, 2 ^ (62 :: Int))
      "BYTES"
      "The size of a request's body; a larger one gets a 413"
  LimitHeadSeconds -> seconds "head-seconds" "How long a client may take to send a head"
  LimitBodySeconds -> seconds "body-seconds" "How long a client may send nothing of a request's body"
  LimitSendSeconds -> seconds "send-seconds" "How long a client may take nothing of an answer"
  LimitIdleSeconds ->
    seconds
      "idle-seconds"
      "How long a connection may wait for its next request; PING and the like do not count. Before its first \
      \request, and after a TLS handshake, it may wait as long as `head-seconds` says, if that is longer"
  LimitTotalSeconds -> seconds "total-seconds" "How long a request may take in all"
  LimitBytesPerSecond ->
    Described
      "bytes-per-second"
      (0, 1000000000)
      "BYTES"
      "The least rate at which a client must send a body or take an answer; without it, or with 0, there is none"
  LimitRateSeconds -> seconds "rate-seconds" "The time over which `bytes-per-second` is an average"
  LimitStreams -> Described "streams" (1, 10000) "N" "Requests at a time on a connection of HTTP/2 or HTTP/3"
  LimitResets ->
    many
      "resets"
      "How many requests on a connection of HTTP/2 or HTTP/3 a client may cancel at once \
      \while the server works on them"
  LimitResetsPerSecond -> rate "resets-per-second" "How many more of them per second, on average"
  LimitUselessFrames ->
    many
      "useless-frames"
      "How many frames of HTTP/2 without content, such as PING, a client may send at once; over HTTP/3 four \
      \packets count as one frame"
  LimitUselessFramesPerSecond -> rate "useless-frames-per-second" "How many more of them per second, on average"
  LimitStreamWindow ->
    window
      "stream-window-bytes"
      "How much of a request's body may arrive before it is read, at the beginning of the connection"
  LimitConnectionWindow -> window "connection-window-bytes" "The same for all bodies of a connection together"
  LimitLargestWindow -> window "largest-window-bytes" "The most that this window grows to"
  LimitCompressionTable ->
    Described
      "compression-table-bytes"
      (0, 65536)
      "BYTES"
      "Memory for each connection of HTTP/2 in which the server remembers \
      \fields of its answers, to send them in a byte or two the next time"
  where
    seconds name = Described name (1, 86400) "SECONDS"
    window name = Described name (65535, 2147483647) "BYTES"
    many name = Described name (1, 1000000000) "N"
    rate name = Described name (0, 1000000000) "N"

-- | The limits that the user has changed. The others have the library's values.
newtype LimitOptions = LimitOptions (Map Limit Int)
  deriving (Eq, Show)

-- | No limit is changed.
noLimitOptions :: LimitOptions
noLimitOptions = LimitOptions Map.empty

-- | Changes these limits. Of several numbers for one limit the last one counts.
limitsFrom :: [(Limit, Int)] -> LimitOptions
limitsFrom = LimitOptions . Map.fromList

-- | The number of a limit, if it is changed.
limitOf :: LimitOptions -> Limit -> Maybe Int
limitOf (LimitOptions found) limit = Map.lookup limit found

-- | All changed limits and their numbers.
limitsWith :: LimitOptions -> [(Limit, Int)]
limitsWith (LimitOptions found) = Map.toList found
