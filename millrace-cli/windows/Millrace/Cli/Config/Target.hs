-- Must not know: servers, files.

-- | What a configuration may name as a target of the proxy, which does not exist on Windows yet.
module Millrace.Cli.Config.Target (targetProblem) where

-- | Nothing is said here about targets; the proxy refuses to start.
targetProblem :: String -> Maybe String
targetProblem _ = Nothing
