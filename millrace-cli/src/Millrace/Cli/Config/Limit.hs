-- | The limits of a server that its user can change, by the names that they have in configuration files and after @--limit@. Must not know:
-- servers.
module Millrace.Cli.Config.Limit
  ( Limit (..),
    limitName,
    limitRange,
    LimitOptions,
    noLimitOptions,
    limitsFrom,
    limitOf,
    limitsWith,
    readLimit,
  )
where

import Data.Char (isDigit)
import Data.List (intercalate)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map

-- | In the order in which a configuration is printed. "Network.Wai.Handler.Millrace" has the meaning of each.
data Limit
  = LimitConnections
  | LimitReservedDescriptors
  | LimitHeadBytes
  | -- | Of the path and the query of a request.
    LimitUrlBytes
  | LimitFields
  | LimitBodyBytes
  | LimitHeadSeconds
  | LimitBodySeconds
  | LimitSendSeconds
  | LimitIdleSeconds
  | LimitTotalSeconds
  | -- | The rest is for HTTP/2 and 3.
    LimitStreams
  | LimitResets
  | LimitResetsPerSecond
  | LimitUselessFrames
  | LimitUselessFramesPerSecond
  | LimitStreamWindow
  | LimitConnectionWindow
  | LimitLargestWindow
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | Its name for users.
limitName :: Limit -> String
limitName = fst . described

-- | The least and the greatest number.
limitRange :: Limit -> (Integer, Integer)
limitRange = snd . described

described :: Limit -> (String, (Integer, Integer))
described limit = case limit of
  LimitConnections -> ("connections", (1, 10000000))
  LimitReservedDescriptors -> ("reserved-descriptors", (0, 1000000))
  LimitHeadBytes -> ("head-bytes", (1024, 1048576))
  LimitUrlBytes -> ("url-bytes", (1, 1048576))
  LimitFields -> ("fields", (1, 10000))
  LimitBodyBytes -> ("body-bytes", (0, 2 ^ (62 :: Int)))
  LimitHeadSeconds -> ("head-seconds", seconds)
  LimitBodySeconds -> ("body-seconds", seconds)
  LimitSendSeconds -> ("send-seconds", seconds)
  LimitIdleSeconds -> ("idle-seconds", seconds)
  LimitTotalSeconds -> ("total-seconds", seconds)
  LimitStreams -> ("streams", (1, 10000))
  LimitResets -> ("resets", (1, 1000000000))
  LimitResetsPerSecond -> ("resets-per-second", (0, 1000000000))
  LimitUselessFrames -> ("useless-frames", (1, 1000000000))
  LimitUselessFramesPerSecond -> ("useless-frames-per-second", (0, 1000000000))
  LimitStreamWindow -> ("stream-window-bytes", window)
  LimitConnectionWindow -> ("connection-window-bytes", window)
  LimitLargestWindow -> ("largest-window-bytes", window)
  where
    seconds = (1, 86400)
    window = (65535, 2147483647)

-- | Those that are changed. The others are the library's own.
newtype LimitOptions = LimitOptions (Map Limit Int)
  deriving (Eq, Show)

-- | All of them the library's own.
noLimitOptions :: LimitOptions
noLimitOptions = LimitOptions Map.empty

-- | Of several for one limit the last one counts.
limitsFrom :: [(Limit, Int)] -> LimitOptions
limitsFrom = LimitOptions . Map.fromList

-- | The number, if it is changed.
limitOf :: LimitOptions -> Limit -> Maybe Int
limitOf (LimitOptions found) limit = Map.lookup limit found

-- | All that are changed.
limitsWith :: LimitOptions -> [(Limit, Int)]
limitsWith (LimitOptions found) = Map.toList found

-- | Reads @NAME=NUMBER@, or says what is wrong with it.
readLimit :: String -> Either String (Limit, Int)
readLimit text = case break (== '=') text of
  (name, '=' : number) -> maybe (Left (unknown name)) (`within` number) (lookup name named)
  _ -> Left ("'" <> text <> "' is not NAME=NUMBER")
  where
    named = [(limitName limit, limit) | limit <- [minBound ..]]
    unknown name = "there is no limit '" <> name <> "'; choose one of: " <> intercalate ", " (map fst named)
    within limit number
      | not (null number) && all isDigit number && wanted >= low && wanted <= high = Right (limit, fromInteger wanted)
      | otherwise = Left ("'" <> number <> "' is not a number from " <> show low <> " to " <> show high)
      where
        wanted = read number :: Integer
        (low, high) = limitRange limit
