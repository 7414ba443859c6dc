-- Must not know: servers, files.

-- | Checks the names of a proxy's targets.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Config.Target (targetProblem) where

import Millrace.Proxy (parseTarget)

-- | The reason why a text is not a target. 'Nothing': it is one.
targetProblem :: String -> Maybe String
targetProblem = either Just (const Nothing) . parseTarget
