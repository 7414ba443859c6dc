-- Must not know: servers, files.

-- | Finds settings that are valid one by one and contradict each other.
module Millrace.Cli.Config.Consistency
  ( limitProblem,
    addressProblem,
    hasFormatWithoutLog,
    commandLineProblem,
  )
where

import Control.Applicative ((<|>))
import Data.Foldable (asum, toList)
import Data.List (inits)
import Data.Maybe (isNothing)
import Millrace.Cli.Base.Address (authority)
import Millrace.Cli.Config.Limit
import Millrace.Cli.Config.Options
import Network.Wai.Millrace.AccessLog (LogFormat (Combined))
import Text.Read (readMaybe)

-- | The reason why limits cannot hold together. 'Nothing': they can.
limitProblem :: LimitOptions -> Maybe String
limitProblem limits = asum [above LimitUrlBytes LimitHeadBytes, above LimitStreamWindow LimitLargestWindow]
  where
    above smaller greater = do
      chosen <- limitOf limits smaller
      most <- limitOf limits greater <|> readMaybe (limitUsual greater)
      if chosen > most then Just (text smaller chosen greater most) else Nothing
    text smaller chosen greater most =
      concat
        ["'", limitName smaller, "' is ", show chosen, ", more than '", limitName greater, "', which is ", show most]

-- | The reason why the server cannot listen on an address, given the port of the status pages, and the addresses before
-- it. 'Nothing': nothing here is against it. Addresses on port 0 get different ports.
addressProblem :: ServerOptions -> [ListenOptions] -> ListenOptions -> Maybe String
addressProblem options earlier found
  | listenPort found == 0 = Nothing
  | Just (listenPort found) == serverStatusPort options = Just (taken "'status' has it")
  | other : _ <- filter (overlaps (serverReusePort options) found) earlier =
    Just (taken ("the server also listens on " <> authority (listenHost other) (listenPort other)))
  | otherwise = Nothing
  where
    taken reason = "port " <> show (listenPort found) <> " is taken: " <> reason

-- Whether the system would refuse the second of these sockets, or divide connections between them. A socket for all
-- addresses takes those of each one, unless ports are shared.
overlaps :: Bool -> ListenOptions -> ListenOptions -> Bool
overlaps isShared one other = listenPort one == listenPort other && (host == host' || not isShared && isCovered)
  where
    (host, host') = (listenHost one, listenHost other)
    isCovered = covers host host' || covers host' host
    covers everyone single = everyone == "::" || everyone == "0.0.0.0" && (isIp4 single || single == "::")
    isIp4 = all (`elem` "0123456789.")

-- | Whether a format is chosen for an access log that is not written.
hasFormatWithoutLog :: ServerOptions -> Bool
hasFormatWithoutLog options = serverLogFormat options /= Combined && isNothing (serverAccessLog options)

-- | The reason why the options of a command cannot be used together. 'Nothing': they can.
commandLineProblem :: ServerOptions -> Maybe String
commandLineProblem options =
  asum (ofLog : limitProblem (serverLimits options) : map address (inits (toList (serverListens options))))
  where
    ofLog = if hasFormatWithoutLog options then Just "--log-format needs --access-log" else Nothing
    address addresses = case reverse addresses of
      [] -> Nothing
      found : earlier -> (\problem -> listenSaidBy found <> ": " <> problem) <$> addressProblem options earlier found
