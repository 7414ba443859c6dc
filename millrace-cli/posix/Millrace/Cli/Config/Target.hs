-- | What a configuration may name as a target of the proxy. Must not know: servers, files.
--
-- The same name in @windows\/@ is for Windows; the package description chooses.
module Millrace.Cli.Config.Target (targetProblem) where

import Millrace.Proxy (parseTarget)

-- | Why a text is not a target. 'Nothing' if it is one.
targetProblem :: String -> Maybe String
targetProblem = either Just (const Nothing) . parseTarget
